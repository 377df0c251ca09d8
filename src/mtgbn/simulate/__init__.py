"""Simulated tasks with known truth."""

from mtgbn.simulate.hierarchical import Simulation, draw_covariance, simulate_tasks

__all__ = ["Simulation", "draw_covariance", "simulate_tasks"]
