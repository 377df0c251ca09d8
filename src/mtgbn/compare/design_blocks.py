"""Blocks of subjects, who change places within their block only.

Permutations within blocks leave alone what blocks differ in. So that effects, intervals and statistics
do the same, the blocks are held constant: their indicators are columns of the design.
"""

import numpy as np

from mtgbn.compare.design_orders import number_of_orders
from mtgbn.compare.design_statistics import divide
from mtgbn.errors import InputError

# A permutation test needs at least this number of orders of the subjects for a p-value of .05.
_FEWEST_ORDERS = 20

# A column that others explain up to this share of its length is collinear with them.
_COLLINEAR = 1e-8


def find_blocks(name: str, labels: np.ndarray, tested: np.ndarray) -> np.ndarray:
    """The block of every subject; refuse blocks within which nothing that is tested can change.

    Parameters
    ----------
    name : str
        Of the column.
    labels : array (m,)
        Its values.
    tested : array (m, r)
        What is tested.
    """
    _, found = np.unique(labels, return_inverse=True)
    orders = round(number_of_orders(tested, found))
    if orders == 1:
        raise InputError(
            f"blocks by {name!r} allow no permutation: within a block all subjects have the same value "
            "of what is tested"
        )
    if orders < _FEWEST_ORDERS:
        raise InputError(
            f"blocks by {name!r} allow {orders} permutations only, too few for a p-value of .05; "
            "use larger blocks, or a covariate instead"
        )
    return found


def indicators_beyond(name: str, labels: np.ndarray, matrix: np.ndarray) -> dict[str, np.ndarray]:
    """Indicators of the blocks that the columns of a design (m, k) do not explain, by their names.

    The first block is the reference, as in formulas. There is nothing to add if the formula has the
    column of the blocks.
    """
    added: dict[str, np.ndarray] = {}
    basis = np.linalg.qr(matrix)[0]
    for label in np.unique(labels)[1:].tolist():
        indicator = (labels == label).astype(float)
        rest = indicator - basis @ (basis.T @ indicator)
        length = np.linalg.norm(rest)
        if length <= _COLLINEAR * np.linalg.norm(indicator):
            continue
        text = label if isinstance(label, str) else f"{label:.12g}"
        added[f"{name}[T.{text}]"] = indicator
        basis = np.linalg.qr(np.column_stack([basis, rest / length]))[0]
    return added


def check_within(
    name: str, blocks: np.ndarray, tested: str, matrix: np.ndarray, contrast: np.ndarray
) -> None:
    """Refuse a contrast of a design with its blocks that also compares whole blocks.

    The reduced model has all blocks if and only if the tested directions sum to 0 within each of them.
    """
    directions = divide(matrix, contrast).tested
    sums = directions.T @ (blocks[:, None] == np.unique(blocks))
    if np.abs(sums).max() > _COLLINEAR:
        raise InputError(
            f"{tested!r}, or a part of it, does not vary within the blocks {name!r} given the other "
            "columns of the design, and whole blocks do not change places; test what varies within a "
            "block, or leave out covariates or blocks"
        )
