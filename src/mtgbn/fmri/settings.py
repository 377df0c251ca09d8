"""The settings of an extraction: what decides the numbers of a series, apart from the images."""

import math
from typing import Any, NamedTuple

import numpy as np

from mtgbn._utils.names import listed
from mtgbn.errors import InputError
from mtgbn.fmri.regions import Atlas, Regions


class Settings(NamedTuple):
    """Arguments of `mtgbn.fmri.extract_series`, which describes them."""

    regions: Regions | Atlas
    radius: float
    drop: int
    confounds: str | list[str] | dict[str, Any]
    scrub: float | None
    scrub_dvars: float
    band: tuple[float, float]
    standardise: bool
    smooth: float | None
    min_coverage: float

    def checked(self) -> "Settings":
        """Refuse values that make no sense; return the others as plain numbers."""
        low, high = map(float, self.band)
        radius, drop, scrub, smooth = self.radius, self.drop, self.scrub, self.smooth
        share = self.min_coverage
        for is_right, message in (
            (0 < radius < 100, f"radius must be above 0 mm; got {radius!r}"),
            (drop == int(drop) >= 0, f"drop must be a whole number from 0; got {drop!r}"),
            (scrub is None or scrub > 0, f"scrub must be above 0 mm; got {scrub!r}"),
            (self.scrub_dvars > 0, f"scrub_dvars must be above 0; got {self.scrub_dvars!r}"),
            (
                0 <= low < high,
                f"the band must be LOW < HIGH in Hz, from 0 on; got {low:g} to {high:g}",
            ),
            (smooth is None or 0 < smooth < 100, f"smooth must be above 0 mm; got {smooth!r}"),
            (0 < share <= 1, f"min_coverage must be above 0, at most 1; got {share!r}"),
            (len(self.regions.names) >= 2, "there must be at least two regions"),
        ):
            if not is_right:
                raise InputError(message)
        return self._replace(drop=int(self.drop), band=(low, high))

    def warnings(self) -> list[str]:
        """Warn of spheres that overlap, whose series are correlated by construction."""
        if isinstance(self.regions, Atlas):
            return []
        names, points = self.regions.names, self.regions.coordinates
        apart = np.linalg.norm(points[:, None] - points, axis=2)
        pairs = np.argwhere(np.triu(apart < 2 * self.radius, 1))
        if not len(pairs):
            return []
        each = [f"{names[i]} and {names[j]} ({apart[i, j]:.1f} mm)" for i, j in pairs]
        return [
            f"spheres of {self.radius:g} mm overlap: {listed(each, quote=False)}; their series share "
            "voxels, which looks like a connection"
        ]

    def segmentation(self) -> str:
        """Name the set of regions as BIDS does, in letters and digits."""
        if isinstance(self.regions, Atlas):
            name = self.regions.image.name.partition(".")[0]
        else:
            name = "".join(dict.fromkeys(self.regions.templates))
        return "".join(c for c in name if c.isascii() and c.isalnum()) or "regions"

    def record(self) -> dict[str, Any]:
        """Return all settings as they stand in the record beside a series."""
        regions = self.regions
        if isinstance(regions, Atlas):
            where: dict[str, Any] = {
                "Atlas": str(regions.image.absolute()),
                "AtlasValues": regions.values,
                "RegionNames": regions.names,
            }
        else:
            where = {
                "RegionNames": regions.names,
                "RegionCoordinates": regions.coordinates.tolist(),
                "CoordinateSystem": "MNI, mm",
                "SphereRadius": self.radius,
            }
        low, high = self.band
        is_scrubbed = self.scrub is not None and math.isfinite(self.scrub_dvars)
        return {
            **where,
            "DroppedVolumes": self.drop,
            "Confounds": self.confounds,
            "ScrubFramewiseDisplacement": self.scrub,
            "ScrubStandardisedDVARS": self.scrub_dvars if is_scrubbed else None,
            "Detrend": "linear",
            "BandPass": [low or None, high if math.isfinite(high) else None],
            "Filter": "Butterworth of order 5, forwards and backwards",
            "Standardise": self.standardise,
            "SmoothingFWHM": self.smooth,
            "MinCoverage": self.min_coverage,
        }
