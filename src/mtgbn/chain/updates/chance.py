"""Draws from distributions that several updates need."""

from math import exp

from mtgbn._utils.compiled import kernel

# Shares and frequencies stay away from 0 and 1, so that their logarithms are finite.
LEAST = 1e-12


@kernel(error_model="numpy")
def drawn(rng, values):
    """A place, drawn with probabilities proportional to the exponentials of ``values``."""
    top, total = values.max(), 0.0
    for value in values:
        total += exp(value - top)
    left = rng.random() * total
    for k in range(values.size - 1):
        left -= exp(values[k] - top)
        if left < 0.0:
            return k
    return values.size - 1


@kernel(error_model="numpy")
def beta(rng, a, b):
    """A draw from a Beta distribution, not closer to 0 or 1 than `LEAST`."""
    first = rng.standard_gamma(a)
    share = first / (first + rng.standard_gamma(b))
    return min(max(share, LEAST), 1.0 - LEAST)
