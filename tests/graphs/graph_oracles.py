"""Slow, obvious versions of what mtgbn.graphs computes, and the graphs to try them on."""

import itertools

import numpy as np


def random_dag(rng, p, density):
    """DAG with edges at random, along a random order of the nodes."""
    order = rng.permutation(p)
    upper = np.triu(rng.random((p, p)) < density, k=1)
    return upper[np.ix_(order, order)]


def random_undirected(rng, p, density):
    upper = np.triu(rng.random((p, p)) < density, k=1)
    return upper | upper.T


def random_chordal(rng, p, density):
    """Each node is joined to a random part of a clique of the earlier ones, then all are mixed."""
    graph = np.zeros((p, p), dtype=bool)
    for node in range(1, p):
        clique = []
        for other in rng.permutation(node):
            if graph[other, clique].all():
                clique.append(other)
        chosen = [other for other in clique if rng.random() < density]
        graph[node, chosen] = graph[chosen, node] = True
    order = rng.permutation(p)
    return graph[np.ix_(order, order)]


def sparse_dag(seed, p, n_edges):
    rng = np.random.default_rng(seed)
    order = rng.permutation(p)
    rows, columns = np.triu_indices(p, k=1)
    chosen = rng.choice(len(rows), n_edges, replace=False)
    dag = np.zeros((p, p), dtype=bool)
    dag[order[rows[chosen]], order[columns[chosen]]] = True
    return dag


def all_pdags(p):
    """Every graph in which each pair of nodes is apart, joined either way, or undirected."""
    pairs = list(itertools.combinations(range(p), 2))
    states = np.array(list(itertools.product(range(4), repeat=len(pairs))))
    graphs = np.zeros((len(states), p, p), dtype=bool)
    for column, (i, j) in enumerate(pairs):
        graphs[:, i, j] = states[:, column] & 1
        graphs[:, j, i] = states[:, column] & 2
    return graphs


def all_dags(p):
    """Every DAG with p nodes: the directed graphs without a walk of length p."""
    pairs = list(itertools.combinations(range(p), 2))
    states = np.array(list(itertools.product(range(3), repeat=len(pairs))))
    graphs = np.zeros((len(states), p, p), dtype=np.int64)
    for column, (i, j) in enumerate(pairs):
        graphs[:, i, j] = states[:, column] == 1
        graphs[:, j, i] = states[:, column] == 2
    walks = np.linalg.matrix_power(graphs, p)
    return graphs[~walks.any(axis=(1, 2))].astype(bool)


def v_structure_flags(graphs):
    """For a stack of PDAGs, one column per (i, k, j): is it a v-structure?"""
    directed = graphs & ~graphs.transpose(0, 2, 1)
    adjacent = graphs | graphs.transpose(0, 2, 1)
    p = graphs.shape[1]
    columns = [
        directed[:, i, k] & directed[:, j, k] & ~adjacent[:, i, j]
        for i, j in itertools.combinations(range(p), 2)
        for k in range(p)
    ]
    return np.array(columns).T.reshape(len(graphs), -1)


def markov_classes(dags):
    """Class number of each DAG of a stack: equal skeleton and v-structures."""
    skeletons = (dags | dags.transpose(0, 2, 1)).reshape(len(dags), -1)
    keys = np.hstack([skeletons, v_structure_flags(dags)])
    return np.unique(keys, axis=0, return_inverse=True)[1].ravel()


def minimum_fill(graph):
    """Fewest fill edges over all elimination orders, by dynamic programming over subsets.

    Once a set is eliminated, two other nodes are adjacent if they were or if a path through the
    set joins them, whatever the order was.
    """
    p = len(graph)
    neighbours = [np.flatnonzero(row).tolist() for row in graph]

    def neighbours_after(node, eliminated):
        found, stack, seen = set(), [node], {node}
        while stack:
            for other in neighbours[stack.pop()]:
                if other not in seen:
                    seen.add(other)
                    if other in eliminated:
                        stack.append(other)
                    else:
                        found.add(other)
        return found

    best = {frozenset(): 0}
    for size in range(p):
        for eliminated in map(frozenset, itertools.combinations(range(p), size)):
            after = {v: neighbours_after(v, eliminated) for v in range(p) if v not in eliminated}
            for node, around in after.items():
                fill = sum(b not in after[a] for a, b in itertools.combinations(around, 2))
                extended = eliminated | {node}
                cost = best[eliminated] + fill
                best[extended] = min(cost, best.get(extended, cost))
    return best[frozenset(range(p))]
