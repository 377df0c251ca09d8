"""A Dask cluster that the user names by its address."""

import contextlib
from collections.abc import Iterator

from mtgbn.errors import InputError

__all__ = ["connected"]


@contextlib.contextmanager
def connected(address: str | None, how_to_go_on: str) -> Iterator:
    """A client of the cluster at this address; None without one.

    What goes wrong with the cluster becomes an error that says how to go on.
    """
    if address is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError("--scheduler needs Dask: pip install 'mtgbn[dask]'") from error
    try:
        client = Client(address, timeout="10s", set_as_default=True)
    except Exception as error:  # of many kinds, by what is wrong with the address
        raise InputError(f"there is no Dask scheduler at {address!r}: {error}") from error
    with client:
        try:
            yield client
        except Exception as error:
            if not isinstance(error, TimeoutError) and "distributed" not in type(error).__module__:
                raise
            raise InputError(
                f"the Dask cluster at {address!r} has no workers or was lost ({error}); {how_to_go_on}"
            ) from error
