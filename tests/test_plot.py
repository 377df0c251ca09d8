"""Figures: what is drawn is what was given."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from mtgbn import plot
from mtgbn.errors import InputError

NAMES = ["a", "<b>", "$c$", "脳"]


def arrows(figure):
    return [each for each in figure.axes[0].patches if isinstance(each, FancyArrowPatch)]


def places(names=NAMES):
    angles = np.pi / 2 - 2 * np.pi * np.arange(len(names)) / len(names)
    return np.column_stack([np.cos(angles), np.sin(angles)])


def test_arrows_go_from_source_to_target_and_tell_the_sign():
    weights = np.zeros((4, 4))
    weights[0, 1], weights[3, 2] = 0.5, -1.0
    first, second = arrows(plot.plot_graph(weights, NAMES))
    for arrow, (i, j) in ((first, (0, 1)), (second, (3, 2))):
        start, end = arrow._posA_posB
        np.testing.assert_allclose([start, end], places()[[i, j]], atol=1e-12)
        assert arrow.get_arrowstyle().__class__.__name__ == "CurveFilledB"  # a head at the end only
    assert to_hex(first.get_facecolor()).upper() == plot.BLUE
    assert to_hex(second.get_facecolor()).upper() == plot.VERMILION
    assert first.get_linestyle() != second.get_linestyle()
    assert second.get_linewidth() > first.get_linewidth()
    heads = weights == 0.5
    styles = [
        each.get_arrowstyle().__class__.__name__
        for each in arrows(plot.plot_graph(weights, NAMES, heads=heads))
    ]
    assert styles == ["CurveFilledB", "Curve"]
    undirected = arrows(plot.plot_graph(weights, NAMES, directed=False))
    assert undirected[0].get_arrowstyle().__class__.__name__ == "Curve"


def test_shares_and_differences_above_a_threshold():
    graphs = np.zeros((4, 4, 4), dtype=bool)
    graphs[:3, 0, 1] = graphs[:1, 1, 2] = True
    assert len(arrows(plot.plot_shared_network(graphs, NAMES))) == 1
    assert len(arrows(plot.plot_shared_network(graphs, NAMES, smallest_share=0.25))) == 2
    shares = graphs.mean(axis=0)
    drawn = arrows(plot.plot_difference(shares, shares.T, NAMES, smallest=0.5))
    assert len(drawn) == 2
    assert len({to_hex(each.get_facecolor()) for each in drawn}) == 2


def test_counts_and_degrees():
    counts = np.arange(16).reshape(4, 4)
    figure = plot.plot_counts(counts, NAMES, 15, title="$t$")
    axes = figure.axes[0]
    np.testing.assert_array_equal(
        axes.images[0].get_array().filled(-1) >= 0, ~np.eye(4, dtype=bool)
    )
    assert [label.get_text() for label in axes.get_yticklabels()] == NAMES
    numbers = {tuple(map(int, text.get_position())): text.get_text() for text in axes.texts}
    assert numbers[(3, 1)] == str(counts[1, 3])
    bars = plot.plot_degrees(np.arange(4), np.ones(4), NAMES, ("x", "y")).axes[0].patches
    assert [bar.get_width() for bar in bars] == [0, 1, 2, 3, 1, 1, 1, 1]


@pytest.mark.parametrize("kind", ["svg", "pdf", "png"])
def test_files_are_the_same_every_time_and_names_are_no_formulas(kind):
    def content():
        return plot.figure_as_bytes(plot.plot_graph(np.eye(4, k=1), NAMES), kind, trim=True)

    assert content() == content()
    if kind == "svg":
        assert "$c$" in content().decode()
        assert "&lt;b&gt;" in content().decode()


def test_axes_of_the_caller_and_wrong_shapes():
    figure = Figure()
    axes = figure.subplots(1, 2)
    assert plot.plot_graph(np.zeros((4, 4)), NAMES, axes=axes[1]) is figure
    with pytest.raises(InputError, match="4 variables"):
        plot.plot_counts(np.zeros((3, 3)), NAMES, 5)
