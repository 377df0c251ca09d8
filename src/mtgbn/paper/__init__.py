"""The paper's own method, corrected: EM given graphs, its structure priors and samplers.

`mtgbn.MTGBN` is the method to use. This folder is for comparisons with the paper, and for draws of
sigma_h given graphs.
"""

from mtgbn.paper.estimator import PaperMTGBN
from mtgbn.paper.sampling import sample_sigma_h

__all__ = ["PaperMTGBN", "sample_sigma_h"]
