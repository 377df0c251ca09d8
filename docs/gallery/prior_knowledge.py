"""Prior knowledge: known edges are kept, and decide directions that the data leave open."""

import numpy as np

from mtgbn import MTGBN, Tasks

rng = np.random.default_rng(1)
arrays = []
for _ in range(6):  # dose -> level -> effect, and age -> effect
    dose, age = rng.normal(size=(2, 60))
    level = 0.8 * dose + rng.normal(size=60)
    effect = 0.7 * level + 0.5 * age + rng.normal(size=60)
    arrays.append(np.column_stack([dose, age, level, effect]))
tasks = Tasks.from_arrays(arrays, variables=["dose", "age", "level", "effect"])

knowledge = {
    "tiers": [
        ["dose", "age"],
        ["level"],
        ["effect"],
    ],  # no edge from a later tier to an earlier one
    "forbidden": [("dose", "effect")],
    "required": [("dose", "level")],
    "max_parents": 2,
}
for words, known in (("without", None), ("with", knowledge)):
    estimator = MTGBN(knowledge=known, random_state=1).fit(tasks)
    print(f"Edges {words} prior knowledge, and the number of tasks that have them:")
    counts = estimator.graphs_.sum(axis=0)
    for i, j in np.argwhere(counts):
        print(
            f"  {estimator.variables_[i]} -> {estimator.variables_[j]}: {counts[i, j]} of {len(tasks)}"
        )
