"""Hypothesis draws the same examples in every run, and is not hurried by a busy machine."""

from hypothesis import settings

settings.register_profile("mtgbn", derandomize=True, deadline=None)
settings.load_profile("mtgbn")
