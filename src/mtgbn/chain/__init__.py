"""One chain over everything that is not known: sigma_h, delta, membership, graphs, edge prior, gaps.

A chain is `ChainData` (what is given), `ChainState` (where it stands) and `ChainTrace` (what it went
through), all in `state`. One round calls the updates in order (`kernel`); `run` repeats rounds, adapts
step sizes and keeps the trace.
"""
