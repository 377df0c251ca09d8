"""Knowledge against all DAGs on up to four variables, and what its errors show."""

import itertools
import json

import numpy as np
import pytest

from mtgbn.errors import InputError
from mtgbn.graphs import is_dag
from mtgbn.search.knowledge import Constraints, Knowledge, no_constraints, restrict

NAMES = ("a", "b", "c", "d")


def all_dags(p):
    """Every DAG on p nodes, (count, p, p)."""
    places = list(itertools.permutations(range(p), 2))
    graphs = []
    for bits in itertools.product((False, True), repeat=len(places)):
        adjacency = np.zeros((p, p), dtype=bool)
        for place, bit in zip(places, bits, strict=True):
            adjacency[place] = bit
        if is_dag(adjacency):
            graphs.append(adjacency)
    return np.array(graphs)


DAGS = {p: all_dags(p) for p in (1, 2, 3, 4)}


def fits(knowledge, adjacency, names):
    """Whether a graph agrees with the knowledge, read off its definition."""
    edges = {(names[i], names[j]) for i, j in np.argwhere(adjacency)}
    tier = {name: k for k, block in enumerate(knowledge.tiers) for name in block}
    return (
        edges.issuperset(knowledge.required)
        and edges.isdisjoint(knowledge.forbidden)
        and not any(s in tier and t in tier and tier[s] > tier[t] for s, t in edges)
        and (knowledge.max_parents is None or adjacency.sum(axis=0).max() <= knowledge.max_parents)
    )


def random_knowledge(rng, p):
    pairs = list(itertools.permutations(NAMES[:p], 2))
    chosen = [[pair for pair in pairs if rng.random() < share] for share in rng.uniform(0, 0.5, 2)]
    tiers = [[] for _ in range(3)]
    if rng.random() < 0.5:
        for name in NAMES[:p]:
            block = rng.integers(4)
            if block < 3:
                tiers[block].append(name)
    max_parents = int(rng.integers(p + 1)) if rng.random() < 0.5 else None
    return Knowledge(chosen[0], chosen[1], tiers, max_parents)


def test_number_of_dags():
    assert [len(DAGS[p]) for p in (1, 2, 3, 4)] == [1, 3, 25, 543]


def test_resolves_exactly_when_some_dag_fits():
    rng = np.random.default_rng(0)
    outcomes = []
    for _ in range(400):
        p = int(rng.integers(1, 5))
        names = tuple(rng.permutation(NAMES[:p]))
        knowledge = random_knowledge(rng, p)
        fitting = [dag for dag in DAGS[p] if fits(knowledge, dag, names)]
        outcomes.append(bool(fitting))
        if not fitting:
            with pytest.raises(InputError):
                knowledge.resolve(names)
            continue
        constraints = knowledge.resolve(names)
        np.testing.assert_array_equal(constraints.allowed, np.any(fitting, axis=0))
        assert (constraints.required <= np.all(fitting, axis=0)).all()
        met = [
            dag
            for dag in DAGS[p]
            if not (dag & ~constraints.allowed).any()
            and not (constraints.required & ~dag).any()
            and dag.sum(axis=0).max() <= constraints.max_parents
        ]
        np.testing.assert_array_equal(met, fitting)
    assert 100 < sum(outcomes) < 300


def test_nothing_known_is_no_constraint():
    for found, expected in zip(Knowledge().resolve(NAMES), no_constraints(4), strict=True):
        np.testing.assert_array_equal(found, expected)
    allowed, required, max_parents = no_constraints(3)
    np.testing.assert_array_equal(allowed, ~np.eye(3, dtype=bool))
    assert not required.any()
    assert max_parents == 2
    assert Knowledge(max_parents=99).resolve(NAMES).max_parents == 3


def test_variables_in_no_tier_are_free():
    allowed = Knowledge(tiers=[["a"], ["b"]]).resolve(["a", "b", "c"]).allowed
    np.testing.assert_array_equal(allowed, [[0, 1, 1], [0, 0, 1], [1, 1, 0]])


@pytest.mark.parametrize(
    ("knowledge", "message"),
    [
        (
            {"required": [("a", "b")], "forbidden": [("a", "b")]},
            r"the edge a -> b is both required and forbidden; remove it",
        ),
        (
            {"required": [("c", "a")], "tiers": [["a", "b"], ["d"], ["c"]]},
            r"required edge c -> a goes against the tiers: 'c' is in tiers\[2\] \('c'\), 'a' in the "
            r"earlier tiers\[0\] \('a', 'b'\)",
        ),
        (
            {"required": [("c", "d"), ("b", "c"), ("d", "b"), ("a", "b")]},
            r"the cycle b -> c -> d -> b; remove",
        ),
        ({"required": [("a", "b"), ("b", "a")]}, r"the cycle a -> b -> a"),
        (
            {"required": [("a", "d"), ("c", "d"), ("a", "b")], "max_parents": 1},
            r"'d' has 2 required parents, 'a', 'c', but max_parents is 1",
        ),
        ({"required": [("a", "dd")]}, r"required edge a -> dd: .*'dd'; close matches: 'd'"),
        ({"forbidden": [("zzz", "a")]}, r"forbidden edge zzz -> a: .*'zzz'; the variables are 'a'"),
        ({"tiers": [["a"], ["bb"]]}, r"tiers\[1\]: .*'bb'; close matches: 'b'"),
    ],
)
def test_contradictions_and_unknown_names_are_shown(knowledge, message):
    with pytest.raises(InputError, match=message):
        Knowledge(**knowledge).resolve(NAMES)


@pytest.mark.parametrize(
    ("knowledge", "message"),
    [
        ({"required": [("a", "a")]}, "required has an edge from 'a' to itself"),
        ({"forbidden": [("b", "b")]}, "forbidden has an edge from 'b' to itself"),
        ({"tiers": [["a"], ["b", "a"]]}, r"'a' is in two tiers, tiers\[0\] and tiers\[1\]"),
        ({"max_parents": -1}, "max_parents must be a whole number of at least 0; got -1"),
        ({"max_parents": 1.5}, "max_parents"),
        ({"max_parents": True}, "max_parents"),
        ({"required": ["ab"]}, "required must be a list of edges.*got 'ab'"),
        ({"required": "ab"}, "required must be a list of edges.*got 'ab'"),
        ({"required": {"a": "b"}}, "required must be"),
        ({"required": [("a", "b", "c")]}, "of length 3"),
        ({"required": [{"a", "b"}]}, "does not say which is the source"),
        ({"forbidden": [(0, 1)]}, "forbidden must be .* got 0 where a name"),
        ({"forbidden": None}, "forbidden must be .* got None"),
        ({"tiers": ["a", "b"]}, "tiers must be a list of blocks.*got 'a'"),
        ({"tiers": {frozenset("a")}}, "has no order"),
        ({"tiers": [[1]]}, "tiers must be .* got 1"),
    ],
)
def test_malformed_knowledge_is_refused(knowledge, message):
    with pytest.raises(InputError, match=message):
        Knowledge(**knowledge)


def test_the_form_of_the_input_does_not_matter():
    listed = Knowledge([["c", "a"], ["a", "b"], ["a", "b"]], (), [["b", "a"], []], np.int64(2))
    other = Knowledge(
        {("a", "b"), ("c", "a")}, np.empty((0, 2)), iter([{"a", "b"}, ()]), max_parents=2
    )
    assert listed == other
    assert hash(listed) == hash(other)
    assert listed.required == (("a", "b"), ("c", "a"))
    assert listed.tiers == (("a", "b"), ())


def test_renaming_the_variables_permutes():
    knowledge = Knowledge([("a", "b")], [("c", "d")], [["a"], ["b", "c"]], 2)
    order = np.array([2, 0, 3, 1])
    plain = knowledge.resolve(NAMES)
    turned = knowledge.resolve([NAMES[k] for k in order])
    square = np.ix_(order, order)
    np.testing.assert_array_equal(turned.allowed, plain.allowed[square])
    np.testing.assert_array_equal(turned.required, plain.required[square])


def test_file_round_trip(tmp_path):
    path = tmp_path / "knowledge.json"
    rng = np.random.default_rng(1)
    for _ in range(20):
        knowledge = random_knowledge(rng, 4)
        path.write_text(json.dumps(knowledge.to_dict()), encoding="utf-8")
        assert Knowledge.from_file(path) == knowledge
    path.write_bytes(b"\xef\xbb\xbf" + '{"tiers": [["ä"], ["b"]]}'.encode())
    assert Knowledge.from_file(str(path)) == Knowledge(tiers=[["ä"], ["b"]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("\xff", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "one JSON object"),
        ('{"require": []}', "no key named 'require'; close matches: 'required'"),
        ('{"tiers": [], "tiers": [["a"]]}', "the key 'tiers' occurs twice"),
        ('{"required": [["a", 1]]}', "required must be .* got 1"),
        ('{"required": {"a": "b"}}', "required must be"),
        ('{"max_parents": "3"}', "max_parents must be a whole number .* got '3'"),
        ('{"max_parents": NaN}', "max_parents"),
    ],
)
def test_bad_files_are_named(tmp_path, text, message):
    path = tmp_path / "known.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=rf"known\.json.*{message}"):
        Knowledge.from_file(path)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.json cannot be read: No such file"):
        Knowledge.from_file(tmp_path / "nowhere.json")


def test_restrict_keeps_what_is_required_and_frees_nothing():
    constraints = Knowledge([("a", "b")], [("c", "d")], max_parents=2).resolve(NAMES)
    nothing = restrict(constraints, np.zeros((4, 4)))
    np.testing.assert_array_equal(nothing.allowed, constraints.required)
    rng = np.random.default_rng(2)
    for _ in range(20):
        candidates = rng.random((4, 4)) < 0.5
        found = restrict(constraints, candidates)
        for i, j in itertools.product(range(4), repeat=2):
            expected = constraints.allowed[i, j] and (candidates[i, j] or (i, j) == (0, 1))
            assert found.allowed[i, j] == expected
        assert found.max_parents == 2
        assert found.required is constraints.required
    assert isinstance(found, Constraints)
    with pytest.raises(InputError, match=r"shape \(4, 4\); got \(3, 3\)"):
        restrict(constraints, np.ones((3, 3)))
    with pytest.raises(InputError, match=r"element \(1, 2\) is 0\.5"):
        restrict(constraints, np.where(np.arange(16).reshape(4, 4) == 6, 0.5, 1.0))
