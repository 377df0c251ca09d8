"""Reading and validating datasets; what is kept of them is one `Tasks`."""

from mtgbn.tasks.autocorrelation import effective_samples
from mtgbn.tasks.tasks import Tasks

__all__ = ["Tasks", "effective_samples"]
