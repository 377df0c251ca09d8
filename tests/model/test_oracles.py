"""The densities against other programs: R's bnlearn (BGe scores) and BDgraph (G-Wishart constants)."""

import csv
import itertools
from pathlib import Path

import numpy as np
import pytest

from mtgbn.errors import GraphError
from mtgbn.model.densities import log_marginal_likelihood, log_normaliser

ORACLES = Path(__file__).parents[1] / "oracles"
TOLERANCE = 1e-9


def read(name):
    with open(ORACLES / name, newline="") as file:
        return list(csv.DictReader(file))


def numbers(text):
    return np.array([float(word) for word in text.split()])


BGE = [row for row in read("bge_oracle.csv") if row["prior"] == "uniform"]
BGE_KEYS = sorted({(row["data"], row["nu"]) for row in BGE})


class TranslatedRow:
    """A row of bnlearn's scores in the notation of docs/model.md."""

    def __init__(self, row):
        data = np.loadtxt(ORACLES / row["data"], delimiter=",", skiprows=1)
        self.n, self.p = data.shape
        iss_mu, iss_w = float(row["iss_mu"]), float(row["iss_w"])
        t = iss_mu * (iss_w - self.p - 1) / (iss_mu + 1)
        # bnlearn takes smaller iss_w, for which T0 is not positive definite; the file has none.
        assert t > 0
        self.sigma_h = t * np.eye(self.p)
        self.delta = iss_w - self.p + 1
        self.nu0 = iss_w
        mean = data.mean(axis=0)
        self.scatter = (data - mean).T @ (data - mean)
        if row["nu"] == "zero":
            # A prior mean of zero instead of the sample mean adds their distance to the scatter.
            self.scatter += self.n * iss_mu / (self.n + iss_mu) * np.outer(mean, mean)
        self.per_node = np.log(iss_mu / (iss_mu + self.n)) / 2
        self.adjacency = np.zeros((self.p, self.p), dtype=bool)
        for arc in row["arcs"].split():
            tail, head = arc.split(">")
            self.adjacency[ord(tail) - ord("A"), ord(head) - ord("A")] = True
        self.score = float(row["score"])
        self.by_node = numbers(row["by_node"])


def test_bnlearn_has_576_comparable_rows():
    assert sum(row["nu"] == "mean" for row in BGE) == 576
    assert {row["nu"] for row in BGE} == {"mean", "zero"}


@pytest.mark.parametrize(("data", "nu"), BGE_KEYS)
def test_marginal_likelihood_meets_bnlearn(data, nu):
    rows = [TranslatedRow(row) for row in BGE if (row["data"], row["nu"]) == (data, nu)]
    assert len(rows) == 144
    for row in rows:
        score = log_marginal_likelihood(row.scatter, row.n, row.adjacency, row.sigma_h, row.nu0)
        assert score + row.p * row.per_node == pytest.approx(row.score, rel=TOLERANCE)


@pytest.mark.parametrize(("data", "nu"), BGE_KEYS)
def test_families_meet_bnlearn_node_by_node(data, nu):
    for row in BGE:
        if (row["data"], row["nu"]) != (data, nu):
            continue
        row = TranslatedRow(row)
        for k, expected in enumerate(row.by_node):
            parents = tuple(np.flatnonzero(row.adjacency[:, k]))
            family = [(+1, (*parents, k)), (-1, parents)]
            score = (
                -row.n / 2 * np.log(2 * np.pi)
                + log_normaliser(family, row.delta + row.n, row.sigma_h + row.scatter)
                - log_normaliser(family, row.delta, row.sigma_h)
                + row.per_node
            )
            assert score == pytest.approx(expected, rel=TOLERANCE)


GWISHART = read("gwishart_oracle.csv")
DECOMPOSABLE = [row for row in GWISHART if row["decomposable"] == "True"]
OTHERS = [row for row in GWISHART if row["decomposable"] == "False"]


def gwishart_id(row):
    return f"{row['graph']}-b{row['b']}-{row['D']}"


def graph_and_matrix(row):
    p = int(row["p"])
    return numbers(row["adj"]).reshape(p, p), numbers(row["Dvals"]).reshape(p, p)


def test_bdgraph_has_84_rows():
    assert (len(DECOMPOSABLE), len(OTHERS)) == (60, 24)


@pytest.mark.parametrize("row", DECOMPOSABLE, ids=gwishart_id)
def test_normaliser_meets_bdgraph(row):
    adjacency, matrix = graph_and_matrix(row)
    value = log_normaliser(adjacency, float(row["b"]), matrix)
    # Some of these logarithms are near zero, hence also an absolute bound.
    expected = float(row["log_const_exact"])
    assert value == pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE)
    error = float(row["log_const_sd"]) / np.sqrt(float(row["reps"]))
    assert value == pytest.approx(float(row["log_const_mean"]), abs=5 * error + 1e-8)


@pytest.mark.parametrize("row", OTHERS, ids=gwishart_id)
def test_normaliser_names_a_chordless_cycle(row):
    adjacency, matrix = graph_and_matrix(row)
    with pytest.raises(GraphError, match="has no chord") as caught:
        log_normaliser(adjacency, float(row["b"]), matrix)
    cycle = [
        int(word) for word in str(caught.value).split("the cycle ")[1].split() if word.isdigit()
    ]
    assert cycle[0] == cycle[-1]
    cycle = cycle[:-1]
    assert len(set(cycle)) == len(cycle) >= 4
    for place, other in itertools.combinations(range(len(cycle)), 2):
        neighbours = other - place in (1, len(cycle) - 1)
        assert bool(adjacency[cycle[place], cycle[other]]) == neighbours


def orientation(adjacency, order):
    """DAG in which the neighbours that come later in the order are the parents."""
    dag = np.zeros(adjacency.shape, dtype=bool)
    for child, parent in itertools.combinations(order, 2):
        dag[parent, child] = adjacency[child, parent]
    return dag


def expectation_of_the_missing_elements(adjacency, order, b, n_draws, rng):
    """E exp(-sum of squares of the elements of the factor at missing edges / 2), and its error.

    Atay-Kayis and Massam (2005), for D = I: Omega = Psi' Psi with Psi upper triangular in the given
    order, squares of the diagonal chi-squared with b + (later neighbours) degrees of freedom, elements
    at edges standard normal, and those at missing edges such that Omega is zero there.
    """
    p = len(adjacency)
    ordered = adjacency[np.ix_(order, order)].astype(bool)
    psi = np.zeros((p, p, n_draws))
    exponent = np.zeros(n_draws)
    for i in range(p):
        psi[i, i] = np.sqrt(rng.chisquare(b + ordered[i, i + 1 :].sum(), n_draws))
        for j in range(i + 1, p):
            if ordered[i, j]:
                psi[i, j] = rng.standard_normal(n_draws)
            else:
                psi[i, j] = -(psi[:i, i] * psi[:i, j]).sum(axis=0) / psi[i, i]
                exponent -= psi[i, j] ** 2 / 2
    factor = np.exp(exponent)
    return factor.mean(), factor.std() / np.sqrt(n_draws)


# With another D the constant in front of their expectation holds powers of the elements of a Cholesky
# factor of D^-1, which is no DAG's normaliser, so only the rows with D = I say something about DAGs.
@pytest.mark.parametrize("row", [row for row in OTHERS if row["D"] == "I"], ids=gwishart_id)
def test_dag_times_expectation_is_the_monte_carlo_constant(row):
    adjacency, identity = graph_and_matrix(row)
    b, p = float(row["b"]), len(adjacency)
    mean = float(row["log_const_mean"])
    error = float(row["log_const_sd"]) / np.sqrt(float(row["reps"]))
    rng = np.random.default_rng(20240501)
    for _ in range(4):
        order = rng.permutation(p)
        bound = log_normaliser(orientation(adjacency, order), b, identity)
        assert bound >= mean - 5 * error
        factor, factor_error = expectation_of_the_missing_elements(adjacency, order, b, 40_000, rng)
        assert bound + np.log(factor) == pytest.approx(
            mean, abs=5 * np.hypot(error, factor_error / factor)
        )


def test_the_expectation_is_one_for_perfect_orientations():
    path = np.diag(np.ones(3), 1)
    path += path.T
    order = range(4)
    factor, _ = expectation_of_the_missing_elements(path, order, 3.0, 10, np.random.default_rng(1))
    assert factor == 1.0
    dag = orientation(path, order)
    assert log_normaliser(dag, 3.0, np.eye(4)) == pytest.approx(
        log_normaliser(path, 3.0, np.eye(4)), rel=1e-13
    )
