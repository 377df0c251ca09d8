"""Reading and validating datasets: `read_tables` reads, `Tasks` has what is kept of them."""

from mtgbn.tasks.autocorrelation import effective_samples
from mtgbn.tasks.collection import Tasks
from mtgbn.tasks.readers import read_tables

__all__ = ["Tasks", "effective_samples", "read_tables"]
