"""Simulated tasks with known truth."""

from mtgbn.simulate.benchmark_networks import NETWORKS, BenchmarkNetwork, load_network
from mtgbn.simulate.bold import AlteredConnection, BoldSimulation, simulate_bold_groups
from mtgbn.simulate.bold_images import paint_images
from mtgbn.simulate.hierarchical import Simulation, draw_covariance, simulate_tasks
from mtgbn.simulate.perturbed import random_network, simulate_perturbed
from mtgbn.simulate.thresholded import simulate_thresholded

__all__ = [
    "NETWORKS",
    "AlteredConnection",
    "BenchmarkNetwork",
    "BoldSimulation",
    "Simulation",
    "draw_covariance",
    "load_network",
    "paint_images",
    "random_network",
    "simulate_bold_groups",
    "simulate_perturbed",
    "simulate_tasks",
    "simulate_thresholded",
]
