"""Sets of nodes as Python integers: bit i is set when node i is a member.

Set algebra on a few hundred nodes is then a handful of machine instructions.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray


def from_rows(matrix: NDArray[np.bool_]) -> list[int]:
    """One bitset per row."""
    packed = np.packbits(matrix, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]


def to_rows(bitsets: list[int]) -> NDArray[np.bool_]:
    """Square boolean matrix with one bitset per row."""
    p = len(bitsets)
    width = (p + 7) // 8
    packed = b"".join(bits.to_bytes(width, "little") for bits in bitsets)
    rows = np.frombuffer(packed, dtype=np.uint8).reshape(p, width)
    return np.unpackbits(rows, axis=1, count=p, bitorder="little").astype(np.bool_)


def members(bits: int) -> Iterator[int]:
    """Nodes of a bitset, smallest first."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
