"""The paragraph of methods is true: many commands, and every statement against what was asked for."""

import platform
import re
import shlex
from html import unescape
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import naive
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from compare.studies import series, write_series
from scipy import stats

import mtgbn
from mtgbn.cli import cli
from mtgbn.report.references import REFERENCES

M, ROWS = 18, 80
COMMON = ("--permutations", "99", "--restarts", "0", "--effective-samples", "none")
MAP = ("--draws", "8", "--max-iter", "2")

# A reference is cited if, and only if, the paragraph says these words.
SAYS = {
    "bartlett1946": "Bartlett's formula",
    "liu2022": "multitask Gaussian Bayesian networks",
    "welch1951": "may differ in spread",
    "johansen1980": "may differ in spread",
    "freedman1983": "the method of Freedman and Lane",
    "winkler2014": "the method of Freedman and Lane",
    "benjamini1995": "Benjamini and Hochberg",
    "zalesky2010": "network-based statistic",
    "smith2009": "threshold-free enhancement",
    "shrout1979": "intraclass correlation",
    "smyth2004": "moderated by empirical Bayes",
}


class Command(NamedTuple):
    """Options of a command, and what they mean, said by the one who wrote this test."""

    options: tuple
    tested: str  # the sentence about what is tested
    held: str  # the sentence about what is held constant
    effect: str
    statistic: str = "Welch's t"
    groups: str = ""  # as the first sentence counts them
    left_out: int = 0
    blocks: str = ""
    permutations: int = 99
    more: tuple = ()
    absent: tuple = ()


NOTHING_HELD = "There were no nuisance covariates."
COMMANDS = {
    "groups": Command(
        ("--column", "group"),
        tested="We tested the term 'group'.",
        held=NOTHING_HELD,
        effect="('patient' minus 'control')",
        groups="9 control, 9 patient",
        more=("The rows were taken to be independent samples (degrees of freedom: 79).",),
    ),
    "covariates": Command(
        ("--formula", "group + age + sex"),
        tested="We tested the term 'group'.",
        held="age and sex were held constant.",
        effect="('patient' minus 'control')",
        groups="9 control, 9 patient",
    ),
    "left out": Command(
        ("--formula", "group + weight", "--standardise"),
        tested="We tested the term 'group'.",
        held="weight was held constant.",
        effect="('patient' minus 'control')",
        groups="8 control, 8 patient",
        left_out=2,
        more=("Every variable was scaled to variance 1 in every subject.",),
    ),
    "three groups": Command(
        ("--column", "arm", "--permutations", "150"),
        tested="We tested the term 'arm'.",
        held=NOTHING_HELD,
        effect="(of the 2 tested columns the first: 'b' minus 'a')",
        statistic="Johansen's F",
        groups="6 a, 6 b, 6 c",
        permutations=150,
    ),
    "contrast": Command(
        ("--formula", "arm + age", "--contrast", "arm[T.b] - arm[T.c]"),
        tested="We tested the contrast 'arm[T.b] - arm[T.c]'.",
        held="age and all other combinations of the columns of the design were held constant.",
        effect="(the contrast 'arm[T.b] - arm[T.c]' of partial correlations)",
        groups="6 a, 6 b, 6 c",
    ),
    "outcome": Command(
        ("--formula", "sex + age", "--test", "age", "--min-strength", "0.1"),
        tested="We tested the term 'age'.",
        held="sex was held constant.",
        effect="(change of the partial correlation per unit of 'age')",
        statistic="t",
        more=("0.1 (as set)",),
    ),
    "blocks": Command(
        ("--formula", "group + age", "--blocks", "site", "--effective-samples", "bartlett"),
        tested="We tested the term 'group'.",
        held="age and site were held constant.",
        effect="('patient' minus 'control')",
        groups="9 control, 9 patient",
        blocks="within 3 blocks ('site') of 6 subjects each",
        more=("estimated from the observed autocorrelations with Bartlett's formula",),
    ),
    "interaction": Command(
        ("--formula", "group * age", "--test", "group:age"),
        tested="We tested the term 'group:age'.",
        held="group and age were held constant.",
        effect="(coefficient of 'group[T.patient]:age')",
        groups="9 control, 9 patient",
    ),
    "codes": Command(
        ("--column", "code", "--sets", "SETS", "--seed", "7"),
        tested="We tested the term 'C(code)'.",
        held=NOTHING_HELD,
        effect="('2' minus '1')",
        groups="9 with '1', 9 with '2'",
        more=("within sets of variables (front and back) and between them",),
    ),
    "posterior": Command(
        ("--formula", "group", "--inference", "posterior", "--rounds", "40", "--nu0", "30"),
        tested="We tested the term 'group'.",
        held=NOTHING_HELD,
        effect="('patient' minus 'control')",
        groups="9 control, 9 patient",
        more=("the pairs with a posterior probability above 0.5", "nu0 = 30"),
        absent=("expectation-maximisation",),
    ),
    "templates": Command(
        ("--formula", "group", "--templates", "TEMPLATES"),
        tested="We tested the term 'group'.",
        held=NOTHING_HELD,
        effect="('patient' minus 'control')",
        groups="9 control, 9 patient",
        more=(
            "We analysed one (3 variables) and two (2 variables) separately.",
            "for the connections of a template (3 and 1), but not for the number of templates",
        ),
    ),
    "sessions": Command(
        ("--formula", "group + age"),
        tested="We tested the term 'group'.",
        held="age was held constant.",
        effect="('patient' minus 'control')",
        groups="9 control, 9 patient",
        more=(
            "They had 2 sessions each, 36 in all.",
            "All sessions of all subjects were learned jointly",
            "Strengths of several sessions of a subject were averaged",
            "The reliability of strengths over sessions was measured",
        ),
    ),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Eighteen subjects; patients have v3 -> v4. Another folder has two sessions of each."""
    root = tmp_path_factory.mktemp("methods")
    table = pd.DataFrame(
        {
            "participant_id": [f"sub-{k:02d}" for k in range(M)],
            "group": ["patient" if k % 2 else "control" for k in range(M)],
            "arm": ["abc"[k % 3] for k in range(M)],
            "age": [20 + 7 * k % 31 for k in range(M)],
            "sex": ["mmf"[k // 2 % 3] for k in range(M)],
            "site": ["xyz"[k // 6] for k in range(M)],
            "code": [1 + k % 2 for k in range(M)],
            "weight": ["n/a" if k in (3, 8) else 50 + 5 * k % 17 for k in range(M)],
        }
    )
    table.to_csv(root / "participants.tsv", sep="\t", index=False)
    for folder in ("once", "twice"):
        (root / folder).mkdir()
    for k in range(M):
        write_series(root / "once", f"sub-{k:02d}", series(k, k % 2 == 1, ROWS))
        for session in (1, 2):
            values = series(100 + 2 * k + session, k % 2 == 1, ROWS)
            write_series(root / "twice", f"sub-{k:02d}_ses-{session}", values)
    names = [("v0", "front"), ("v1", "front"), ("v3", "back"), ("v4", "back")]
    (root / "SETS.tsv").write_text("name\ttemplate\n" + "".join(f"{a}\t{b}\n" for a, b in names))
    names = [("v0", "one"), ("v1", "one"), ("v2", "one"), ("v3", "two"), ("v4", "two")]
    (root / "TEMPLATES.tsv").write_text(
        "name\ttemplate\n" + "".join(f"{a}\t{b}\n" for a, b in names)
    )
    return root, table


# Commands of which the page's command and lines of Python are pasted and run.
REPEATED = ("left out", "contrast", "blocks", "codes", "templates", "sessions")


class Made(NamedTuple):
    name: str
    data: Path
    out: Path
    command: Command
    text: str  # the paragraphs
    page: str
    table: pd.DataFrame  # of the participants
    connections: pd.DataFrame
    strengths: pd.DataFrame


@pytest.fixture(scope="module", params=COMMANDS)
def made(request, place):
    """The result of one command."""
    (root, table), command = place, COMMANDS[request.param]
    out = root / request.param.replace(" ", "-")
    options = [
        str(root / f"{each}.tsv") if each in ("SETS", "TEMPLATES") else each
        for each in command.options
    ]
    data = root / ("twice" if request.param == "sessions" else "once")
    words = ["compare", data, out, "--group", root / "participants.tsv", *COMMON]
    words += [*(() if "posterior" in options else MAP), *options]
    result = CliRunner().invoke(cli, [str(word) for word in words])
    assert result.exit_code in (0, 3), result.output
    page = unescape((out / "report.html").read_text(encoding="utf-8")).replace("\u00a0", " ")
    start = page.index('<div id="methods-text">')
    text = re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", page[start : page.index("</div>", start)]))
    connections, strengths = (
        pd.read_csv(out / f"{name}.tsv", sep="\t") for name in ("connections", "strengths")
    )
    return Made(
        name=request.param,
        data=data,
        out=out,
        command=command,
        text=text,
        page=page,
        table=table,
        connections=connections,
        strengths=strengths,
    )


def test_subjects_are_counted(made):
    n = M - made.command.left_out
    groups = f" ({made.command.groups})" if made.command.groups else ""
    assert f"We compared {n} subjects{groups}." in made.text
    left_out = f"{made.command.left_out} further subjects lacked a value that the design needs"
    assert (left_out in made.text) == (made.command.left_out > 0)
    assert f"had {ROWS} rows of data." in made.text
    assert made.strengths.shape[1] == 3 + n


def test_the_question_is_that_of_the_command(made):
    command = made.command
    for words in (command.tested, command.held, command.effect, *command.more):
        assert words in made.text, words
    for words in command.absent:
        assert words not in made.text
    assert ("was removed from the strengths" in made.text) == (command.held != NOTHING_HELD)
    assert ("scaled to variance 1" in made.text) == ("--standardise" in command.options)
    assert ("The variables were not scaled" in made.text) != ("--standardise" in command.options)
    assert ("sessions" in made.text) == any("sessions" in words for words in command.more)


def test_permutations_and_blocks_are_those_of_the_command(made):
    number = made.command.permutations
    assert f"from {number} random permutations" in made.text
    counts = made.connections["p"] * (number + 1)
    np.testing.assert_allclose(counts, counts.round())
    assert ("blocks" in made.text) == bool(made.command.blocks)
    assert f"exchanged between subjects {made.command.blocks}".strip() in made.text


def test_the_estimator_its_settings_and_versions_are_named(made):
    options = made.command.options
    assert f"with mtgbn {mtgbn.__version__}" in made.text
    joint = "learned jointly as multitask Gaussian Bayesian networks"
    assert joint in made.text
    assert "in one fit" in made.text
    assert "knew neither groups nor covariates" in made.text
    maximised = "found by expectation-maximisation" in made.text
    assert maximised == ("posterior" not in options)
    changed = re.search(
        r"Settings other than the defaults of mtgbn: ([^.]+(?:\.\d+)?)\.", made.text
    )
    expected = {"n_draws = 8", "n_restarts = 0", "max_iter = 2"}
    if "posterior" in options:
        expected = {"n_restarts = 0", "n_rounds = 40", "nu0 = 30"}
    assert set(changed[1].split(", ")) == expected
    for name in ("numpy", "scipy", "numba", "joblib", "formulaic"):
        assert f"{name} {version(name)}" in made.text
    assert f"Python {platform.python_version()}" in made.text
    seed = options[options.index("--seed") + 1] if "--seed" in options else "1"
    assert made.text.strip().endswith(f"The random seed was {seed}.")


def test_the_statistic_that_is_named_is_the_one_in_the_table(made):
    command = made.command
    assert f"the test statistic was {command.statistic}" in made.text.replace("The", "the")
    if command.held != NOTHING_HELD or command.statistic == "Johansen's F":
        return
    if made.strengths.template.nunique() > 1:
        return
    column = "code" if "code" in command.options else "group"
    values = made.table[column].to_numpy()
    first, second = sorted(set(values))
    z = np.arctanh(made.strengths.iloc[:, 3:].to_numpy().T)
    groups = [z[values == label] for label in (first, second)]
    assert "variances of the connections were moderated by empirical Bayes" in made.text
    whole = np.concatenate(groups)
    prior = naive.prior_degrees(whole.var(axis=0, ddof=1).tolist(), len(whole) - 1)
    squared_errors = [
        np.array(naive.moderated(each.var(axis=0, ddof=1).tolist(), len(each) - 1, prior)[0])
        / len(each)
        for each in groups
    ]
    expected = (groups[1].mean(axis=0) - groups[0].mean(axis=0)) / np.sqrt(sum(squared_errors))
    keys = ["source", "target"]
    found = made.strengths[keys].merge(made.connections, on=keys, how="left")
    np.testing.assert_allclose(found.statistic, expected, rtol=1e-6)
    difference = made.connections[f"mean_{second}"] - made.connections[f"mean_{first}"]
    np.testing.assert_allclose(difference, made.connections.effect, atol=1e-9)


def test_the_threshold_has_the_p_value_that_is_said(made):
    name, threshold = re.search(
        r"network-based statistic \[\d+\] \((.+?) of at least ([\d.]+), which has p = 0.001",
        made.text,
    ).groups()
    is_one = made.command.statistic != "Johansen's F"
    assert name == ("|z|" if is_one else "chi-square per degree of freedom")
    threshold = float(threshold)
    tail = 2 * stats.norm.sf(threshold) if is_one else stats.chi2.sf(2 * threshold, 2)
    assert tail == pytest.approx(0.001, rel=0.03)


def test_references_are_cited_only_if_used(made):
    keys = re.findall(r"@article\{(\w+),", made.page)
    assert sorted(keys) == sorted(key for key, words in SAYS.items() if words in made.text)
    assert set(SAYS) == set(REFERENCES)
    cited = [int(n) for each in re.findall(r"\[([\d, ]+)\]", made.text) for n in each.split(", ")]
    assert list(dict.fromkeys(cited)) == list(range(1, len(keys) + 1))
    # The number beside the words of a method is that of its publication.
    for number, key in enumerate(keys, start=1):
        after = made.text[made.text.index(SAYS[key]) :]
        first = next(
            group
            for group in re.findall(r"\[([\d, ]+)\]", after)
            if str(number) in group.split(", ")
        )
        assert after.index(f"[{first}]") < 250
    smallest = made.connections["p_family"].min()
    assert f"is {smallest:.3g} (family-wise level 0.05" in made.page


def code_of(page, name):
    return page.split(f'<code id="{name}">')[1].split("</code>")[0]


def test_what_the_page_offers_to_paste_gives_the_same_tables(made, place, tmp_path):
    if made.name not in REPEATED:
        return
    places = {
        "DATA": made.data,
        "participants.tsv": place[0] / "participants.tsv",
        **{f"{name}.tsv": place[0] / f"{name}.tsv" for name in ("SETS", "TEMPLATES")},
    }
    program, *words = shlex.split(code_of(made.page, "command"))
    assert program == "mtgbn"
    by_command = places | {"OUT": tmp_path / "command"}
    result = CliRunner().invoke(cli, [str(by_command.get(word, word)) for word in words])
    assert result.exit_code in (0, 3), result.output
    lines = code_of(made.page, "python")
    for name, path in (places | {"OUT": tmp_path / "python"}).items():
        lines = lines.replace(repr(name), repr(str(path)))
    exec(lines, namespace := {})
    assert len(namespace["table"]) == len(made.connections)
    for path in made.out.glob("*.tsv"):
        for way in ("command", "python"):
            assert (tmp_path / way / path.name).read_bytes() == path.read_bytes(), path.name
