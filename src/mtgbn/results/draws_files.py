"""Draws of sigma_h as files: NumPy's .npz, or NetCDF 3, which xarray, R and MATLAB read."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import netcdf_file

from mtgbn._utils.files import read_npz
from mtgbn.chain.draws import Draws

# The file's name, by the format's name.
DRAWS_FILES = {"npz": "draws.npz", "netcdf": "draws.nc"}
_DIMENSIONS = ("chain", "draw", "variable", "variable_2")  # the first two are ArviZ's names


def npz_bytes(arrays: dict[str, Any]) -> bytes:
    """An .npz file of these arrays."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def write_draws(draws: Draws, draws_format: str) -> bytes:
    """Contents of the file of draws."""
    if draws_format == "npz":
        return npz_bytes({"sigma_h": draws.sigma_h, **draws.statistics})
    buffer = io.BytesIO()
    file = netcdf_file(buffer, "w")
    for name, size in zip(_DIMENSIONS, draws.sigma_h.shape, strict=True):
        file.createDimension(name, size)
    file.variable_names = json.dumps(draws.variables)
    file.createVariable("sigma_h", "f8", _DIMENSIONS)[:] = draws.sigma_h
    for name, values in draws.statistics.items():
        kind = "f8" if values.dtype.kind == "f" else "i4"
        variable = file.createVariable(name, kind, _DIMENSIONS[:2])
        variable[:] = values
        # NetCDF 3 has neither booleans nor long integers.
        variable.numpy_dtype = values.dtype.name
    file.flush()
    return buffer.getvalue()


def read_draws(path: Path) -> dict[str, np.ndarray]:
    """Sigma_h and the statistics of the draws, by name."""
    if path.name == DRAWS_FILES["npz"]:
        return read_npz(path)
    with netcdf_file(path, "r", mmap=False) as file:
        return {
            name: np.array(variable[:]).astype(getattr(variable, "numpy_dtype", b"f8").decode())
            for name, variable in file.variables.items()
        }
