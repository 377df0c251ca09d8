"""The paper's simulations, to be run again: plans of independent cells, kept as they are done."""

from mtgbn.experiments.cells import run_cell
from mtgbn.experiments.designs import EXPERIMENTS, METHODS, Cell, Experiment, cells_of
from mtgbn.experiments.run import Failure, run_cells
from mtgbn.experiments.store import Store
from mtgbn.experiments.tables import summarise

__all__ = [
    "EXPERIMENTS",
    "METHODS",
    "Cell",
    "Experiment",
    "Failure",
    "Store",
    "cells_of",
    "run_cell",
    "run_cells",
    "summarise",
]
