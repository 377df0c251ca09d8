"""Growth of the cost of a value and gradient with the tasks and with the variables.

Families keep their size (1.5 edges per variable). Times are relative to the first row of each
series, measured in turns.
"""

from functools import partial

import numpy as np

from benchmarks.gradient import STEPS, ascend
from benchmarks.problems import interleaved_times, random_posterior, table
from mtgbn.model.coordinates import coordinates_workspace

SERIES = {
    "m": [(m, 46) for m in (10, 30, 100, 300, 1000)],
    "p": [(10, p) for p in (15, 30, 60, 120, 240)],
}


def main(seconds: float = 2.0) -> str:
    rows = []
    for name, sizes in SERIES.items():
        functions = {}
        for m, p in sizes:
            posterior, centre_factor = random_posterior(m, p, n=50)
            x = np.zeros(p * (p + 1) // 2)
            functions[m, p] = partial(
                ascend,
                posterior,
                centre_factor,
                x,
                np.empty_like(x),
                coordinates_workspace(posterior),
            )
        times = interleaved_times(functions, seconds)
        axis = np.array([size[0 if name == "m" else 1] for size in sizes], dtype=float)
        values = np.array([times[size] for size in sizes])
        exponents = np.diff(np.log(values)) / np.diff(np.log(axis))
        for (m, p), value, exponent in zip(sizes, values, [np.nan, *exponents], strict=True):
            rows.append(
                [
                    *(name, m, p, f"{value / STEPS * 1e6:.0f}", f"{value / values[0]:.1f}"),
                    "-" if np.isnan(exponent) else f"{exponent:.2f}",
                ]
            )
    return table(["series", "m", "p", "us", "relative", "exponent"], rows)


if __name__ == "__main__":
    print(main())
