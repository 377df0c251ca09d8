"""Published Gaussian networks, stored in this package; networks/NOTICE.md names the sources."""

import json
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from mtgbn.errors import InputError

NETWORKS = ("ecoli70", "magic-niab", "magic-irri", "arth150")


class BenchmarkNetwork(NamedTuple):
    """A Gaussian network: variable = intercept + sum of coefficient times parent + noise."""

    name: str
    variables: tuple[str, ...]
    coefficients: np.ndarray
    """(p, p); ``coefficients[i, j]`` belongs to i -> j and is 0 where there is no edge."""
    intercepts: np.ndarray
    residual_variances: np.ndarray


def load_network(name: str) -> BenchmarkNetwork:
    """Load a published network: "ecoli70", "magic-niab", "magic-irri" or "arth150".

    Examples
    --------
    >>> network = load_network("ecoli70")
    >>> len(network.variables), (network.coefficients != 0).sum().item()
    (46, 70)
    """
    if name not in NETWORKS:
        raise InputError(f"there is no benchmark network {name!r}; there are {', '.join(NETWORKS)}")
    text = (files("mtgbn.simulate") / "networks" / f"{name}.json").read_text(encoding="utf-8")
    content = json.loads(text)
    variables = tuple(content["nodes"])
    places = {variable: place for place, variable in enumerate(variables)}
    coefficients = np.zeros((len(variables), len(variables)))
    intercepts, variances = np.empty(len(variables)), np.empty(len(variables))
    for variable, distribution in content["cpds"].items():
        node = places[variable]
        (variances[node],) = distribution["variance"]
        for parent, (coefficient,) in distribution["coefficients"].items():
            if parent == "(Intercept)":
                intercepts[node] = coefficient
            else:
                coefficients[places[parent], node] = coefficient
    return BenchmarkNetwork(name, variables, coefficients, intercepts, variances)
