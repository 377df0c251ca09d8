"""The posterior of sigma_h under the uniform structure prior, laid out in compiled code.

What `build_posterior` does for any structure prior with numpy, once per E-step, a chain over graphs
needs after every round.
"""

import numpy as np

from mtgbn._utils.compiled import kernel
from mtgbn.model.log_determinants import LogDeterminants


@kernel
def family_terms(adjacencies, ties, scatters, ns, delta):
    """Log-determinants of the likelihood of all families that are tied, without its constant.

    ``ties`` (m, p) marks the families. Each is taken at sigma_h + T of its task, and at sigma_h the
    families that occur, each once, weighted by how often they do.
    """
    m, p, _ = adjacencies.shape
    n_parents = np.zeros((m, p), dtype=np.int64)
    times = np.zeros((m, p), dtype=np.int64)
    counts = np.zeros(p, dtype=np.int64)
    for t in range(m):
        for i in range(p):
            for node in range(p):
                n_parents[t, node] += adjacencies[t, i, node]
        for node in range(p):
            if ties[t, node]:
                counts[n_parents[t, node]] += 1
    _count_families(adjacencies, ties, n_parents, times)
    for t in range(m):
        for node in range(p):
            if times[t, node] > 0:
                counts[n_parents[t, node]] += 1

    triangle_starts = np.empty(p, dtype=np.int64)
    coefficient_starts = np.empty(p, dtype=np.int64)
    n_kinds, n_elements, n_coefficients = 0, 0, 0
    for q in range(p):
        triangle_starts[q] = n_elements
        coefficient_starts[q] = n_coefficients
        n_elements += (q + 1) * (q + 2) // 2 * counts[q]
        n_coefficients += 2 * counts[q]
        n_kinds += counts[q] > 0
    outer_sizes = np.empty(n_kinds, dtype=np.int64)
    inner_sizes = np.empty(n_kinds, dtype=np.int64)
    kind_counts = np.empty(n_kinds, dtype=np.int64)
    kind = 0
    for q in range(p):
        if counts[q] > 0:
            outer_sizes[kind], inner_sizes[kind], kind_counts[kind] = q + 1, q, counts[q]
            kind += 1

    positions = np.empty(n_elements, dtype=np.uint32)
    shifts = np.empty(n_elements)
    coefficients = np.empty(n_coefficients)
    family = np.empty(p, dtype=np.int64)
    done = np.zeros(p, dtype=np.int64)
    for part in range(2):
        at_tasks = part == 0
        for t in range(m):
            for node in range(p):
                if not (ties[t, node] if at_tasks else times[t, node] > 0):
                    continue
                q = n_parents[t, node]
                size = 0
                for i in range(p):
                    if adjacencies[t, i, node]:
                        family[size] = i
                        size += 1
                family[q] = node
                place = triangle_starts[q] + done[q]
                for r in range(q + 1):
                    for c in range(r + 1):
                        i, j = max(family[r], family[c]), min(family[r], family[c])
                        positions[place] = i * p + j
                        shifts[place] = scatters[t, i, j] if at_tasks else 0.0
                        place += counts[q]
                # ln|M| of a set of a variables has the coefficient -(d + a - 1)/2
                degrees = delta + ns[t] if at_tasks else delta
                weight = 1.0 if at_tasks else -float(times[t, node])
                first = coefficient_starts[q] + done[q]
                coefficients[first] = -weight / 2.0
                coefficients[first + counts[q]] = -weight * (degrees + q) / 2.0
                done[q] += 1
    return LogDeterminants(outer_sizes, inner_sizes, kind_counts, positions, shifts, coefficients)


@kernel
def _count_families(adjacencies, ties, n_parents, times):
    """Write to the first task with a family how many have it; a hash table per child finds them."""
    m, p, _ = adjacencies.shape
    size = 1
    while size < 2 * m:
        size *= 2
    table = np.empty(size, dtype=np.int64)
    for node in range(p):
        table[:] = -1
        for t in range(m):
            if not ties[t, node]:
                continue
            key = 0
            for i in range(p):
                if adjacencies[t, i, node]:
                    key = (key * 1_000_003 + i + 1) % 2_147_483_647  # stays below 2^63
            place = key % size
            while table[place] >= 0 and not _same_parents(
                adjacencies, n_parents, table[place], t, node
            ):
                place = (place + 1) % size
            if table[place] < 0:
                table[place] = t
            times[table[place], node] += 1


@kernel
def _same_parents(adjacencies, n_parents, first, second, node):
    if n_parents[first, node] != n_parents[second, node]:
        return False
    for i in range(adjacencies.shape[1]):
        if adjacencies[first, i, node] != adjacencies[second, i, node]:
            return False
    return True
