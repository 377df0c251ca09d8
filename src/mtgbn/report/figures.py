"""Static figures of a comparison, as images within the page."""

import base64
import importlib.util
import io
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mtgbn import plot
from mtgbn.report.brain_regions import coordinates_of

# Static figures omit edges of a smaller share of a group, and differences below half of this.
SMALLEST_SHARE = 0.4


class Picture(NamedTuple):
    """An image within a page."""

    source: str
    """Data URL."""
    words: str
    """Description for readers who cannot see the image."""


class Effects(NamedTuple):
    """Effects of a design as two matrices; a connection is in one of them, in one place."""

    plain: np.ndarray
    """(p, p): effects of connections without a supported direction."""
    directed: np.ndarray
    """(p, p): effects of connections i -> j whose direction is supported."""

    @property
    def largest(self) -> float:
        """The largest absolute effect."""
        return float(max(np.abs(self.plain).max(initial=0), np.abs(self.directed).max(initial=0)))


def circle_pictures(
    panels: Sequence[tuple[str, np.ndarray]], variables: Sequence[str], words: str
) -> list[Picture]:
    """Networks on circles, from their names and weights."""
    pictures = []
    for name, weights in panels:
        figure = plot.plot_graph(_thinned(weights), variables, title=name, largest=1.0)
        pictures.append(_picture_of(figure, f"{name}: {words}"))
    return pictures


def counts_pictures(
    panels: Sequence[tuple[str, np.ndarray, int]], variables: Sequence[str], words: str
) -> list[Picture]:
    """Heat maps, from their names, counts and numbers of subjects."""
    return [
        _picture_of(plot.plot_counts(counts, variables, n, title=name), f"{name}: {words}")
        for name, counts, n in panels
    ]


def degrees_picture(
    degrees: tuple[np.ndarray, np.ndarray],
    variables: Sequence[str],
    labels: tuple[str, str],
    words: str,
) -> Picture:
    """Mean number of edges at every variable, for two groups."""
    return _picture_of(plot.plot_degrees(*degrees, variables, labels), words)


def glass_brain_picture(
    panels: Sequence[tuple[str, np.ndarray]], variables: Sequence[str], words: str
) -> Picture | None:
    """Networks in the brain; None if a region's place is unknown, or without nilearn."""
    coordinates = coordinates_of(variables)
    return _brains([(name, [_thinned(weights)]) for name, weights in panels], coordinates, words)


def effects_picture(effects: Effects, variables: Sequence[str], words: str) -> Picture:
    """Effects on a circle; only those whose direction is supported have an arrowhead."""
    largest = effects.largest
    # Two drawings in the same axes: lines without heads and names, then arrows and names.
    figure = plot.plot_graph(effects.plain, [""] * len(variables), largest=largest, directed=False)
    plot.plot_graph(effects.directed, variables, largest=largest, axes=figure.axes[0])
    return _picture_of(figure, words)


def effects_brain_picture(
    effects: Effects, coordinates: np.ndarray | None, words: str
) -> Picture | None:
    """Effects in the brain; None if a region's place is unknown, or without nilearn."""
    scale = effects.largest or 1.0
    plain = (effects.plain + effects.plain.T) / scale
    return _brains([("", [plain, effects.directed / scale])], coordinates, words)


def _brains(
    panels: Sequence[tuple[str, Sequence[np.ndarray]]], coordinates: np.ndarray | None, words: str
) -> Picture | None:
    """Networks in the brain, each from matrices: symmetric ones are lines, others are arrows."""
    if coordinates is None or importlib.util.find_spec("nilearn") is None:
        return None
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    # nilearn draws lines wider towards the end of the colour scale; a longer scale keeps them narrow.
    end = 4.0
    stops = [(0.0, plot.VERMILION), (0.5 - 0.5 / end, plot.VERMILION), (0.5, "white")]
    stops += [(0.5 + 0.5 / end, plot.BLUE), (1.0, plot.BLUE)]
    options = {
        "node_color": plot.INK,
        "node_size": 18,
        "edge_cmap": LinearSegmentedColormap.from_list("signs", stops),
        "edge_vmin": -end,
        "edge_vmax": end,
    }
    figure = Figure(figsize=(9.0, 3.4 * len(panels)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nilearn warns about directed, so asymmetric, matrices
        from nilearn.plotting import plot_connectome

        for place, (name, (first, *others)) in enumerate(panels):
            height = 1 / len(panels)
            bottom = 1 - (place + 1) * height
            brain = plot_connectome(
                first,
                coordinates,
                display_mode="ortho",
                figure=figure,
                axes=(0.0, bottom, 1.0, 0.88 * height),
                colorbar=False,
                **options,
            )
            for matrix in others:
                if matrix.any():
                    brain.add_graph(matrix, coordinates, **options)
            figure.text(0.01, bottom + 0.92 * height, name, fontsize=11, parse_math=False)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    return _picture(buffer.getvalue(), "png", words)


def _thinned(weights: np.ndarray) -> np.ndarray:
    weights = np.asarray(weights, dtype=float)
    least = SMALLEST_SHARE / 2 if (weights < 0).any() else SMALLEST_SHARE
    return np.where(np.abs(weights) >= least - 1e-12, weights, 0.0)


def _picture_of(figure: Any, words: str) -> Picture:
    return _picture(plot.figure_as_bytes(figure, "svg", trim=True), "svg+xml", words)


def _picture(content: bytes, kind: str, words: str) -> Picture:
    return Picture(f"data:image/{kind};base64,{base64.b64encode(content).decode()}", words)
