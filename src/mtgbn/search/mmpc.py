"""Candidate edges by max-min parents and children (Tsamardinos, Brown and Aliferis 2006).

For every target, each variable has a weakest association with the target, the minimum over small
conditioning sets of the candidates so far; the variable whose weakest association is the strongest
becomes the next candidate. A variable that is independent of the target given some set is dropped for
good. Associations are p-values of Fisher's z of partial correlations. Tasks are pooled by the sum of
their squared z, which does not cancel when signs differ.
"""

import math
from typing import Literal, NamedTuple

import numpy as np

from mtgbn._utils.arguments import check_count, check_interval, real_array
from mtgbn._utils.compiled import ZERO, kernel
from mtgbn.errors import InputError
from mtgbn.model.arguments import check_scatters

# A variable with less than this share of its variance left, given others, is determined by them. The
# limit is far above rounding errors of correlations (1e-16), and far below shares in measured data.
_DETERMINED = 1e-10

# From here on erfc comes from its expansion, of which five terms are exact to 12 digits; up to here it
# does not underflow.
_LARGEST_FOR_ERFC = 25.0


def find_candidates(
    scatters,
    ns,
    method: Literal["mmpc", "pooled", "all"] = "mmpc",
    *,
    alpha: float = 0.05,
    max_conditioning: int = 3,
) -> np.ndarray:
    """Find the pairs of variables that may be adjacent in each task, (m, p, p), symmetric and boolean.

    Given a set S the test statistic is ``sqrt(n - |S| - 2) * atanh(partial correlation)``, where n
    are the degrees of freedom of the scatter; ``alpha`` is the level of each test,
    ``max_conditioning`` the size of the largest sets (larger ones rarely separate variables that
    smaller ones do not). A set that is too large for this root, whose members are collinear, or
    that determines one of the two variables exactly says nothing for or against the pair and is
    skipped. So none of several copies of a variable drives out the others. A pair that cannot be
    tested at all, because a variable is constant or n <= 2, is no candidate.

    ``"mmpc"``: candidates of each single task. ``"pooled"``: for all tasks the candidates of every
    single task, and those of one more run in which the evidence of the tasks is combined: the
    squares of their z add up to a chi-square variable with as many degrees of freedom as there are
    tasks that can test the pair given the set. False candidates of the single tasks add up: with
    many tasks, lower ``alpha``. ``"all"``: all pairs.
    """
    if method not in ("mmpc", "pooled", "all"):
        raise InputError(f"method must be 'mmpc', 'pooled' or 'all'; got {method!r}")
    correlations, ns = _check_tasks(scatters, ns)
    check_interval("alpha", alpha, "()", 0, 1)
    check_count("max_conditioning", max_conditioning, 0)
    # The least association, a negative log p-value, and the size of the largest sets.
    options = -math.log(alpha), int(max_conditioning)
    if method == "all":
        return np.repeat(~np.eye(correlations.shape[1], dtype=bool)[None], len(ns), axis=0)
    found = np.array(
        [_candidates(correlations[[t]], ns[[t]], *options) for t in range(len(ns))], dtype=bool
    )
    if method == "pooled":
        found[:] = _candidates(correlations, ns, *options) | found.any(axis=0)
    return found


def _check_tasks(scatters, ns) -> tuple[np.ndarray, np.ndarray]:
    """Return correlations (m, p, p), with zeros where a variable is constant, and ns (m,)."""
    scatters = real_array(scatters, "scatters")
    if scatters.ndim != 3 or not scatters.size:
        raise InputError(
            f"scatters must have shape (m, p, p) with m and p of at least 1; got {scatters.shape}"
        )
    scatters, ns = check_scatters(scatters, ns, scatters.shape[-1])
    deviations = np.sqrt(np.einsum("tii->ti", scatters))
    scale = 1 / np.where(deviations > 0, deviations, np.inf)
    correlations = scatters * scale[:, :, None] * scale[:, None, :]
    return (correlations + correlations.transpose(0, 2, 1)) / 2, ns


def _candidates(correlations, ns, least, max_conditioning) -> np.ndarray:
    """Run every target, one compiled call each, and keep the pairs on which both ends agree."""
    p = correlations.shape[1]
    max_conditioning = min(max_conditioning, max(p - 2, 0))
    found = np.zeros((p, p), dtype=bool)
    for target in range(p):
        others = np.delete(np.arange(p), target)
        chosen = _run_target(correlations, ns, target, others, least, max_conditioning)
        found[target, chosen] = True
    return found & found.T


class _Work(NamedTuple):
    """The tests of one target, and variances and covariances given a conditioning set.

    Level k of the last four holds the state given the first k members of the set.
    """

    correlations: np.ndarray  # (m, p, p)
    ns: np.ndarray  # (m,)
    target: int
    least: float  # a variable with a weaker association is independent of the target
    association: np.ndarray  # (p,), the weakest so far with the target, a negative log p-value
    rows: np.ndarray  # (max_conditioning, m, p), of the Cholesky factors, one for each member
    variances: np.ndarray  # (max_conditioning + 1, m, p), of each variable
    covariances: np.ndarray  # (max_conditioning + 1, m, p), of each variable with the target
    usable: np.ndarray  # (max_conditioning + 1, m), tasks in which the set can be tested


@kernel(error_model="numpy")
def _run_target(correlations, ns, target, waiting, least, max_conditioning):
    """Candidates of one target among the waiting variables: forward and backward phase."""
    m, p, _ = correlations.shape
    work = _Work(
        correlations=correlations,
        ns=ns,
        target=target,
        least=least,
        association=np.full(p, np.inf),
        rows=np.empty((max_conditioning, m, p)),
        variances=np.empty((max_conditioning + 1, m, p)),
        covariances=np.empty((max_conditioning + 1, m, p)),
        usable=np.empty((max_conditioning + 1, m), dtype=np.bool_),
    )
    for task in range(m):
        work.usable[0, task] = correlations[task, target, target] > 0.0 and ns[task] > 2.0
        for x in range(p):
            work.variances[0, task, x] = correlations[task, x, x]
            work.covariances[0, task, x] = correlations[task, target, x]
    found = np.empty(p, dtype=np.int64)
    members = np.empty(p, dtype=np.int64)
    n_found = _forward(work, waiting, found, members)
    return found[: _backward(work, found, n_found, members)]


@kernel(error_model="numpy", inline="always")
def _forward(work, waiting, found, members):
    """Write the candidates into ``found`` as the max-min heuristic finds them; returns their number."""
    n_waiting = _test(work, ZERO, waiting, waiting.size)
    n_found = 0
    while n_waiting > 0:
        best = 0
        for k in range(1, n_waiting):
            if work.association[waiting[k]] > work.association[waiting[best]]:
                best = k
        new = waiting[best]
        n_waiting -= 1
        for k in range(best, n_waiting):
            waiting[k] = waiting[k + 1]
        members[0] = new
        for k in range(n_found):
            members[k + 1] = found[k]
        found[n_found] = new
        n_found += 1
        n_waiting = _test_sets(work, members[:n_found], waiting, n_waiting)
    return n_found


@kernel(error_model="numpy", inline="always")
def _backward(work, found, n_found, members):
    """Remove candidates that are independent of the target given others; returns how many stay."""
    alone = np.empty(1, dtype=np.int64)
    k = 0
    while k < n_found:
        alone[0] = found[k]
        n_members = 0
        for other in range(n_found):
            if other != k:
                members[n_members] = found[other]
                n_members += 1
        stays = alone.size
        for first in range(n_members):
            stays = _test_sets(work, members[first:n_members], alone, stays)
        if stays:
            k += 1
        else:
            n_found = n_members
            for other in range(n_found):
                found[other] = members[other]
    return n_found


@kernel(error_model="numpy")
def _test_sets(work, members, waiting, n_waiting):
    """Test the waiting variables given all sets that contain the first of the members.

    Returns how many are still waiting. The sets are visited depth first, so that each costs one row
    of a Cholesky factor more than the one it extends.
    """
    most = work.rows.shape[0]
    if most == 0:
        return n_waiting
    chosen = np.zeros(most, dtype=np.int64)
    size = ZERO + 1
    while n_waiting > 0:
        last = chosen[size - 1]
        usable = _condition(work, size, members[last:], waiting, n_waiting)
        if usable:
            n_waiting = _test(work, size, waiting, n_waiting)
        if usable and size < most and last + 1 < members.size:
            chosen[size] = last + 1
            size += 1
            continue
        while size > 1 and chosen[size - 1] + 1 == members.size:
            size -= 1
        if size == 1:
            break
        chosen[size - 1] += 1
    return n_waiting


@kernel(error_model="numpy", inline="always")
def _condition(work, size, members, waiting, n_waiting):
    """Fill level ``size``, with the first member added; False if no task can test the set.

    The variables that can be needed are the later members, the target and the waiting ones.
    """
    given, target = members[0], work.target
    n_members = members.size
    some = False
    for task in range(work.ns.size):
        before, after = work.variances[size - 1, task], work.variances[size, task]
        pivot = before[given]
        work.usable[size, task] = False
        if not (work.usable[size - 1, task] and work.ns[task] > size + 2.0 and pivot > _DETERMINED):
            continue
        correlations = work.correlations[task, given]
        row = work.rows[size - 1, task]
        covariances = work.covariances[size, task]
        for k in range(n_members + n_waiting):
            if k == 0:
                x = target
            elif k < n_members:
                x = members[k]
            else:
                x = waiting[k - n_members]
            value = correlations[x]
            for r in range(size - 1):
                value -= work.rows[r, task, given] * work.rows[r, task, x]
            row[x] = value / np.sqrt(pivot)
            after[x] = before[x] - row[x] * row[x]
            covariances[x] = work.covariances[size - 1, task, x] - row[target] * row[x]
        work.usable[size, task] = after[target] > _DETERMINED
        some |= work.usable[size, task]
    return some


@kernel(error_model="numpy")
def _test(work, size, waiting, n_waiting):
    """Lower the associations to those given the set of a level; returns how many are still waiting."""
    kept = 0
    for k in range(n_waiting):
        x = waiting[k]
        statistic = 0.0
        count = ZERO
        for task in range(work.ns.size):
            variance = work.variances[size, task, x]
            if work.usable[size, task] and variance > _DETERMINED:
                covariance = work.covariances[size, task, x]
                explained = covariance / variance * covariance
                explained /= work.variances[size, task, work.target]
                # Copies of a variable have the strongest association, however they are rounded.
                z = math.atanh(np.sqrt(min(explained, 1.0 - _DETERMINED)))
                statistic += (work.ns[task] - size - 2.0) * z * z
                count += 1
        if count > 0 or size == 0:
            work.association[x] = min(work.association[x], negative_log_tail(statistic, count))
        if work.association[x] >= work.least:
            waiting[kept] = x
            kept += 1
    return kept


@kernel(error_model="numpy")
def negative_log_tail(statistic, count):
    """Minus the logarithm of P(X > statistic) of a chi-square variable X with ``count`` degrees.

    Whole degrees of freedom have a finite sum of positive terms, of which exp(-statistic / 2) is
    taken out, so that nothing cancels and nothing underflows.
    """
    half = statistic / 2.0
    if count == 0 or half == 0.0:
        return 0.0
    if count % 2 == 0:
        total, term, divisor = 1.0, 1.0, 1.0
    else:
        root = np.sqrt(half)
        if root < _LARGEST_FOR_ERFC:
            total = math.exp(half) * math.erfc(root)
        else:
            inverse = 0.5 / half
            series = 1.0
            for factor in (7.0, 5.0, 3.0, 1.0):
                series = 1.0 - factor * inverse * series
            total = series / (root * math.sqrt(math.pi))
        term, divisor = 1.0 / math.sqrt(math.pi * half), 0.5
    exponent = 0.0
    for _ in range((count - 1) // 2):
        term *= half / divisor
        divisor += 1.0
        total += term
        if total > 1e200:
            exponent += math.log(total)
            term /= total
            total = 1.0
    return max(half - math.log(total) - exponent, 0.0)
