"""What every search returns."""

from typing import NamedTuple

import numpy as np

__all__ = ["Found"]


class Found(NamedTuple):
    """The best DAG of a search and its score; ``adjacency[i, j]`` means i -> j."""

    adjacency: np.ndarray
    score: float
