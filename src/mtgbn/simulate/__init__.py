"""Simulated tasks with known truth."""

from mtgbn.simulate.hierarchical import Simulation, simulate_tasks

__all__ = ["Simulation", "simulate_tasks"]
