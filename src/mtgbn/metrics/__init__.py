"""How far an estimated graph is from the true one."""

from mtgbn.metrics.comparison import (
    Comparison,
    compare_adjacencies,
    compare_arrowheads,
    structural_hamming_distance,
)

__all__ = [
    "Comparison",
    "compare_adjacencies",
    "compare_arrowheads",
    "structural_hamming_distance",
]
