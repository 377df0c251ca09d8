"""Slow, obvious twins of the updates of a chain, in plain Python.

Every twin takes the random numbers that the update takes, in the same order, so that the two must end
in the same state. Densities come from `naive`: explicit sets, determinants of explicit submatrices, Beta
functions. The numbers of the sampler (step sizes, targets, shares of moves) are written out here again.
"""

import itertools

import naive
import numpy as np
from chain_problems import SINGLE_DELTA
from scipy.special import expit, gammaln, log_expit, logsumexp, softmax

from mtgbn.chain.state import ChainTrace, copy_of

# Shares of own families that are possible, all equally probable a priori.
MOST_OWN = 1
OWN_SHARES = np.array([0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128])

# Densities of one task.


def prior_of(data, state, t, sigma_h, is_tied, delta=None):
    """Prior matrix and delta of tied or of own families of a task."""
    if is_tied:
        return sigma_h, float(state.delta) if delta is None else delta
    return np.diag(data.single_scales[t]), SINGLE_DELTA


def family_score(prior, delta, scatter, n, node, parents):
    """Log marginal likelihood of one family, without the constant -n/2 ln pi."""
    return naive.family_score(prior, delta, scatter, n, node, parents) + n / 2 * np.log(np.pi)


def log_likelihood_of_family(data, state, t, node, sigma_h, is_tied, delta=None):
    """Log marginal likelihood of a family of a task, up to a constant of the data alone."""
    prior = prior_of(data, state, t, sigma_h, is_tied, delta)
    parents = naive.parents_of(state.adjacencies[t], node)
    return family_score(*prior, state.scatters[t], data.ns[t], node, parents)


def log_likelihood(data, state, t, sigma_h, ties, delta=None):
    """Log marginal likelihood of a task, up to a constant of the data alone.

    ``ties`` are those of its families; one number is that of all families.
    """
    return sum(
        log_likelihood_of_family(data, state, t, node, sigma_h, is_tied, delta)
        for node, is_tied in enumerate(np.broadcast_to(ties, len(sigma_h)))
    )


def gains_of_ties(data, state, t, sigma_h):
    """Log likelihoods of all families of a task as tied ones, minus those as own ones."""
    return np.array(
        [
            log_likelihood_of_family(data, state, t, node, sigma_h, True)
            - log_likelihood_of_family(data, state, t, node, sigma_h, False)
            for node in range(len(sigma_h))
        ]
    )


def advantages_of(data, state, sigma_h):
    """Log likelihoods as members, whose families are tied or own ones, minus those as single tasks."""
    everybody = range(len(state.members))
    gains = [gains_of_ties(data, state, t, sigma_h) for t in everybody]
    return np.array([log_advantage(each, float(state.own_share)) for each in gains])


def log_advantage(gains, own_share):
    """The log of a sum over all patterns of ties, given the gains of ties of one task's families."""
    if own_share == 0:
        return np.sum(gains)
    patterns, log_prior = patterns_of_ties(len(gains), own_share)
    return logsumexp(log_prior + patterns @ gains)


def patterns_of_ties(p, own_share):
    """All patterns of ties of a member with p families, and their log probabilities.

    A member has at most `MOST_OWN` own families. Given the share of own families, patterns have the
    probabilities of independent ties, in proportion.
    """
    patterns = np.array([*itertools.product([False, True], repeat=p)])
    n_own = (~patterns).sum(axis=1)
    patterns = patterns[n_own <= MOST_OWN]
    n_own = (~patterns).sum(axis=1)
    log_prior = n_own * np.log(own_share) + (p - n_own) * np.log(1 - own_share)
    return patterns, log_prior - logsumexp(log_prior)


def log_prior_of_delta(delta):
    """Log density of ln delta where delta / (delta + 100) is uniform, up to a constant."""
    return np.log(delta / (delta + 100) ** 2)


# The edge prior.


def log_odds_of_edge(data, state, t, i, j, is_member, members=None):
    """Log prior odds of i -> j in a task, given the graphs of the other members."""
    log_odds = state.single_log_odds[i, j]
    if is_member:
        members = state.members if members is None else members
        others = [u for u in range(len(members)) if members[u] and u != t]
        forward = sum(int(state.adjacencies[u, i, j]) for u in others)
        backward = sum(int(state.adjacencies[u, j, i]) for u in others)

        def of_beta(agreement):
            """Log odds by density and similarity, as if they held."""
            return naive.log_odds_of_edge(
                state.density[i, j],
                float(state.similarity),
                agreement,
                forward=forward,
                backward=backward,
                n_others=len(others),
            )

        log_odds = of_beta(data.agreement)
        if len(state.kinds):
            log_odds -= of_beta(np.inf)  # what is left is that of the direction
            joined = state.adjacencies[:, i, j] | state.adjacencies[:, j, i]
            for sign, has_edge in ((1, True), (-1, False)):
                patterns = [
                    [joined[u] for u in others if data.groups[u] == group]
                    + [has_edge] * int(data.groups[t] == group)
                    for group in (0, 1)
                ]
                log_odds += sign * log_probability_of_patterns(state.kinds, *patterns)
    return log_odds


def log_probability_of_patterns(kinds, first, second):
    """Log probability of which tasks of both groups have a pair."""
    counts = [(sum(each), len(each) - sum(each)) for each in (first, second)]
    return naive.log_probability_of_pair(kinds, *counts[0], *counts[1])


def directed_counts(data, state):
    """Members that have i -> j, and those of the second group."""
    is_second = state.members & (data.groups == 1)
    return [state.adjacencies[which].sum(axis=0) for which in (state.members, is_second)]


def one_way(data, i, j):
    return np.log(2) if data.allowed[i, j] and not data.allowed[j, i] else 0.0


def log_probability_of_edges(data, state):
    """Joint log prior of the graphs of all tasks, given their orders."""
    joined = state.adjacencies | np.swapaxes(state.adjacencies, 1, 2)
    members = state.members
    density = expit(state.single_log_odds)
    counts, n = joined[members].sum(axis=0), int(members.sum())
    if len(state.kinds):
        of_members = sum(
            log_probability_of_patterns(
                state.kinds,
                *(joined[members & (data.groups == group), i, j].tolist() for group in (0, 1)),
            )
            for i, j in itertools.combinations(range(len(counts)), 2)
            if data.free[i, j]
        )
    else:
        of_members = naive.log_probability_of_skeletons(
            state.density, float(state.similarity), counts, n, data.free
        )
    return (
        of_members
        + naive.log_probability_of_directions(
            state.adjacencies[members].sum(axis=0), data.agreement
        )
        + naive.log_probability_of_skeletons(
            density, np.inf, joined[~members].sum(axis=0), int((~members).sum()), data.free
        )
    )


# sigma_h.


def log_density_of_coordinates(data, state, x):
    """Log posterior of the coordinates of HMC given the graphs, up to a constant."""
    p, delta = len(data.psi_scales), float(state.delta)
    sigma_h = naive.sigma_h_of(x, delta * state.centre)
    value = sum(
        log_likelihood_of_family(data, state, t, node, sigma_h, True)
        for t, node in np.argwhere(state.ties)
    )
    # Psi is inverse Wishart with p + 1 degrees of freedom, so that correlations are uniform.
    value -= (p + 1 + p + 1) / 2 * naive.log_determinant(sigma_h)
    value -= np.trace(np.diag(delta * data.psi_scales) @ np.linalg.inv(sigma_h)) / 2
    # Jacobian of the coordinates: the powers p + 1, p, ..., 2 of the diagonal of the factor.
    diagonal = np.cumsum(np.arange(1, p + 1)) - 1
    return value + np.arange(p + 1, 1, -1) @ x[diagonal]


def value_and_gradient(data, state, x):
    gradient = np.empty(len(x))
    for k in range(len(x)):
        step = np.zeros(len(x), dtype=complex)
        step[k] = 1j * naive.COMPLEX_STEP
        moved = log_density_of_coordinates(data, state, x + step)
        gradient[k] = np.imag(moved) / naive.COMPLEX_STEP
    return np.real(moved), gradient


def leapfrog(data, state, x, momentum, gradient, step_size):
    momentum = momentum + step_size / 2 * gradient
    x = x + step_size * state.inverse_mass * momentum
    value, gradient = value_and_gradient(data, state, x)
    return x, momentum + step_size / 2 * gradient, value, gradient


def kinetic_energy(state, momentum):
    return (state.inverse_mass * momentum**2).sum() / 2


def begin(rng, data, state):
    """Masses of the Wishart distribution with the curvature of the posterior; a first step size."""
    p = len(data.psi_scales)
    on_diagonal = np.concatenate([np.arange(i + 1) == i for i in range(p)])
    _, ahead = value_and_gradient(data, state, 1e-4 * on_diagonal)
    _, behind = value_and_gradient(data, state, -1e-4 * on_diagonal)
    curvature = -(ahead - behind)[on_diagonal].sum() / 2e-4
    degrees = max(curvature / (2 * p), 1.0)
    state.inverse_mass[:] = np.where(on_diagonal, 0.5, 1.0) / degrees
    state.coordinates[:] = np.sqrt(state.inverse_mass) * rng.standard_normal(len(on_diagonal))
    find_step_size(rng, data, state)


def find_step_size(rng, data, state):
    """The step size with which one step is accepted half of the time, halved once more."""
    value, gradient = value_and_gradient(data, state, state.coordinates)
    momentum = rng.standard_normal(len(gradient)) / np.sqrt(state.inverse_mass)
    energy = kinetic_energy(state, momentum) - value

    def is_accepted(step_size):
        _, new_momentum, new_value, _ = leapfrog(
            data, state, state.coordinates, momentum, gradient, step_size
        )
        return energy - kinetic_energy(state, new_momentum) + new_value > np.log(0.5)

    step_size = 0.5
    if is_accepted(step_size):
        while step_size < 4 and is_accepted(step_size):
            step_size *= 2
        state.step_size[()] = step_size / 4
    else:
        while not is_accepted(step_size):
            step_size /= 2
        state.step_size[()] = step_size / 2


def update_sigma_h(rng, data, state):
    """sigma_h, the acceptance probability, and whether the trajectory diverged."""
    if state.step_size == 0:
        begin(rng, data, state)
    step_size = float(state.step_size)
    x = state.coordinates.copy()
    value, gradient = value_and_gradient(data, state, x)
    momentum = rng.standard_normal(len(x)) / np.sqrt(state.inverse_mass)
    energy = kinetic_energy(state, momentum) - value
    n_steps = max(1, round(min(1.5 / step_size, 256.0) * (0.5 + rng.random())))

    def followed(x, momentum, gradient, size, number):
        """Where a trajectory ends, its momentum and gradient, and the energy there."""
        for _ in range(number):
            try:
                with np.errstate(all="ignore"):  # of trajectories that diverge
                    x, momentum, value, gradient = leapfrog(
                        data, state, x, momentum, gradient, size
                    )
            except np.linalg.LinAlgError:
                value = -np.inf
            if not value > -np.inf:
                break
        return x, momentum, gradient, kinetic_energy(state, momentum) - value

    def probability(change):
        return np.exp(min(change, 0.0)) if change > -1000 else 0.0

    end, _, _, new_energy = followed(x, momentum, gradient, step_size, n_steps)
    is_divergent = not energy - new_energy > -1000
    acceptance = chance = probability(energy - new_energy)
    if is_divergent:
        end, *there, new_energy = followed(x, momentum, gradient, step_size / 5, 5 * n_steps)
        is_divergent = not energy - new_energy > -1000
        if not is_divergent:
            *_, back_energy = followed(end, -there[0], there[1], step_size, n_steps)
            rejected = 1 - probability(new_energy - back_energy)
            chance = min(1.0, np.exp(min(energy - new_energy, 700.0)) * rejected)
    if rng.random() < chance:
        state.coordinates[:] = end
    sigma_h = naive.sigma_h_of(state.coordinates, float(state.delta) * state.centre)
    return sigma_h, acceptance, is_divergent


# delta, the membership and the ties.


def update_delta(rng, data, state, sigma_h):
    """sigma_h to match the new delta, and the number of accepted steps."""
    psi, accepted = sigma_h / float(state.delta), 0

    def log_density(delta):
        return log_prior_of_delta(delta) + sum(
            log_likelihood(data, state, t, delta * psi, ties, delta)
            for t, ties in enumerate(state.ties)
        )

    for _ in range(2):
        proposal = float(state.delta) * np.exp(float(state.delta_step) * rng.standard_normal())
        uniform = rng.random()
        if not 1e-3 < proposal < 1e5:
            continue
        if np.log(uniform) < log_density(proposal) - log_density(float(state.delta)):
            state.delta[()] = proposal
            accepted += 1
    return float(state.delta) * psi, accepted


def update_membership(rng, data, state, advantages):
    m = len(state.members)
    for t in range(m):
        n_others = int(state.members.sum() - state.members[t])
        # The share of members is uniform: (k! (m - k)!) / (m + 1)! for k members.
        log_odds = advantages[t]
        log_odds += gammaln(n_others + 2) + gammaln(m - n_others)
        log_odds -= gammaln(n_others + 1) + gammaln(m - n_others + 1)
        for i, j in itertools.combinations(state.orders[t], 2):
            if data.free[i, j]:
                is_there = state.adjacencies[t, i, j]
                for sign, is_member in ((1, True), (-1, False)):
                    odds = log_odds_of_edge(data, state, t, i, j, is_member) + one_way(data, i, j)
                    log_odds += sign * log_expit(odds if is_there else -odds)
        state.members[t] = rng.random() < expit(log_odds)
    state.counts[:] = directed_counts(data, state)


def update_ties(rng, data, state, sigma_h):
    """Which families of the members are tied, then the share of own families."""
    if not data.samples_ties:
        state.ties[:] = state.members[:, None]
        return
    state.ties[:] = False
    p = state.ties.shape[1]
    patterns, log_prior = patterns_of_ties(p, float(state.own_share))
    n_own = (~patterns).sum(axis=1)
    for t in np.flatnonzero(state.members):
        weights = softmax(log_prior + patterns @ gains_of_ties(data, state, t, sigma_h))
        # The number of own families first, then from the last family to the first one.
        numbers = range(max(n_own) + 1)
        left = n_own == one_of(rng, [weights[n_own == number].sum() for number in numbers])
        for node in reversed(range(p)):
            of_own = weights[left & ~patterns[:, node]].sum() / weights[left].sum()
            left &= patterns[:, node] != (rng.random() < of_own)
        (state.ties[t],) = patterns[left]
    logarithms = log_probabilities_of_ties(state.ties[state.members])
    state.own_share[()] = OWN_SHARES[one_of(rng, np.exp(logarithms - logarithms.max()))]


def log_probabilities_of_ties(ties):
    """Log prior of every share of own families together with the ties of all members, (members, p)."""
    found = []
    for share in OWN_SHARES:
        patterns, log_prior = patterns_of_ties(np.shape(ties)[1], share)
        places = [(patterns == each).all(axis=1) for each in ties]
        found.append(sum((log_prior[place].sum() if place.any() else -np.inf) for place in places))
    return np.array(found) - np.log(len(OWN_SHARES))


# Graphs.


class Walk:
    """Moves in one task; scores are computed from nothing every time."""

    def __init__(self, rng, data, state, t, sigma_h):
        self.rng, self.data = rng, data
        self.adjacency, self.order = state.adjacencies[t], list(state.orders[t])
        self.p = len(self.order)
        is_member = bool(state.members[t])
        log_odds = np.zeros((self.p, self.p))
        for i, j in itertools.permutations(range(self.p), 2):
            log_odds[i, j] = log_odds_of_edge(data, state, t, i, j, is_member)
            log_odds[i, j] += one_way(data, i, j)
        self.parents = [list(naive.parents_of(self.adjacency, k)) for k in range(self.p)]

        def score(node, parents):
            prior = prior_of(data, state, t, sigma_h, state.ties[t, node])
            value = family_score(*prior, state.scatters[t], data.ns[t], node, tuple(parents))
            return value + sum(log_odds[a, node] - data.edge_costs[t] for a in parents)

        self.score = score

    def one_of(self, n):
        return int(self.rng.random() * n)

    def accepts(self, change):
        return change > -1e-9 or (change > -40 and self.rng.random() < np.exp(change))

    def set_parents(self, node, parents):
        self.parents[node] = parents
        self.adjacency[:, node] = False
        self.adjacency[parents, node] = True

    def swap(self, a, node):
        first, last = self.order.index(a), self.order.index(node)
        self.order[first], self.order[last] = node, a

    def move(self):
        kind = self.rng.random()
        renewals = min(0.05, 1.2 / self.p)
        if kind < 0.3:
            self.toggle()
        elif kind < 0.4:
            self.exchange()
        elif kind < 0.6:
            self.reverse()
        elif kind < 0.6 + renewals:
            self.renew()
        else:
            self.replace()

    def toggle(self):
        first, second = self.one_of(self.p), self.one_of(self.p - 1)
        second += second >= first
        a, node = (self.order[place] for place in sorted((first, second)))
        parents = self.parents[node]
        if a in parents:
            if self.data.required[a, node]:
                return
            proposal = [other for other in parents if other != a]
        else:
            proposal = [*parents, a]
        if not self.data.allowed[a, node] or len(proposal) > self.data.max_parents:
            return
        if self.accepts(self.score(node, proposal) - self.score(node, parents)):
            self.set_parents(node, proposal)

    def exchange(self):
        node = self.one_of(self.p)
        parents = self.parents[node]
        before = self.order[: self.order.index(node)]
        others = [a for a in before if a not in parents]
        if not parents or not others:
            return
        k = self.one_of(len(parents))
        new = others[self.one_of(len(others))]
        if self.data.required[parents[k], node] or not self.data.allowed[new, node]:
            return
        proposal = [*parents[:k], new, *parents[k + 1 :]]
        if self.accepts(self.score(node, proposal) - self.score(node, parents)):
            self.set_parents(node, proposal)

    def reversible_edge(self):
        """An edge a -> node whose ends can change places, or None."""
        node = self.one_of(self.p)
        if not self.parents[node]:
            return None
        a = self.parents[node][self.one_of(len(self.parents[node]))]
        if self.data.required[a, node] or not self.data.allowed[node, a]:
            return None
        between = self.order[self.order.index(a) + 1 : self.order.index(node)]
        if any(self.adjacency[a, b] or self.adjacency[b, node] for b in between):
            return None
        return a, node

    def reverse(self):
        edge = self.reversible_edge()
        if edge is None or len(self.parents[edge[0]]) >= self.data.max_parents:
            return
        a, node = edge
        parents, others = self.parents[node], self.parents[a]
        new_parents, new_others = [b for b in parents if b != a], [*others, node]
        change = self.score(node, new_parents) + self.score(a, new_others)
        change -= self.score(node, parents) + self.score(a, others)
        if self.accepts(change + np.log(len(parents) / len(new_others))):
            self.set_parents(node, new_parents)
            self.set_parents(a, new_others)
            self.swap(a, node)

    def renew(self):
        edge = self.reversible_edge()
        if edge is None:
            return
        a, node = edge
        parents, others = set(self.parents[node]), set(self.parents[a])
        before = self.order[: self.order.index(a)]
        new_parents, forward = self.sweep(node, parents - {a}, before)
        new_others, more = self.sweep(a, others | {node}, before)
        _, backward = self.sweep(a, new_others - {node}, before, others)
        _, more_backward = self.sweep(node, new_parents | {a}, before, parents)
        change = -np.inf
        # A sweep that could not begin, or a way back that does not exist.
        if min(forward, more, backward, more_backward) > -np.inf:
            change = self.score(node, new_parents) + self.score(a, new_others)
            change -= self.score(node, parents) + self.score(a, others)
            change += backward + more_backward - forward - more
            change += np.log(len(parents) / len(new_others))
        if self.accepts(change):
            self.set_parents(node, sorted(new_parents))
            self.set_parents(a, sorted(new_others))
            self.swap(a, node)

    def sweep(self, node, parents, candidates, goal=None):
        """Parents drawn one candidate after the other, and the log probability of what was drawn.

        With a goal nothing is drawn: the probability of ending there.
        """
        if len(parents) > self.data.max_parents:
            return parents, -np.inf
        logarithm = 0.0
        for candidate in candidates:
            if self.data.required[candidate, node] or not self.data.allowed[candidate, node]:
                continue
            flipped = parents ^ {candidate}
            if len(flipped) > self.data.max_parents:
                if goal is not None and candidate in goal:
                    return parents, -np.inf
                continue
            probability = expit(self.score(node, flipped) - self.score(node, parents))
            if goal is None:
                flips = self.rng.random() < probability
            else:
                flips = (candidate in goal) != (candidate in parents)
            with np.errstate(divide="ignore"):
                logarithm += np.log(probability if flips else 1 - probability)
            if flips:
                parents = flipped
        return parents, logarithm

    def replace(self):
        node = self.one_of(self.p)
        now = self.order.index(node)
        first, last = now, now
        while first > 0 and not self.adjacency[self.order[first - 1], node]:
            first -= 1
        while last < self.p - 1 and not self.adjacency[node, self.order[last + 1]]:
            last += 1
        self.order.remove(node)
        self.order.insert(first + self.one_of(last - first + 1), node)


def update_graphs(rng, data, state, sigma_h, move_counts):
    for t in range(len(state.members)):
        walk = Walk(rng, data, state, t, sigma_h)
        for _ in range(data.n_moves):
            walk.move()
            move_counts[t] += walk.adjacency
        state.orders[t] = walk.order
    state.counts[:] = directed_counts(data, state)


# Pairs in all members at once, and the missing values.


def beta(rng, a, b):
    first = rng.standard_gamma(a)
    return np.clip(first / (first + rng.standard_gamma(b)), 1e-12, 1 - 1e-12)


def one_of(rng, weights):
    """A place, drawn with probabilities in proportion to the weights."""
    return int((rng.random() * sum(weights) >= np.cumsum(weights)[:-1]).sum())


def gain_of_edge(data, state, t, a, node, sigma_h):
    """By how much the log density of a member rises with a -> node, without its prior odds."""
    parents = [b for b in naive.parents_of(state.adjacencies[t], node) if b != a]
    if len(parents) >= data.max_parents or not data.allowed[a, node]:
        return -np.inf
    prior = prior_of(data, state, t, sigma_h, state.ties[t, node])
    of_task = *prior, state.scatters[t], data.ns[t], node
    gain = family_score(*of_task, [*parents, a]) - family_score(*of_task, parents)
    return gain + one_way(data, a, node) - data.edge_costs[t]


def log_prior_of_sigma_h(data, state, sigma_h):
    """Inverse Wishart with p + 1 degrees of freedom for Psi, up to a constant."""
    p = len(sigma_h)
    scale = float(state.delta) * np.diag(data.psi_scales)
    return -(p + 1) * np.linalg.slogdet(sigma_h)[1] - np.trace(np.linalg.solve(sigma_h, scale)) / 2


def candidates_of_element(sigma_h, pair, present):
    """sigma_h with other partial correlations of a pair given the rest; None if they are too large."""
    precision = np.linalg.inv(sigma_h)
    i, j = pair
    correlation = -precision[i, j] / np.sqrt(precision[i, i] * precision[j, j])
    scale = np.sqrt(np.prod(np.diag(np.linalg.inv(precision[np.ix_(pair, pair)]))))
    for k in range(24):
        changed = sigma_h.copy()
        changed[i, j] = changed[j, i] = sigma_h[i, j] + scale * 0.05 * (k - present)
        is_usual = max(abs(correlation), abs(correlation + 0.05 * (k - present))) < 0.999
        yield changed if is_usual or k == present else None


def draw_places(rng, first, second):
    """Places of the frequencies of a different pair, one after the other."""
    weights = np.zeros((17, 17))
    for place, other in naive.places_of_different_pairs():
        weights[place, other] = first[place] * second[other]
    place = one_of(rng, weights.sum(axis=1))
    return place, one_of(rng, weights[place])


def update_pairs(rng, data, state, sigma_h):
    """Draw pairs with their elements; returns the new sigma_h."""
    members = np.flatnonzero(state.members)
    frequencies = naive.frequencies_of_pairs(state.kinds)
    combinations = naive.places_of_different_pairs()
    sigma_h = sigma_h.copy()
    for pair in itertools.combinations(range(len(sigma_h)), 2):
        luck = rng.random() * max(1, len(sigma_h) / 40) if data.free[pair] else 1.0
        if luck >= 0.25:
            continue
        forward = 0.5
        if np.isfinite(data.agreement):
            ways = (state.adjacencies[members][:, a, b].sum() for a, b in (pair, pair[::-1]))
            forward = beta(rng, *(data.agreement + each for each in ways))
        edges, shares = [], []
        for t in members:
            places = list(state.orders[t])
            is_forward = places.index(pair[0]) < places.index(pair[1])
            edges.append((t, *(pair if is_forward else pair[::-1])))
            shares.append(2 * (forward if is_forward else 1 - forward))
        without = copy_of(state)
        for edge in edges:
            without.adjacencies[edge] = False
        candidates = [sigma_h]
        if luck < 0.05:
            candidates = [*candidates_of_element(sigma_h, pair, rng.integers(0, 24))]
        odds = np.zeros((len(candidates), len(members)))
        log_weights = np.full((len(candidates), 18), -np.inf)
        is_second = data.groups[members] == 1
        for k, candidate in enumerate(candidates):
            if candidate is None:
                continue
            gains = [gain_of_edge(data, state, *edge, candidate) for edge in edges]
            odds[k] = np.array(shares) * np.exp(gains)
            rest = log_prior_of_sigma_h(data, state, candidate) + sum(
                log_likelihood(data, without, t, candidate, state.ties[t]) for t in members
            )
            of_tasks = np.array(
                [frequency * odds[k] + 1 - frequency for frequency, _ in frequencies]
            )
            first, second = (
                np.prod(of_tasks[:, which], axis=1) for which in (~is_second, is_second)
            )
            weights = np.array([weight for _, weight in frequencies])
            log_weights[k, :17] = rest + np.log(weights * first * second)
            if data.groups.any():
                different = np.mean([first[a] * second[b] for a, b in combinations])
                log_weights[k, 17] = rest + np.log(state.kinds[5] * different)
        chosen = one_of(rng, np.exp(log_weights - log_weights.max()).ravel())
        candidate, place = chosen // 18, chosen % 18
        sigma_h = candidates[candidate]
        of_groups = (place, place)
        if place == 17:
            of_tasks = np.array(
                [frequency * odds[candidate] + 1 - frequency for frequency, _ in frequencies]
            )
            first, second = (
                np.prod(of_tasks[:, which], axis=1) for which in (~is_second, is_second)
            )
            of_groups = draw_places(rng, first, second)
        for edge, each in zip(edges, odds[candidate], strict=True):
            frequency = frequencies[of_groups[data.groups[edge[0]]]][0]
            state.adjacencies[edge] = rng.random() < frequency * each / (
                frequency * each + 1 - frequency
            )
    state.counts[:] = directed_counts(data, state)
    state.coordinates[:] = coordinates_of(sigma_h / float(state.delta), state.centre)
    return sigma_h


def update_kinds(rng, data, state):
    joined = state.adjacencies | np.swapaxes(state.adjacencies, 1, 2)
    absent, common, varying, rare, usual, different = state.kinds
    groups = [state.members & (data.groups == group) for group in (0, 1)]
    n_kinds = 4 if data.groups.any() else 3
    frequencies = [frequency for frequency, _ in naive.frequencies_of_pairs(state.kinds)]
    sizes = np.zeros(n_kinds)
    edges = {0: [], 16: []}  # of all tasks with the frequency of this place
    for i, j in itertools.combinations(range(joined.shape[1]), 2):
        if not data.free[i, j]:
            continue
        patterns = [joined[which, i, j] for which in groups]
        k, n = sum(map(np.sum, patterns)), sum(map(len, patterns))
        weights = [
            absent * rare**k * (1 - rare) ** (n - k),
            common * usual**k * (1 - usual) ** (n - k),
            varying * np.mean([(x / 16) ** k * (1 - x / 16) ** (n - k) for x in range(1, 16)]),
        ]
        of_groups = [
            np.array([np.prod(np.where(pattern, f, 1 - f)) for f in frequencies])
            for pattern in patterns
        ]
        if n_kinds == 4:
            places = naive.places_of_different_pairs()
            weights.append(
                different * np.mean([of_groups[0][a] * of_groups[1][b] for a, b in places])
            )
        kind = one_of(rng, weights)
        sizes[kind] += 1
        chosen = {0: (0, 0), 1: (16, 16), 2: (8, 8)}.get(kind) or draw_places(rng, *of_groups)
        for place, pattern in zip(chosen, patterns, strict=True):
            if place in edges:
                edges[place] += pattern.tolist()
    parameters = sizes + np.array([joined.shape[1] / 2, 0.5, 0.5, 0.5])[:n_kinds]
    shares = np.array([rng.standard_gamma(each) for each in parameters])
    shares = np.maximum(shares / shares.sum(), 1e-12)
    state.kinds[:3] = shares[:3]
    state.kinds[5] = shares[3] if n_kinds == 4 else 0.0
    state.kinds[3] = beta(rng, 0.5 + sum(edges[0]), 9.5 + len(edges[0]) - sum(edges[0]))
    state.kinds[4] = beta(rng, 9.5 + sum(edges[16]), 0.5 + len(edges[16]) - sum(edges[16]))


def differences(data, state):
    """Probabilities of all differences of places, second group minus first, for every pair."""
    joined = state.adjacencies | np.swapaxes(state.adjacencies, 1, 2)
    p = joined.shape[1]
    groups = [state.members & (data.groups == group) for group in (0, 1)]
    frequencies, weights = np.transpose(naive.frequencies_of_pairs(state.kinds))
    places = naive.places_of_different_pairs()
    found = np.zeros((p, p, 33))
    for i, j in itertools.combinations(range(p), 2):
        first, second = (
            [np.prod(np.where(joined[which, i, j], f, 1 - f)) for f in frequencies]
            for which in groups
        )
        if data.free[i, j]:
            found[i, j, 16] = np.sum(weights * first * second)
            for place, other in places:
                weight = state.kinds[5] / len(places)
                found[i, j, 16 + other - place] += weight * first[place] * second[other]
        else:
            found[i, j, 16] = 1.0
        found[i, j] /= found[i, j].sum()
        found[j, i] = found[i, j]
    return found


def update_missing_values(rng, data, state, sigma_h):
    for k, t in enumerate(data.incomplete):
        here = slice(data.row_starts[k], data.row_starts[k + 1])
        rows, is_missing = state.rows[here], data.is_missing[here]
        n, p = rows.shape
        precision = np.zeros((p, p))
        for node in range(p):
            prior, delta = prior_of(data, state, t, sigma_h, state.ties[t, node])
            matrix, degrees = prior + state.scatters[t], delta + data.ns[t]
            parents = list(naive.parents_of(state.adjacencies[t], node))
            block = matrix[np.ix_(parents, parents)]
            slopes = np.linalg.solve(block, matrix[parents, node])
            residual = matrix[node, node] - slopes @ matrix[parents, node]
            omega = 2 * rng.standard_gamma((degrees + len(parents)) / 2) / residual
            noise = rng.standard_normal(len(parents)) / np.sqrt(omega)
            slopes = slopes + np.linalg.solve(np.linalg.cholesky(block).T, noise)
            direction = np.eye(p)[node]
            direction[parents] = -slopes
            precision += omega * np.outer(direction, direction)
        noise = rng.standard_normal(p) / np.sqrt(n)
        means = rows.mean(axis=0) + np.linalg.solve(np.linalg.cholesky(precision).T, noise)
        means[is_missing.all(axis=0)] = 0.0
        for row, absent in zip(rows, is_missing, strict=True):
            block = precision[np.ix_(absent, absent)]
            pull = precision[np.ix_(absent, ~absent)] @ (row[~absent] - means[~absent])
            noise = rng.standard_normal(absent.sum())
            row[absent] = means[absent] - np.linalg.solve(block, pull)
            row[absent] += np.linalg.solve(np.linalg.cholesky(block).T, noise)
        centred = rows - rows.mean(axis=0)
        state.scatters[t] = data.scatter_factors[k] * centred.T @ centred


# A whole chain.


def adapt(data, state, acceptance, accepted):
    state.n_adapted[()] += 1
    n = int(state.n_adapted)
    state.step_size[()] *= np.exp((n - int(state.n_learned)) ** -0.6 * (acceptance - 0.8))
    if data.samples_delta:
        state.delta_step[()] *= np.exp(n**-0.6 * (accepted / 2 - 0.4))
        state.delta_step[()] = min(state.delta_step, 3.0)


def coordinates_of(psi, centre):
    """The vector that `naive.sigma_h_of` takes to a matrix."""
    root = np.linalg.cholesky(centre)
    factor = np.linalg.solve(root, np.linalg.cholesky(psi))
    factor[np.diag_indices(len(psi))] = np.log(np.diag(factor))
    return factor[np.tril_indices(len(psi))]


def learn_coordinates(state):
    """Centre and masses from the window; the state with an empty one."""
    centre = state.window.mean(axis=0)
    psi = naive.sigma_h_of(state.coordinates, state.centre)
    n = len(state.window)
    variances = np.var([coordinates_of(each, centre) for each in state.window], axis=0)
    expected = state.inverse_mass * np.mean(variances / state.inverse_mass)
    learned = np.minimum((n * variances + 10 * expected) / (n + 10), 10 * state.inverse_mass)
    places = np.transpose(np.tril_indices(len(psi)))
    typical = np.median([learned[k] for k, (i, j) in enumerate(places) if i == j])
    return state._replace(
        centre=centre,
        coordinates=coordinates_of(psi, centre),
        inverse_mass=np.minimum(learned, [4 * typical * (1 + (i != j)) for i, j in places]),
        n_learned=np.array(int(state.n_adapted)),
        window=state.window[:0],
    )


def run_chain(data, state, rng, n_rounds, *, adapts):
    """The trace and the end of a chain, one update after the other."""
    state = copy_of(state)
    m, p, _ = state.scatters.shape
    rounds = {name: [] for name in ChainTrace._fields}
    move_counts = np.zeros((m, p, p))
    for _ in range(n_rounds):
        sigma_h, acceptance, is_divergent = update_sigma_h(rng, data, state)
        accepted = 0
        if data.samples_delta:
            sigma_h, accepted = update_delta(rng, data, state, sigma_h)
        advantages = advantages_of(data, state, sigma_h)
        if data.samples_membership:
            update_membership(rng, data, state, advantages)
        update_ties(rng, data, state, sigma_h)
        if len(state.kinds):
            sigma_h = update_pairs(rng, data, state, sigma_h)
        update_graphs(rng, data, state, sigma_h, move_counts)
        if data.samples_kinds and len(state.kinds):
            update_kinds(rng, data, state)
        delta, n = float(state.delta), int(state.members.sum())
        likelihood = sum(log_likelihood(data, state, t, sigma_h, state.ties[t]) for t in range(m))
        of_ties = 0.0
        if state.own_share > 0:
            patterns, log_prior = patterns_of_ties(p, float(state.own_share))
            for each in state.ties[state.members]:
                of_ties += log_prior[(patterns == each).all(axis=1)].item()
        share = gammaln(n + 1) + gammaln(m - n + 1) - gammaln(m + 2)
        row_means = np.zeros((m, p))
        for k, t in enumerate(data.incomplete):
            row_means[t] = state.rows[data.row_starts[k] : data.row_starts[k + 1]].mean(axis=0)
        now = ChainTrace(
            psi=sigma_h / delta,
            delta=delta,
            kinds=state.kinds.copy() if len(state.kinds) else np.full(6, np.nan),
            differences=differences(data, state)
            if data.groups.any() and len(state.kinds)
            else np.zeros((0, 0, 0)),
            log_density=likelihood
            + log_prior_of_delta(delta)
            + log_probability_of_edges(data, state)
            + share
            + of_ties
            - data.edge_costs @ state.adjacencies.sum(axis=(1, 2)),
            n_edges=state.adjacencies.sum(),
            acceptance=acceptance,
            members=state.members.copy(),
            advantages=advantages,
            own_share=float(state.own_share),
            log_odds=[
                [[log_odds_of_edge(data, state, t, i, j, True) for j in range(p)] for i in range(p)]
                for t in range(m)
            ],
            move_frequencies=0.0,
            end_counts=state.adjacencies.copy(),
            scatters=state.scatters.copy(),
            row_means=row_means,
            n_divergent=is_divergent,
        )
        for name, value in now._asdict().items():
            rounds[name].append(value)
        if adapts:
            adapt(data, state, acceptance, accepted)
        update_missing_values(rng, data, state, sigma_h)
        if adapts:
            state = state._replace(window=np.array([*state.window, now.psi]))
            if int(state.n_adapted) in (10, 25, 50, 100, 200, 400):
                state = learn_coordinates(state)
                find_step_size(rng, data, state)
    trace = {name: np.array(values) for name, values in rounds.items()}
    for name in ("log_odds", "differences", "scatters", "row_means"):
        trace[name] = trace[name].mean(axis=0)
    for name in ("end_counts", "n_divergent"):
        trace[name] = trace[name].sum(axis=0)
    trace["move_frequencies"] = move_counts / max(n_rounds * data.n_moves, 1)
    return ChainTrace(**trace), state
