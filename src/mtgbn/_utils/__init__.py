"""Helpers that any folder may use; none of them depends on another folder than itself."""
