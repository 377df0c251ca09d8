"""A Dask cluster that the user names by its address."""

import contextlib
from collections.abc import Iterator
from typing import Any

from mtgbn._utils.optional import require
from mtgbn.errors import InputError


@contextlib.contextmanager
def connected(address: str | None, how_to_go_on: str) -> Iterator[Any]:
    """Yield a client of the cluster at this address; None without an address.

    Errors of the cluster become errors that say how to go on.
    """
    if address is None:
        yield None
        return
    distributed = require("distributed", "dask", "clusters")
    try:
        client = distributed.Client(address, timeout="10s", set_as_default=True)
    except Exception as error:  # its kind depends on what is wrong with the address
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
