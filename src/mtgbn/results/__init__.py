"""A fitted estimator on disk, written whole and checked when it is read; and a summary of it."""

from mtgbn.results.folder import load_result, save_result
from mtgbn.results.summary import summarise

__all__ = ["load_result", "save_result", "summarise"]
