"""Samplers of sigma_h given the graphs, and diagnostics of their draws."""

from mtgbn.sampling.draws import Diagnostics, Draws
from mtgbn.sampling.hmc import HMCSettings
from mtgbn.sampling.sample import sample_sigma_h

__all__ = ["Diagnostics", "Draws", "HMCSettings", "sample_sigma_h"]
