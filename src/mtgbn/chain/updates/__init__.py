"""The updates of a round, one file each. Every update renews one part of the state given the rest.

All have the form ``update_NAME(rng, data, state, ...)`` with a numpy Generator, a `ChainData` and a
`ChainState`, which they change in place. To add one: write it in a file of its own, give `ChainState`
the fields that it changes, call it in `chain.kernel.run_rounds`, and write its naive twin in the tests.
"""
