"""Comparisons in a few sentences, for a terminal."""

import numpy as np

from mtgbn._utils.names import listed
from mtgbn.compare.group_tables import INDEPENDENCE, PAPERS_WAY, RELABELLING, permuted_pvalues
from mtgbn.compare.strengths import MEASURES
from mtgbn.compare.study import Study, SubjectStudy, TemplateComparison
from mtgbn.compare.subject_tables import ALARM_LEVEL

# A larger false discovery rate makes a departure not worth a sentence.
LARGEST_FDR = 0.2


def study_sentences(study: Study, most: int = 5) -> list[str]:
    """Say which group is which, which pairs differ most, and how far to trust the p-values."""
    n_a, n_b = len(study.names_a), len(study.names_b)
    lines = [
        f"Group a is {study.label_a!r} ({n_a} subjects), group b is {study.label_b!r} ({n_b}). "
        "p_greater: more in a."
    ]
    for template in study.templates:
        edges = [graphs.sum(axis=(1, 2)).mean() for graphs in template.fits[:2]]
        lines.append(
            f"{template.name}: {len(template.variables)} variables; {edges[0]:.1f} edges per subject in "
            f"{study.label_a}, {edges[1]:.1f} in {study.label_b}."
        )
        fitted = template.fits.estimators
        ns = np.concatenate([each.tasks_.ns for each in fitted])
        lines.append(fitted[0].min_strength_.in_words(ns))
    ranked = sorted(
        (float(template.undirected.p_two_sided[k]), place, k)
        for place, template in enumerate(study.templates)
        for k in range(min(most, len(template.undirected.source)))
        if template.undirected.difference[k] != 0
    )
    lines.append(
        "Pairs that differ most, in either direction (directions: connections.tsv):"
        if ranked
        else "Every pair has an edge equally often in both groups."
    )
    for _, place, k in ranked[:most]:
        lines.append("  " + _pair_sentence(study, study.templates[place], k))
    for template in study.templates:
        if template.permutations is not None:
            lines.append(
                f"{template.name}: the hypothesis that the groups differ in no pair has p = "
                f"{template.permutations.pvalue:.3g} ({study.n_permutations} relabellings, with which "
                f"the smallest possible p is {1 / (study.n_permutations + 1):.2g})."
            )
    if study.n_permutations:
        lines.append(f"Relabelling: {RELABELLING[study.fitting]}.")
    else:
        lines.append(f"Beware: {INDEPENDENCE} (--relabellings 199).")
    lines.append(f"Note: {PAPERS_WAY}.")
    return lines


def _pair_sentence(study: Study, template: TemplateComparison, k: int) -> str:
    test = template.undirected
    i, j = int(test.source[k]), int(test.target[k])
    text = (
        f"{template.variables[i]} - {template.variables[j]} ({template.name}): {test.count_a[k]} of "
        f"{test.n_a} {study.label_a}, {test.count_b[k]} of {test.n_b} {study.label_b}; "
        f"p = {test.p_two_sided[k]:.3g}, q = {test.q[k]:.2g}"
    )
    if template.permutations is not None:
        p, corrected = permuted_pvalues(template.permutations, "undirected")
        text += f"; by relabelling p = {p[i, j]:.3g}, corrected {corrected[i, j]:.2g}"
    return text


def subject_sentences(study: SubjectStudy, most: int = 5) -> list[str]:
    """Say which connections depart, and how often controls depart from the other controls."""
    lines = []
    n = len(study.controls)
    if study.formula is not None:
        lines.append(
            f"Held constant: {study.formula}. {study.subject} is compared with what is expected of "
            "controls with the same values."
        )
    if study.left_out:
        lines.append(f"Controls left out for lack of a value: {listed(study.left_out)}.")
    for name, (variables, found) in study.templates.items():
        number = int(np.sum(found.fdr <= LARGEST_FDR))
        if number == 0:
            lines.append(
                f"{name}: no connection of {study.subject} departs from the {n} controls with a false "
                f"discovery rate of at most {LARGEST_FDR:g}; the largest departure:"
            )
        else:
            lines.append(
                f"{name}: {number} connection{'s' * (number > 1)} of {study.subject} depart"
                f"{'s' * (number == 1)} from the {n} controls (false discovery rate at most "
                f"{LARGEST_FDR:g}):"
            )
        label = MEASURES[found.measure].label
        for k in range(min(most, max(number, 1))):
            pair = f"{variables[found.source[k]]} - {variables[found.target[k]]}"
            lines.append(
                f"  {pair}: {label} {found.strength[k]:.2f} in {study.subject}, "
                f"{found.control_strength[k]:.2f} in controls; an edge with probability "
                f"{found.probability[k]:.2f} from the subject's data as a single task, in "
                f"{found.control_count[k]} of {n} controls; p = {found.pvalue[k]:.3g}, false discovery "
                f"rate {found.fdr[k]:.2g}"
            )
        rates = found.alarm_rates(ALARM_LEVEL)
        lines.append(
            f"  Controls against each other: {rates.mean():.3f} of the pairs have p below "
            f"{ALARM_LEVEL:g} ({rates.min():.3f} to {rates.max():.3f} of the pairs of one control)."
        )
    return lines
