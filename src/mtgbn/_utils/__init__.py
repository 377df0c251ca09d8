"""Helpers that any folder may use; none of them knows anything of networks."""
