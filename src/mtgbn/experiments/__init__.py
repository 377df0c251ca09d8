"""The paper's simulations as independent cells, which are kept in a store as they are finished."""

from mtgbn.experiments.designs import EXPERIMENTS

__all__ = ["EXPERIMENTS"]
