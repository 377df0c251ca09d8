"""Ratios to peers, measured in one run: `python -m benchmarks`."""
