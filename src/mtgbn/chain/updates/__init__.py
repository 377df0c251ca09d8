"""The updates of a round, one per file. Every update draws one part of the state given the rest.

To add one: write ``update_NAME(rng, data, state, ...)`` in a file of its own, give `ChainState` the
fields that it changes, call it in `chain.kernel.run_rounds`, and write its naive twin in
``tests/chain/naive_updates.py``.
"""
