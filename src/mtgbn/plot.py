"""Figures for papers, in matplotlib: networks on a circle, counts, degrees.

Every function returns a matplotlib figure; ``figure.savefig("network.pdf")`` or ``.svg`` writes it. If
``axes`` are given, the function draws into them. Colours are Okabe and Ito's, which colour-blind readers
can tell apart; lines also show the sign. ``A[i, j]`` means i -> j.
"""

import io
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from mtgbn._utils.optional import require
from mtgbn.errors import InputError

__all__ = ["plot_counts", "plot_difference", "plot_graph", "plot_shared_network"]

BLUE, VERMILION, INK, SOFT = "#0072B2", "#D55E00", "#1f2933", "#52606d"

# Longer names and titles are cut.
_MOST_LETTERS = 24
_MOST_LETTERS_OF_TITLES = 60

# With more variables, names around a circle are turned like spokes; otherwise they would overlap.
_MOST_LEVEL_NAMES = 14


def plot_graph(
    weights: np.ndarray,
    variables: Sequence[str],
    *,
    title: str | None = None,
    largest: float | None = None,
    directed: bool = True,
    heads: np.ndarray | None = None,
    axes: Any = None,
) -> Any:
    """Draw one directed graph on a circle.

    Parameters
    ----------
    weights : array (p, p)
        Weight of i -> j: a graph (bool), coefficients, or shares of tasks; 0 means no edge. The width
        of a line shows the size. Positive weights are blue and solid, negative ones vermilion and
        dashed.
    variables : sequence of str
        Names.
    title : str, optional
    largest : float, optional
        Weight of the widest line, to make several figures comparable. Default: the largest weight.
    directed : bool
        Whether lines have arrowheads.
    heads : array (p, p) of bool, optional
        Edges i -> j whose direction is supported; the others have no arrowhead. Of a fitted task t
        these are ``graphs_[t] & ~cpdags_[t].T``. Default: all.
    axes : matplotlib axes, optional
        Where to draw. Default: in a new figure.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> figure = plot_graph(np.array([[0, 0.8], [0, 0]]), ["amygdala", "insula"])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['amygdala', 'insula']
    """
    weights = _square(weights, variables)
    figure, axes = _canvas(axes, (5.2, 5.2))
    from matplotlib.patches import FancyArrowPatch

    p = len(variables)
    angles = np.pi / 2 - 2 * np.pi * np.arange(p) / max(p, 1)
    x, y = np.cos(angles), np.sin(angles)
    top = float(np.abs(weights).max(initial=0)) if largest is None else float(largest)
    is_small = p > 40
    for i, j in np.argwhere(weights != 0):
        size = abs(weights[i, j]) / (top or 1)
        axes.add_patch(
            FancyArrowPatch(
                (x[i], y[i]),
                (x[j], y[j]),
                arrowstyle="-|>" if directed and (heads is None or heads[i, j]) else "-",
                mutation_scale=5 if is_small else 11,
                shrinkA=3 if is_small else 6,
                shrinkB=3 if is_small else 6,
                linewidth=0.5 + (1.2 if is_small else 2.6) * size,
                linestyle="-" if weights[i, j] > 0 else (0, (4, 2)),
                color=BLUE if weights[i, j] > 0 else VERMILION,
                alpha=0.25 + 0.7 * size,
                connectionstyle="arc3,rad=0.1",
            )
        )
    axes.scatter(x, y, s=8 if is_small else 40, color=INK, zorder=3)
    size = 5 if is_small else 9
    is_level = p <= _MOST_LEVEL_NAMES
    for k, name in enumerate(variables):
        degrees = np.degrees(angles[k]) % 360
        is_left = 90 < degrees < 270
        is_end = is_level and abs(x[k]) < 0.2
        spoke = 0.0 if is_level else degrees - 180 if is_left else degrees
        axes.text(
            1.07 * x[k],
            1.07 * y[k],
            _cut(name),
            rotation=spoke,
            rotation_mode="anchor",
            ha="center" if is_end else "right" if is_left else "left",
            va=("bottom" if y[k] > 0 else "top") if is_end else "center",
            fontsize=size,
            color=INK,
            parse_math=False,
        )
    axes.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), aspect="equal")
    axes.axis("off")
    longest = max((len(_cut(name)) for name in variables), default=0)
    _set_title(axes, title, pad=14 if is_level else 10 + 0.6 * size * longest)
    return figure


def plot_shared_network(
    graphs: np.ndarray,
    variables: Sequence[str],
    *,
    smallest_share: float = 0.5,
    heads: np.ndarray | None = None,
    title: str | None = None,
    axes: Any = None,
) -> Any:
    """Draw the edges that many tasks have; the width shows the share of tasks.

    Parameters
    ----------
    graphs : array (m, p, p)
        One graph per task.
    variables : sequence of str
    smallest_share : float
        Edges that a smaller share of the tasks has are left out.
    heads, title, axes
        As for `plot_graph`. That tasks agree in a direction does not support it: their directions are
        chosen to agree where data allow either.

    Examples
    --------
    >>> graphs = np.array([[[0, 1], [0, 0]], [[0, 1], [0, 0]], [[0, 0], [1, 0]]])
    >>> len(plot_shared_network(graphs, ["a", "b"]).axes[0].patches)
    1
    """
    shares = np.asarray(graphs, dtype=float).mean(axis=0)
    shares = np.where(shares >= smallest_share, shares, 0.0)
    return plot_graph(shares, variables, title=title, largest=1.0, heads=heads, axes=axes)


def plot_difference(
    shares_a: np.ndarray,
    shares_b: np.ndarray,
    variables: Sequence[str],
    *,
    smallest: float = 0.2,
    title: str | None = None,
    axes: Any = None,
) -> Any:
    """Draw where the shares of two groups differ: blue and solid where the first has the larger share.

    Parameters
    ----------
    shares_a, shares_b : array (p, p)
        Share of the group's tasks that have i -> j.
    variables : sequence of str
    smallest : float
        Smaller differences are left out.
    title, axes
        As for `plot_graph`.

    Examples
    --------
    >>> shares = np.array([[0, 0.9], [0, 0]])
    >>> len(plot_difference(shares, 0.2 * shares, ["a", "b"]).axes[0].patches)
    1
    """
    difference = np.asarray(shares_a, dtype=float) - np.asarray(shares_b, dtype=float)
    difference[np.abs(difference) < smallest - 1e-12] = 0.0
    return plot_graph(difference, variables, title=title, largest=1.0, axes=axes)


def plot_counts(
    counts: np.ndarray,
    variables: Sequence[str],
    n: int,
    *,
    title: str | None = None,
    axes: Any = None,
) -> Any:
    """Draw a heat map of how many of n tasks have i -> j; i in rows, j in columns.

    Parameters
    ----------
    counts : array (p, p) of int
    variables : sequence of str
    n : int
        Number of tasks, the upper end of the colour scale.
    title, axes
        As for `plot_graph`.

    Examples
    --------
    >>> figure = plot_counts(np.array([[0, 3], [1, 0]]), ["a", "b"], n=4)
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['3', '1']
    """
    counts = _square(counts, variables)
    p = len(variables)
    side = min(max(2.6, 1.3 + 0.34 * p), 14.0)
    figure, axes = _canvas(axes, (side + 0.7, side))
    shown = np.ma.masked_array(counts, np.eye(p, dtype=bool))
    image = axes.imshow(shown, cmap="Blues", vmin=0, vmax=max(n, 1), interpolation="nearest")
    axes.set_facecolor("#e4e7eb")
    size = 9 if p <= 20 else max(3.5, 180 / p)
    names = [_cut(name) for name in variables]
    axes.set_yticks(range(p), names, fontsize=size, parse_math=False)
    axes.set_xticks(range(p), names, fontsize=size, rotation=90, parse_math=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if p <= 20:
        for i, j in np.argwhere(counts * ~np.eye(p, dtype=bool)):
            axes.text(
                *(j, i, f"{counts[i, j]:g}"),
                ha="center",
                va="center",
                fontsize=7,
                color="white" if counts[i, j] > 0.55 * n else INK,
            )
    from matplotlib.ticker import MaxNLocator

    whole = MaxNLocator(nbins=5, integer=True)
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.7, pad=0.02, ticks=whole)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, length=0)
    bar.set_label(f"of {n}", fontsize=9, color=SOFT)
    _set_title(axes, title)
    return figure


def plot_degrees(
    degrees_a: np.ndarray,
    degrees_b: np.ndarray,
    variables: Sequence[str],
    labels: tuple[str, str],
    *,
    title: str | None = None,
    axes: Any = None,
) -> Any:
    """Draw a number per variable (p,), such as the mean number of edges, for two groups side by side."""
    p = len(variables)
    figure, axes = _canvas(axes, (5.6, min(1.2 + 0.34 * p, 30)))
    places = np.arange(p)
    for values, label, colour, shift, hatch in (
        (degrees_a, labels[0], BLUE, -0.2, None),
        (degrees_b, labels[1], "#E69F00", 0.2, "///"),
    ):
        axes.barh(
            *(places + shift, values, 0.38),
            color=colour,
            label=label,
            hatch=hatch,
            edgecolor="white",
            linewidth=0,
        )
    axes.set_yticks(places, [_cut(name) for name in variables], fontsize=9, parse_math=False)
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", color="#e4e7eb")
    axes.set_axisbelow(True)
    legend = axes.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False, fontsize=9
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    _set_title(axes, title, pad=24)
    return figure


def figure_as_bytes(figure: Any, kind: str, *, dpi: int = 150, trim: bool = False) -> bytes:
    """The figure as SVG, PDF or PNG; the same numbers give the same bytes.

    ``trim`` removes empty margins.
    """
    matplotlib = require("matplotlib", "plot", "figures")
    buffer = io.BytesIO()
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {"Software": None})
    with (
        matplotlib.rc_context({"svg.hashsalt": "mtgbn", "svg.fonttype": "none"}),
        warnings.catch_warnings(),
    ):
        # Browsers have fonts for letters that matplotlib's own font lacks.
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        box = {"bbox_inches": "tight", "pad_inches": 0.08} if trim else {}
        figure.savefig(buffer, format=kind, dpi=dpi, metadata=metadata, **box)
    return buffer.getvalue()


def _canvas(axes: Any, size: tuple[float, float]) -> tuple[Any, Any]:
    """The figure and its axes: the given ones, or new ones."""
    module = require("matplotlib.figure", "plot", "figures")
    if axes is not None:
        return axes.figure, axes
    figure = module.Figure(figsize=size, layout="constrained")
    return figure, figure.subplots()


def _square(array: np.ndarray, variables: Sequence[str]) -> np.ndarray:
    array = np.asarray(array)
    p = len(variables)
    if array.shape != (p, p):
        raise InputError(
            f"the array has shape {array.shape}; with {p} variables give one of shape {(p, p)}"
        )
    return array.astype(float) if array.dtype == bool else array


def _cut(name: str, most: int = _MOST_LETTERS) -> str:
    name = " ".join(str(name).split())
    return name if len(name) <= most else name[: most - 1] + "…"


def _set_title(axes: Any, title: str | None, pad: float = 6) -> None:
    if title is not None:
        axes.set_title(
            _cut(title, _MOST_LETTERS_OF_TITLES), fontsize=11, color=INK, pad=pad, parse_math=False
        )
