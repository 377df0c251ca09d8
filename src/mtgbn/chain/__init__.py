"""A Markov chain over all unknowns: sigma_h, delta, membership, graphs, edge prior, missing values.

`state` has the three structures of a chain: `ChainData` (what is given), `ChainState` (the present
values of all unknowns) and `ChainTrace` (a record of its rounds). A round calls the updates in order
(`kernel`); `run_chain` in `run` repeats rounds, adapts step sizes and fills the trace.
"""
