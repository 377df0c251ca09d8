"""Names and coordinates of variables that are brain regions of the paper."""

from collections.abc import Mapping, Sequence

import numpy as np

from mtgbn.fmri.regions import load_regions


def coordinates_of(
    variables: Sequence[str], given: Mapping[str, Sequence[float]] | None = None
) -> np.ndarray | None:
    """MNI coordinates (p, 3) of variables: given ones, or those of the paper's regions.

    Regions of the paper are known by name or by label. None if the place of a variable is unknown.
    """
    if given and all(variable in given for variable in variables):
        places = np.array([given[variable] for variable in variables], dtype=float)
        return places if np.isfinite(places).all() else None
    regions = load_regions("all")
    for names in (regions.names, regions.labels):
        place_of = dict(zip(names, regions.coordinates, strict=True))
        for name in {name for name in names if names.count(name) > 1}:
            del place_of[name]  # two regions have this label
        if all(variable in place_of for variable in variables):
            return np.array([place_of[variable] for variable in variables])
    return None


def labels_of(variables: Sequence[str]) -> dict[str, str]:
    """Full names of the variables that are regions of the paper."""
    regions = load_regions("all")
    labels = dict(zip(regions.names, regions.labels, strict=True))
    return {name: labels[name] for name in variables if name in labels}


def map_positions(variables: Sequence[str]) -> list[list[float]] | None:
    """Coordinates from left to right and from back to front, for a view from above."""
    coordinates = coordinates_of(variables)
    return None if coordinates is None else coordinates[:, :2].tolist()
