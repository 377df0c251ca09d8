"""Densities of the model: signed sets in, log-determinants of small matrices out (docs/model.md)."""
