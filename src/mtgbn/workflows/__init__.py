"""What the commands do, as functions: from files to a folder of results.

Each function reads, computes, writes its folder and returns what a caller may want to show. Messages go
to the callback ``tell`` as they arise, and ``progress`` is called with a description of the current
step, the parts of it that are done, and all parts.
"""

from mtgbn.workflows.bids import run_bids
from mtgbn.workflows.compare import compare_folder
from mtgbn.workflows.demo import run_demo
from mtgbn.workflows.extract import extract_folder
from mtgbn.workflows.fit import fit_folder

__all__ = ["compare_folder", "extract_folder", "fit_folder", "run_bids", "run_demo"]
