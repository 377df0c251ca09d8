"""From scans to tasks, and the other methods that fMRI researchers use."""

from mtgbn.fmri.density import strongest_edges
from mtgbn.fmri.extract import Extraction, extract_series
from mtgbn.fmri.granger import GrangerResult, granger_causality
from mtgbn.fmri.images import find_images
from mtgbn.fmri.regions import Atlas, Regions, load_atlas, load_regions
from mtgbn.fmri.regression_dcm import RegressionDCMResult, regression_dcm

__all__ = [
    "Atlas",
    "Extraction",
    "GrangerResult",
    "Regions",
    "RegressionDCMResult",
    "extract_series",
    "find_images",
    "granger_causality",
    "load_atlas",
    "load_regions",
    "regression_dcm",
    "strongest_edges",
]
