"""The paper's simulations as independent cells, which are kept in a store as they are finished."""

from mtgbn.experiments.designs import EXPERIMENTS, cells_of

__all__ = ["EXPERIMENTS", "cells_of"]
