"""From scans to series that `Tasks` reads, and other methods for networks of fMRI series."""

from mtgbn.fmri.extract import extract_series
from mtgbn.fmri.granger import granger_causality
from mtgbn.fmri.regions import load_atlas, load_regions
from mtgbn.fmri.regression_dcm import regression_dcm

__all__ = ["extract_series", "granger_causality", "load_atlas", "load_regions", "regression_dcm"]
