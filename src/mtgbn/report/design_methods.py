"""A paragraph of methods for a paper, from the settings of a comparison by a design."""

from typing import Any, NamedTuple

from mtgbn.compare.directions import N_COHORTS
from mtgbn.learn import MTGBN
from mtgbn.report.design_differences import methods_of_differences
from mtgbn.report.design_networks import LEAST_SUPPORT
from mtgbn.report.design_words import (
    blocks_in_words,
    held_constant,
    in_a_row,
    left_out_in_words,
    n_kept_directions,
    number_range,
    sizes_in_words,
    unit_of,
    what_is_tested,
    who_is_compared,
)
from mtgbn.report.page import brief
from mtgbn.report.references import Citations

# Settings of the estimator that other sentences are about, or that change no result.
_SAID_ELSEWHERE = ("inference", "min_strength", "missing", "n_jobs", "random_state")


class Methods(NamedTuple):
    """Paragraphs that cite numbered references, these references, and a BibTeX file of them."""

    paragraphs: list[str]
    references: list[str]
    bibtex: str


def design_methods(about: dict[str, Any]) -> Methods:
    """Write the methods of a comparison; every sentence is about the settings that were used.

    ``about`` has the contents of comparison.json.
    """
    cite = Citations()
    paragraphs = [
        " ".join(filter(None, sentences))
        for sentences in (
            [*_subjects(about), *_data(about, cite)],
            _networks(about, cite),
            _model(about, cite),
            _corrections(about, cite),
            methods_of_differences(about, cite),
            [_versions(about)],
        )
        if sentences
    ]
    return Methods(paragraphs, cite.texts, cite.bibtex)


def _subjects(about: dict[str, Any]) -> list[str]:
    sessions = about["sessions"]
    sizes = sizes_in_words(about["design"])
    groups = f" ({sizes})" if sizes else ""
    lines = [f"We compared {who_is_compared(about)}{groups}."]
    if sessions:
        numbers = [len(tasks) for tasks in sessions.values()]
        lines.append(
            f"They had {number_range([min(numbers), max(numbers)])} sessions each, "
            f"{sum(numbers)} in all."
        )
    return [*lines, *left_out_in_words(about, with_names=False)]


def _data(about: dict[str, Any], cite: Citations) -> list[str]:
    data, templates = about["data"], about["templates"]
    reading = about.get("settings", {}).get("reading", {})
    one = "session" if about["sessions"] else unit_of(about)
    lines = []
    if data["rows"] is not None:
        lines.append(f"Every {one} had {number_range(data['rows'])} rows of data.")
    if len(templates) > 1:
        named = [f"{name} ({len(each['variables'])} variables)" for name, each in templates.items()]
        lines.append(f"We analysed {in_a_row(named)} separately.")
    else:
        (only,) = templates.values()
        lines.append(f"We analysed {len(only['variables'])} variables.")
    lines.append(
        f"Every variable was scaled to variance 1 in every {one}."
        if data["standardised"]
        else "The variables were not scaled."
    )
    n = number_range(data["n"])
    method = reading.get("effective_samples", "unknown")
    words: dict[Any, str] = {
        "bartlett": f"The rows were treated as time series: the number of independent samples of every "
        f"{one} was estimated from the observed autocorrelations with Bartlett's formula",
        "ar1": f"The rows were treated as time series: the number of independent samples of every {one} "
        "was estimated, with every variable as a first-order autoregression",
        "none": "The rows were taken to be independent samples",
        None: "The rows were taken to be independent samples",
    }
    if method == "unknown":
        return [*lines, f"The data of every {one} had {n} degrees of freedom."]
    how = words.get(method, f"The number of independent samples was set to {brief(method)}")
    if method == "bartlett":
        how += f" {cite('bartlett1946')}"
    return [*lines, f"{how} (degrees of freedom: {n})."]


def _networks(about: dict[str, Any], cite: Citations) -> list[str]:
    settings = about.get("settings", {})
    fits = [each["fit"] for each in about["templates"].values()]
    method, version = fits[0]["method"], about["versions"]["mtgbn"]
    several = " of every template" if len(fits) > 1 else ""
    has_sessions = bool(about["sessions"]) or unit_of(about) == "session"
    one = "session" if has_sessions else "subject"
    blind = f"one fit{several} that knew neither groups nor covariates"
    if method == "SIG":
        lines = [
            f"The Gaussian Bayesian network of every {one} was learned as a single task, from its own "
            f"data, with mtgbn {version}, without knowledge of groups and covariates."
        ]
    elif method == "AVG":
        lines = [
            f"One Gaussian Bayesian network was learned from the pooled data of all subjects with mtgbn "
            f"{version}, in {blind}."
        ]
    else:
        lines = [
            f"All {'sessions of all ' if has_sessions else ''}subjects were learned jointly as "
            f"multitask Gaussian Bayesian networks {cite('liu2022')} with mtgbn {version}, in {blind}."
        ]
    if method == "MTGBN":
        lines.append(
            "Graphs were sampled from their posterior distribution; the networks join the pairs with a "
            "posterior probability above 0.5."
            if fits[0]["is_posterior"]
            else "The most probable graphs were found by expectation-maximisation."
        )
    limits = {name: each["fit"]["min_strength"] for name, each in about["templates"].items()}
    if len(set(limits.values())) == 1:
        lines.append(next(iter(limits.values())))
    else:
        lines += [f"In {name}: {text[0].lower()}{text[1:]}" for name, text in limits.items()]
    defaults = MTGBN().get_params()
    changed = [
        f"{name} = {brief(value)}"
        for name, value in settings.get("learner", {}).items()
        if name not in _SAID_ELSEWHERE and repr(value) != repr(defaults.get(name))
    ]
    if changed:
        lines.append(f"Settings other than the defaults of mtgbn: {', '.join(changed)}.")
    lines.append(
        f"The strength of every connection in every {one} was the partial correlation of its two "
        "variables given the parents in the learned networks, as Fisher's z, averaged over the "
        f"networks of all {one}s."
    )
    lines.append(
        f"Directions were not tested. They are shown where the pooled data of at least "
        f"{LEAST_SUPPORT:.0%} of {N_COHORTS} bootstrap cohorts, whose subjects are drawn with "
        "replacement, decide for them."
    )
    if about["sessions"]:
        lines.append(
            "Strengths of several sessions of a subject were averaged, weighted by their precision."
        )
    return lines


def _model(about: dict[str, Any], cite: Citations) -> list[str]:
    design = about["design"]
    held, kept = held_constant(design), n_kept_directions(design)
    if held and kept > len(design["nuisance"]):
        constant = (
            f"{in_a_row([*held, 'all other combinations of the columns of the design'])} were held "
            "constant."
        )
    elif held:
        constant = f"{in_a_row(held)} {'was' if len(held) == 1 else 'were'} held constant."
    elif kept > 0:
        constant = "All other combinations of the columns of the design were held constant."
    else:
        constant = "There were no nuisance covariates."
    lines = [
        f"At every connection, Fisher's z was the outcome of a linear model with the formula "
        f"'{design['formula']}'. We tested {what_is_tested(design, 'the term ')}. {constant}",
        f"Effects are reported as partial correlations ({about['effect']}) with 95 % confidence "
        "intervals.",
    ]
    groups = design["variance_groups"]
    statistic = design["statistic"]
    if groups is None:
        lines.append(f"The test statistic was {statistic}.")
    else:
        source = cite("welch1951", "johansen1980")
        lines.append(
            f"Because groups may differ in spread, the test statistic was {statistic} {source}, with a "
            f"separate residual variance in each of {groups} groups."
        )
    if max(each["n_connections"] for each in about["templates"].values()) > 1:
        lines.append(
            "Residual variances of the connections were moderated by empirical Bayes "
            f"{cite('smyth2004')}, anew for every permutation, and statistics were standardised for "
            "their degrees of freedom before they were compared."
        )
    blocks = blocks_in_words(about)
    within = f" within {blocks}" if blocks else ""
    permutations = next(iter(about["templates"].values()))["permutations"]
    source = cite("freedman1983", "winkler2014")
    removed = (
        "what is held constant was removed from the strengths, and the residuals were"
        if kept > 0
        else "the strengths were"
    )
    lines.append(
        f"p-values are from {permutations:,} random permutations by the method of Freedman and Lane "
        f"{source}: {removed} exchanged between {unit_of(about)}s{within}."
    )
    return lines


def _corrections(about: dict[str, Any], cite: Citations) -> list[str]:
    design, templates = about["design"], about["templates"]
    first = next(iter(templates.values()))
    numbers = [each["n_connections"] for each in templates.values()]
    where = (
        f"the {numbers[0]:,} connections"
        if len(numbers) == 1
        else f"the connections of a template ({in_a_row([f'{number:,}' for number in numbers])}), but "
        "not for the number of templates"
    )
    threshold = first["threshold_of_components"]
    # Statistics are standardised before they are compared.
    name = "|z|" if len(design["contrast"]) == 1 else "chi-square per degree of freedom"
    lines = [
        f"p-values were corrected for {where}, by comparison with the largest statistic of every "
        f"permutation (family-wise level {design['level']:g}). False discovery rates are those of "
        f"Benjamini and Hochberg {cite('benjamini1995')}.",
        f"Groups of connections were tested with the network-based statistic {cite('zalesky2010')} "
        f"({name} of at least {threshold:.3g}, which has p = 0.001 for normal errors) and with "
        f"threshold-free enhancement {cite('smith2009')} over the network (extent to the power of 0.5, "
        "height to the power of 2).",
        f"All connections of a region{_and_sets(about)} were also tested as a whole: by the mean of "
        "their squared statistics, whose cube root was standardised over the permutations and compared "
        "with the largest one of every permutation.",
    ]
    found = [each["reliability"] for each in templates.values() if each["reliability"]]
    if found:
        over = "sessions" if found[0]["source"] == "sessions" else "halves of the rows"
        lines.append(
            f"The reliability of strengths over {over} was measured by the intraclass correlation "
            f"ICC(2,1) {cite('shrout1979')}."
        )
    return lines


def _and_sets(about: dict[str, Any]) -> str:
    names = [name for each in about["templates"].values() for name in each["sets"]]
    if not names:
        return " and of a template"
    sets = in_a_row(list(dict.fromkeys(names)))
    return f", of a template, within sets of variables ({sets}) and between them"


def _versions(about: dict[str, Any]) -> str:
    used = [
        f"{'Python' if name == 'python' else name} {number}"
        for name, number in about["versions"].items()
    ]
    seed = about.get("settings", {}).get("seed")
    at_random = "" if seed is None else f" The random seed was {seed}."
    return f"The comparison was computed with {in_a_row(used)}.{at_random}"
