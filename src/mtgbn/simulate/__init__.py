"""Simulated tasks with known truth."""

from mtgbn.simulate.benchmark_networks import load_network
from mtgbn.simulate.bold import simulate_bold_groups
from mtgbn.simulate.bold_images import paint_images
from mtgbn.simulate.hierarchical import simulate_tasks
from mtgbn.simulate.misfit import simulate_misfit
from mtgbn.simulate.perturbed import simulate_perturbed
from mtgbn.simulate.thresholded import simulate_thresholded

__all__ = [
    "load_network",
    "paint_images",
    "simulate_bold_groups",
    "simulate_misfit",
    "simulate_perturbed",
    "simulate_tasks",
    "simulate_thresholded",
]
