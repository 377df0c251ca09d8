"""Speed as ratios to peers and accuracy by study: `python -m benchmarks`."""
