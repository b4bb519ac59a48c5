"""
The batches that a trainer forms by itself (epsilond.training.batches): against the laws that are accounted, by
enumeration of the definitions; against the service's batches of the same sampling; resumed at every step; refused where
the service refuses.

Keys and seeds are fixed. Pearson's statistic must have a probability over 1e-4; it is the same in every run.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import collections
import decimal
import fractions
import functools
import hashlib
import itertools
import json
import math
import sys
import time

import numpy
import pytest

from conftest import ROOT, check_problem

sys.path.insert(0, str(ROOT / "api" / "python"))
from epsilond import Client
from epsilond.training.batches import batches
from epsilond.training.draws import Tails, Words

LEAST = 1e-4
PATH = "/v1/batches"


def key(number):
    return number.to_bytes(16, "little")


# ---------------------------------------------------------------- Pearson's statistic

def survival(square, freedom):
    """The probability that chi-squared exceeds `square`: the finite sums for whole degrees of freedom."""
    half = square / 2
    if freedom % 2 == 0:
        return sum(math.exp(i * math.log(half) - half - math.lgamma(i + 1)) if half else float(i == 0)
                   for i in range(freedom // 2))
    return math.erfc(math.sqrt(half)) + sum(math.exp((i + 0.5) * math.log(half) - half - math.lgamma(i + 1.5))
                                            for i in range(freedom // 2) if half)


def test_the_statistic_is_the_known_one():
    """Quantiles from printed tables."""
    for square, freedom, tail in ((3.841, 1, 0.05), (5.991, 2, 0.05), (16.266, 3, 0.001), (29.588, 10, 0.001),
                                  (135.807, 100, 0.01), (37.697, 15, 0.001)):
        assert survival(square, freedom) == pytest.approx(tail, rel=2e-3)


def lumped(cells, expected):
    """The cells that are expected at least ten times, and the others as one."""
    common = [cell for cell in cells if expected(cell) >= 10]
    return [[cell] for cell in common] + [sorted(set(cells) - set(common))]


def assert_law(counts, law):
    """The counts come from the law, which maps every possible cell to its probability."""
    draws = sum(counts.values())
    assert abs(sum(law.values()) - 1) < 1e-9
    assert not {cell for cell, times in counts.items() if times and not law.get(cell)}  # what is impossible
    square, freedom = 0, -1
    for cells in lumped(list(law), lambda cell: law[cell] * draws):
        expected = draws * sum(law[cell] for cell in cells)
        if expected > 0.5:
            square += (sum(counts[cell] for cell in cells) - expected) ** 2 / expected
            freedom += 1
    assert freedom < 1 or survival(square, freedom) > LEAST, (square, freedom)


def assert_alike(ours, theirs):
    """Two samples have one law."""
    totals, square, freedom = (sum(ours.values()), sum(theirs.values())), 0, -1
    share = [total / sum(totals) for total in totals]
    both = ours + theirs
    for cells in lumped(list(both), lambda cell: both[cell] * min(share)):
        seen = [sum(counts[cell] for cell in cells) for counts in (ours, theirs)]
        if sum(seen) > 0:
            square += sum((times - part * sum(seen)) ** 2 / (part * sum(seen)) for times, part in zip(seen, share))
            freedom += 1
    assert freedom < 1 or survival(square, freedom) > LEAST, (square, freedom)


# ---------------------------------------------------------------- patterns of one example

def rounds(pattern, p, turn=lambda step: True):
    return math.prod((p if turn(t) else 0) if taken else (1 - p if turn(t) else 1) for t, taken in enumerate(pattern))


def poisson_law(sampling, pattern):
    return rounds(pattern, sampling["p"])


def cyclic_law(sampling, pattern):
    groups = sampling["groups"]
    return sum(rounds(pattern, sampling["p"], lambda t, g=g: t % groups == g) for g in range(groups)) / groups


def bins_law(sampling, pattern):
    bins = sampling["bins"]
    epochs = [pattern[at:at + bins] for at in range(0, len(pattern), bins)]
    if any(sum(epoch) != 1 for epoch in epochs):
        return 0
    if sampling.get("redraw"):
        return bins ** -len(epochs)
    return (len(set(epochs)) == 1) / bins


def barred_law(sampling, pattern, barred):
    """Of an example that sits out `barred` more steps."""
    law = 1
    for taken in pattern:
        if barred:
            law *= not taken
            barred -= 1
        else:
            law *= sampling["p"] if taken else 1 - sampling["p"]
            barred = (sampling["separation"] - 1) * taken
    return law


def b_min_sep_law(sampling, pattern):
    others = sampling["separation"] - 1
    if not sampling.get("warm_start", True):
        return barred_law(sampling, pattern, 0)
    waits = 1 / (1 + others * sampling["p"])
    return waits * barred_law(sampling, pattern, 0) + sum(
        (1 - waits) / others * barred_law(sampling, pattern, barred) for barred in range(1, others + 1))


SPACED = {"scheme": "b_min_sep", "p": 0.3, "separation": 3}
CASES = {
    "poisson": (poisson_law, 6, {"scheme": "poisson", "p": 0.3}),
    "rare poisson": (poisson_law, 5, {"scheme": "poisson", "p": 0.004}),
    "certain poisson": (poisson_law, 3, {"scheme": "poisson", "p": 1}),
    "cyclic": (cyclic_law, 8, {"scheme": "cyclic_poisson", "p": 0.4, "groups": 3}),
    "cyclic, fewer steps than groups": (cyclic_law, 2, {"scheme": "cyclic_poisson", "p": 0.7, "groups": 5}),
    "bins": (bins_law, 8, {"scheme": "balls_in_bins", "bins": 4}),
    "bins drawn anew": (bins_law, 6, {"scheme": "balls_in_bins", "bins": 3, "redraw": True}),
    "cold": (b_min_sep_law, 8, dict(SPACED, warm_start=False)),
    "warm": (b_min_sep_law, 8, dict(SPACED, warm_start=True)),
    "warm and rare": (b_min_sep_law, 8, {"scheme": "b_min_sep", "p": 0.01, "separation": 4}),
    "warm and certain": (b_min_sep_law, 8, {"scheme": "b_min_sep", "p": 1, "separation": 4}),
    "warm and long": (b_min_sep_law, 4, {"scheme": "b_min_sep", "p": 0.2, "separation": 9}),
    "no separation": (b_min_sep_law, 5, {"scheme": "b_min_sep", "p": 0.3, "separation": 1}),
}
EXAMPLES = 60000


def patterns_of(steps, examples):
    """For each example, the steps in which it takes part, as bits."""
    patterns = numpy.zeros(examples, dtype=int)
    for step, indices in enumerate(steps):
        patterns[indices] |= 1 << step
    return patterns


def counted(patterns):
    return collections.Counter(dict(zip(*(part.tolist() for part in numpy.unique(patterns, return_counts=True)))))


def drawn_by_the_service(server, request):
    answer = server.post(request, PATH)
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def enumerated(law, n, sampling):
    return {sum(bit << t for t, bit in enumerate(pattern)): law(sampling, pattern)
            for pattern in itertools.product((0, 1), repeat=n)}


@pytest.mark.parametrize("name", CASES)
def test_patterns_have_the_accounted_law_and_the_services(server, name):
    law, n, sampling = CASES[name]
    steps = list(batches(sampling, n, EXAMPLES, key=key(1)))
    assert len(steps) == n
    for indices in steps:
        assert indices.dtype == numpy.int64 and numpy.all(numpy.diff(indices) > 0)
    ours = patterns_of(steps, EXAMPLES)
    laws = enumerated(law, n, sampling)
    assert_law(counted(ours), laws)
    lines = drawn_by_the_service(server, {"n": n, "sampling": sampling, "dataset_size": EXAMPLES // 2, "seed": 1})
    theirs = patterns_of([line["indices"] for line in lines], EXAMPLES // 2)
    assert_alike(counted(ours), counted(theirs))
    # Two examples, neighbours or distant, are independent in the first three steps.
    one = collections.Counter()
    for pattern, probability in laws.items():
        one[pattern & 7] += probability
    both = {8 * a + b: one[a] * one[b] for a in one for b in one}
    first = ours & 7
    assert_law(counted(8 * first[::2] + first[1::2]), both)
    assert_law(counted(8 * first[:EXAMPLES // 2] + first[::-1][:EXAMPLES // 2]), both)


# ---------------------------------------------------------------- sizes and gaps

def binomial(n, p):
    return {k: math.comb(n, k) * p ** k * (1 - p) ** (n - k) for k in range(n + 1)}


def test_sizes_have_the_accounted_law_and_the_services(server):
    poisson = {"n": 20000, "sampling": {"scheme": "poisson", "p": 0.15}, "dataset_size": 30}
    sizes = collections.Counter(len(batch) for batch in batches(poisson["sampling"], 20000, 30, key=key(2)))
    assert_law(sizes, binomial(30, 0.15))
    assert_alike(sizes, collections.Counter(len(line["indices"])
                                            for line in drawn_by_the_service(server, dict(poisson, seed=1))))


def test_gaps_have_the_accounted_law_and_the_services(server):
    """From a participation in the first half to the next one, if that comes within 120 steps: 7 and a run of tails."""
    n, examples, sampling = 400, 3000, {"scheme": "b_min_sep", "p": 0.05, "separation": 7}

    def gaps(steps):
        last, found = {}, collections.Counter()
        for step, indices in enumerate(steps):
            for index in indices:
                if last.get(index, n) < n // 2:
                    found[min(step - last[index], 120)] += 1
                last[index] = step
        for at in last.values():
            found[120] += at < n // 2
        return found

    law = {7 + tails: 0.05 * 0.95 ** tails for tails in range(113)}
    law[120] = 1 - sum(law.values())
    ours = gaps([batch.tolist() for batch in batches(sampling, n, examples, key=key(3))])
    assert_law(ours, law)
    request = {"n": n, "sampling": sampling, "dataset_size": examples, "seed": 1}
    assert_alike(ours, gaps(line["indices"] for line in drawn_by_the_service(server, request)))


# ---------------------------------------------------------------- truncation

def kept(drawn, most):
    """Each set that may be kept of those that were drawn, with its probability."""
    if len(drawn) <= most:
        return {tuple(sorted(drawn)): 1.0}
    subsets = list(itertools.combinations(sorted(drawn), most))
    return {subset: 1 / len(subsets) for subset in subsets}


def subsets_of(examples, p):
    for coins in itertools.product((0, 1), repeat=len(examples)):
        yield (tuple(j for j, coin in zip(examples, coins) if coin),
               math.prod(p if coin else 1 - p for coin in coins))


def truncated_law(examples, p, most):
    law = collections.Counter()
    for drawn, probability in subsets_of(examples, p):
        for left, share in kept(drawn, most).items():
            law[left, len(drawn) - len(left)] += probability * share
    return law


def told(former):
    return ((tuple(batch.tolist()), former.truncated) for batch in former)


def test_truncated_poisson_batches_jointly(server):
    """The whole batch of four examples, step by step."""
    sampling = {"scheme": "poisson", "p": 0.5, "dataset_size": 4, "truncation": {"max_batch_size": 2}}
    ours = collections.Counter(told(batches(sampling, 20000, 4, key=key(4))))
    assert_law(ours, truncated_law(range(4), 0.5, 2))
    lines = drawn_by_the_service(server, {"n": 20000, "sampling": sampling, "seed": 1})
    assert_alike(ours, collections.Counter((tuple(line["indices"]), line["truncated"]) for line in lines))


def many(sampling, n, examples, runs=4000, **others):
    """The batches of all steps, of many keys."""
    return collections.Counter(
        tuple(tuple(batch.tolist()) for batch in batches(sampling, n, examples, key=key(1000 + run), **others))
        for run in range(runs))


def test_truncated_turns_jointly():
    """Five examples are dealt into groups of two and three; each part is then truncated to one."""
    sampling = {"scheme": "cyclic_poisson", "p": 0.6, "groups": 2, "dataset_size": 5,
                "truncation": {"max_batch_size": 1}}
    law = collections.Counter()
    splits = list(itertools.combinations(range(5), 2))  # floor(5/2) places before those of the second part
    for first in splits:
        second = [j for j in range(5) if j not in first]
        for (one, a), (two, b) in itertools.product(truncated_law(first, 0.6, 1).items(),
                                                    truncated_law(second, 0.6, 1).items()):
            law[one[0], two[0]] += a * b / len(splits)
    assert_law(many(sampling, 2, 5), law)


def test_truncated_and_spaced_jointly():
    """Who was drawn sits out, also if the batch had no room for it."""
    sampling = {"scheme": "b_min_sep", "p": 0.6, "separation": 2, "warm_start": False, "dataset_size": 3,
                "truncation": {"max_batch_size": 1}}
    law = {((), frozenset()): 1.0}
    for _ in range(3):
        following = collections.Counter()
        for (path, barred), probability in law.items():
            for drawn, coins in subsets_of(sorted(set(range(3)) - barred), 0.6):
                for left, share in kept(drawn, 1).items():
                    following[(*path, left), frozenset(drawn)] += probability * coins * share
        law = following
    paths = collections.Counter()
    for (path, _), probability in law.items():
        paths[path] += probability
    assert_law(many(sampling, 3, 3), paths)


def test_truncation_is_the_services_under_spacing(server):
    """Sizes and what was left out in every twentieth step, which are next to independent."""
    sampling = {"scheme": "b_min_sep", "p": 0.2, "separation": 2, "dataset_size": 40,
                "truncation": {"max_batch_size": 8}}
    ours = batches(sampling, 40000, key=key(5))
    seen = collections.Counter((len(batch), ours.truncated) for batch in ours if ours.step % 20 == 0)
    lines = drawn_by_the_service(server, {"n": 40000, "sampling": sampling, "seed": 1})
    assert_alike(seen, collections.Counter((len(line["indices"]), line["truncated"]) for line in lines[::20]))


# ---------------------------------------------------------------- whole orders

def test_bins_jointly():
    """All assignments of three examples to two bins are equally likely, in each epoch or for all."""
    places = list(itertools.product((0, 1), repeat=3))

    def steps(*epochs):
        return tuple(tuple(j for j in range(3) if epoch[j] == step) for epoch in epochs for step in (0, 1))

    bins = {"scheme": "balls_in_bins", "bins": 2}
    assert_law(many(bins, 4, 3, 2000), {steps(epoch, epoch): 1 / 8 for epoch in places})
    assert_law(many(dict(bins, redraw=True), 4, 3, 2000),
               {steps(*both): 1 / 64 for both in itertools.product(places, repeat=2)})


def test_loaders_have_every_order():
    orders = list(itertools.permutations(range(4)))
    cyclic = {"scheme": "none", "batch_size": 1}
    assert_law(many(cyclic, 5, 4, 2400, ), {tuple((j,) for j in (*order, order[0])): 1 / 24 for order in orders})
    splits = [(first, tuple(j for j in range(5) if j not in first)) for first in itertools.combinations(range(5), 2)]
    fixed = {"scheme": "none", "epochs": 2, "separation": 2}
    assert_law(many(fixed, 5, 5, 1000), {(*split, *split, ()): 1 / 10 for split in splits})
    shuffled = dict(fixed, schema="shuffled")
    assert_law(many(shuffled, 4, 5, 4000), {(*one, *two): 1 / 100 for one in splits for two in splits})


def test_a_cyclic_order_restarts_within_a_batch():
    steps = [batch.tolist() for batch in batches({"scheme": "none", "batch_size": 3, "schema": "min_separation"}, 20, 7,
                                                 key=key(6))]
    assert all(len(set(step)) == 3 for step in steps)
    for first in range(0, 14, 7):
        assert sorted(sum(steps[first:first + 7], [])) == sorted(3 * list(range(7)))
    assert steps[:7] == steps[7:14]
    assert len({j for step in steps[:3] for j in step}) == 7


# ---------------------------------------------------------------- users

COPIES = 8000
SHARED = {"scheme": "b_min_sep", "p": 0.4, "separation": 2, "examples_per_user": 3}
GRAPH = ((0,), (0, 1), (1,))  # users of three examples; each user has one empty example


def shared_law():
    """Algorithm 3 of BMS over three steps: coins of three examples and two empty ones."""
    law = {((), frozenset()): 1.0}
    owners = (*GRAPH, (0,), (1,))
    for _ in range(3):
        following = collections.Counter()
        for (path, barred), probability in law.items():
            for drawn, coins in subsets_of(range(5), 0.4):
                left = tuple(j for j in drawn if j < 3 and not barred & set(GRAPH[j]))
                following[(*path, left), frozenset(user for j in drawn for user in owners[j])] += probability * coins
        law = following
    paths = collections.Counter()
    for (path, _), probability in law.items():
        paths[path] += probability
    return paths


def cluster_paths(steps):
    """The batches within each copy of the graph, whose copies share no user."""
    paths = [[[] for _ in range(3)] for _ in range(COPIES)]
    for step, indices in enumerate(steps):
        for index in indices:
            paths[index // 3][step].append(index % 3)
    return collections.Counter(tuple(map(tuple, path)) for path in paths)


def test_users_have_the_law_of_algorithm_3(server):
    users = [[f"{copy}:{user}" for user in those] for copy in range(COPIES) for those in GRAPH]
    ours = cluster_paths(batch.tolist() for batch in batches(SHARED, 3, len(users), key=key(7), users=users))
    assert_law(ours, shared_law())
    body = [{"n": 3, "sampling": SHARED, "seed": 1}, *({"users": those} for those in users)]
    answer = server.request("POST", PATH, data="\n".join(map(json.dumps, body)).encode(),
                            headers={"Content-Type": "application/x-ndjson"})
    assert_alike(ours, cluster_paths(json.loads(line)["indices"] for line in answer.text.splitlines()))


def test_users_are_given_in_several_ways():
    def drawn(users):
        former = batches(dict(SHARED, separation=3), 9, 6, key=key(8), users=users)
        return [batch.tolist() for batch in former], former.state_dict()

    lists = drawn([[7], [3], [7], [5], [3], [7]])
    assert lists == drawn(numpy.array([7, 3, 7, 5, 3, 7])) == drawn([7, 3, 7, 5, 3, 7]) == drawn(list("abacba"))
    assert lists == drawn([[7, 7], [3], numpy.array([7]), 5, (3,), [7]])
    assert lists[1] != drawn([7, 3, 7, 5, 3, 4])[1]


# ---------------------------------------------------------------- resumption

RESUMED = {
    **{name: (n, 50, sampling, None) for name, (_, n, sampling) in CASES.items()},
    "truncated": (20, 40, {"scheme": "poisson", "p": 0.3, "truncation": {"max_batch_size": 9}}, None),
    "truncated turns": (20, 40, {"scheme": "cyclic_poisson", "p": 0.6, "groups": 3,
                                 "truncation": {"max_batch_size": 5}}, None),
    "long": (150, 40, {"scheme": "b_min_sep", "p": 0.2, "separation": 5, "truncation": {"max_batch_size": 3}}, None),
    "longer than looked ahead": (150, 400, {"scheme": "b_min_sep", "p": 0.2, "separation": 90}, None),
    "users": (60, 40, dict(SHARED, p=0.05, separation=7), [j // 3 for j in range(40)]),
    "cyclic order": (30, 17, {"scheme": "none", "batch_size": 5, "schema": "min_separation"}, None),
    "fixed epochs": (20, 17, {"scheme": "none", "epochs": 3, "separation": 6}, None),
    "shuffled": (20, 17, {"scheme": "none", "epochs": 3, "separation": 6, "schema": "shuffled"}, None),
}


@pytest.mark.parametrize("name", RESUMED)
def test_every_step_can_be_resumed(name):
    n, examples, sampling, users = RESUMED[name]
    make = functools.partial(batches, sampling, n, examples, key=key(9), users=users)
    whole, states, former = [], [], make()
    for step in range(n):
        states.append(json.dumps(former.state_dict()))
        assert len(former) == n - step and former.step == step - 1
        batch = next(former)
        whole.append((batch.tolist(), former.truncated))
        assert former.step == step
    assert next(former, None) is None and len(former) == 0
    for step in range(n):
        resumed = make(first_step=step)
        assert (next(resumed).tolist(), resumed.truncated) == whole[step]
        former.load_state_dict(json.loads(states[step]))  # backwards
        assert (next(former).tolist(), former.truncated) == whole[step]
        if step in (0, 1, n // 2):
            assert [(batch.tolist(), former.truncated) for batch in former] == whole[step + 1:]
    assert list(make(first_step=n)) == []


def test_a_key_is_drawn_if_none_is_given():
    first, second = (batches({"scheme": "poisson", "p": 0.3}, 20, 50) for _ in range(2))
    assert len(first.key) == 16 and first.key != second.key
    drawn = [batch.tolist() for batch in first]
    assert drawn != [batch.tolist() for batch in second]  # equal with a probability below 1e-100
    assert drawn == [batch.tolist() for batch in batches({"scheme": "poisson", "p": 0.3}, 20, 50, key=first.key)]


def test_a_state_is_of_one_sampling_and_key():
    sampling = {"scheme": "poisson", "p": 0.3}
    former = batches(sampling, 9, 50, key=key(1))
    state = former.state_dict()
    assert key(1).hex() not in json.dumps(state)
    for other, what in ((batches(sampling, 9, 50, key=key(2)), "key"),
                        (batches(sampling, 8, 50, key=key(1)), "sampling"),
                        (batches(sampling, 9, 51, key=key(1)), "sampling"),
                        (batches(dict(sampling, p=0.2), 9, 50, key=key(1)), "sampling")):
        with pytest.raises(ValueError, match=f"its {what} differ"):
            other.load_state_dict(state)
    for wrong in (-1, 10, "1", None, True):
        with pytest.raises(ValueError, match="next_step of the state"):
            former.load_state_dict(dict(state, next_step=wrong))
    with pytest.raises(ValueError, match="format and sampling"):
        former.load_state_dict({"users": None, "key": state["key"]})


def test_a_key_gives_these_batches():
    """What this program gave when its format was numbered. If they change, a checkpoint cannot be resumed any more:
    then FORMAT changes, too."""
    digest = hashlib.sha256()
    for n, examples, sampling, users in RESUMED.values():
        former = batches(sampling, n, examples, key=bytes(range(16)), users=users)
        for batch in former:
            digest.update(json.dumps([batch.tolist(), former.truncated]).encode())
    assert former.state_dict()["format"] == 1
    assert digest.hexdigest() == "33d78bc6e96c2a818fac282f2881030bf3b5b56370165e3ba0efcb139aa9ef5d"


# ---------------------------------------------------------------- exact draws

class Given:
    """Words that are given."""

    def __init__(self, *rows):
        self.rows = list(rows)

    def raw(self, count):
        return numpy.array(self.rows.pop(0)[:count], dtype=numpy.uint64)


@pytest.mark.parametrize("p", [1e-20, 1e-9, 0.001, 0.3, 0.5, 0.9, 1 - 2 ** -53])
def test_runs_are_those_of_exact_arithmetic(p):
    """Words at random, at the ends, and on both sides of where a run gets longer."""
    words = Words(key(1), 0, 0)
    high = [0, 1, 2, 1 << 11, (1 << 53) - 1, 1 << 53, (1 << 64) - 1, (1 << 64) - 2, *map(int, words.raw(50))]
    exact = 1 - fractions.Fraction(p)
    for run in (1, 2, 3, 10, 100):
        edge = int(exact ** run * (1 << 64))
        high += [min(max(edge + near, 0), (1 << 64) - 1) for near in (-2000, -1, 0, 1, 2000)]
    low = list(map(int, words.raw(len(high))))
    most = 1 << 39
    runs = Tails(p).runs(Given(high, low), len(high), most)
    with decimal.localcontext(decimal.Context(prec=200)):
        one = (1 - decimal.Decimal(p)).ln()
        for a, b, run in zip(high, low, runs.tolist()):
            uniform = (decimal.Decimal((a << 64) + b) + decimal.Decimal(1) / 2) / 2 ** 128
            assert run == min(int(uniform.ln() / one), most)


def test_integers_and_coins_decide_at_their_limits():
    limit = 3 << 62  # words from here on are drawn again
    words = Words.below(Given([limit, limit - 1, (1 << 64) - 1, 5], [1 << 63, 7]), limit, 4)
    assert words.tolist() == [1 << 63, limit - 1, 7, 5]
    third = (1 << 64) // 3
    heads = Words.coins(Given([third, third, third - 1, third + 1], [third - 1, third, 0, 0]),
                        fractions.Fraction(1, 3), 4)
    assert heads.tolist() == [True, False, True, False]
    assert Words.permutation(Given([4, 9, 4], [3, 1, 2]), 3).tolist() == [1, 2, 0]  # equal words are drawn again


# ---------------------------------------------------------------- what is refused, and the rest

CROWDED = [["a"], ["a"], ["a"], ["a"]]
WRONG = {  # n, sampling, dataset_size, a part of what is said
    "no scheme": (5, {"p": 0.1}, 9, "sampling must be an object with a scheme"),
    "unknown scheme": (5, {"scheme": "uniform"}, 9, "one of none, poisson"),
    "no steps": (0, {"scheme": "poisson", "p": 0.1}, 9, "n must be an integer of at least 1"),
    "no p": (5, {"scheme": "poisson"}, 9, "sampling.p is required"),
    "p": (5, {"scheme": "poisson", "p": 1.5}, 9, r"sampling.p must lie in \[1e-20, 1\]"),
    "p and sizes": (5, {"scheme": "poisson", "p": 0.5, "batch_size": 4, "dataset_size": 9}, 9,
                    "sampling.p must be 0.4444444444444444, which follows from the sizes"),
    "no data set": (5, {"scheme": "poisson", "p": 0.5}, None, "dataset_size is required"),
    "another data set": (5, {"scheme": "poisson", "batch_size": 4, "dataset_size": 10}, 9,
                         "dataset_size must equal sampling.dataset_size, 10"),
    "too large a data set": (5, {"scheme": "poisson", "p": 0.5}, 1 << 32, "dataset_size must be an integer"),
    "too large a batch": (5, {"scheme": "poisson", "batch_size": 11}, 10, "sampling.batch_size must be at most"),
    "misspelt": (5, {"scheme": "poisson", "p": 0.5, "warm_start": True}, 9, "sampling.warm_start is no member"),
    "no limit": (5, {"scheme": "poisson", "p": 0.5, "truncation": {}}, 9, "max_batch_size"),
    "limit 0": (5, {"scheme": "poisson", "p": 0.5, "truncation": {"max_batch_size": 0}}, 9, "max_batch_size"),
    "truncated users": (5, {"scheme": "poisson", "p": 0.5, "truncation": {"max_batch_size": 2},
                            "examples_per_user": 2}, 9, "cannot be combined"),
    "no groups": (5, {"scheme": "cyclic_poisson", "p": 0.1}, 9, "sampling.groups is required"),
    "groups": (5, {"scheme": "cyclic_poisson", "batch_size": 1, "groups": 10}, 9, "sampling.groups must be at most"),
    "turns": (5, {"scheme": "cyclic_poisson", "batch_size": 4, "groups": 3}, 9, "use at most 3 with 3 groups"),
    "no bins": (6, {"scheme": "balls_in_bins"}, 9, "sampling.bins is required"),
    "bins": (6, {"scheme": "balls_in_bins", "bins": 4}, 9, "do not divide n = 6; the nearest n that works is 8"),
    "no separation": (5, {"scheme": "b_min_sep", "p": 0.1}, 9, "sampling.separation is required"),
    "warm users": (5, dict(SHARED, warm_start=True), 4, "sampling.warm_start must be false"),
    "apart": (5, {"scheme": "b_min_sep", "batch_size": 4, "separation": 3}, 9, "must be at most 3 with separation 3"),
    "epochs": (5, {"scheme": "none", "epochs": 6}, 9, "sampling.epochs must lie in"),
    "too long": (5, {"scheme": "none", "epochs": 3, "separation": 3}, 9, "do not fit"),
    "too long to shuffle": (5, {"scheme": "none", "epochs": 2, "separation": 3, "schema": "shuffled"}, 9,
                            "allows at most 2 steps per epoch"),
    "uneven": (5, {"scheme": "none", "batch_size": 4}, 9, "must be min_separation"),
    "uneven epochs": (5, {"scheme": "none", "batch_size": 4, "schema": "shuffled"}, 9, "drop the last 1"),
    "shuffled": (5, {"scheme": "none", "batch_size": 3, "schema": "shuffled"}, 9, "multiple of .* = 3"),
    "another number of epochs": (6, {"scheme": "none", "batch_size": 3, "epochs": 3}, 9, "epochs must be 2"),
    "schema": (5, {"scheme": "none", "schema": "random"}, 9, "sampling.schema must be one of"),
    "no users": (5, SHARED, 4, "users is required"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_the_service_refuses_is_refused(server, name):
    n, sampling, dataset, said = WRONG[name]
    with pytest.raises(ValueError, match=said):
        batches(sampling, n, dataset)
    request = {"n": n, "sampling": sampling, "dataset_size": dataset}
    check_problem(server.post(request, PATH), 422, "invalid-job")


@pytest.mark.parametrize("arguments, said", [
    ({"key": b"short"}, "key must be 16 bytes"),
    ({"key": "0123456789abcdef"}, "key must be 16 bytes"),
    ({"first_step": 6}, r"first_step must be an integer in \[0, 5\]"),
    ({"first_step": -1}, "first_step"),
    ({"users": [1, 2, 3]}, "for each of the 4 examples, but has 3"),
    ({"users": [1, 2, 3, 4, 5]}, "for each of the 4 examples, but has more"),
    ({"users": CROWDED}, "example 3 gives one of its users more than examples_per_user, 3"),
    ({"users": [1, [], 2, 3]}, r"users\[1\] must be"),
    ({"users": [1, 2, [2.5], 3]}, r"users\[2\] must be"),
    ({"users": numpy.array([1, 2, -3, 3])}, r"users\[2\] must be"),
    ({"users": [1, 2, 3, ""]}, r"users\[3\] must be"),
    ({"users": [1, 2, 3, {"a"}]}, r"users\[3\] must be"),
])
def test_wrong_arguments(arguments, said):
    with pytest.raises(ValueError, match=said):
        batches(SHARED, 5, 4, **{"users": [1, 2, 3, 4], **arguments})


def test_users_need_a_limit():
    with pytest.raises(ValueError, match="requires examples_per_user over 1"):
        batches({"scheme": "poisson", "p": 0.5}, 5, 2, users=[1, 2])
    assert len(list(batches({"scheme": "poisson", "p": 0.5, "examples_per_user": 2}, 5, 2, users=[1, 1]))) == 5


@pytest.mark.parametrize("size", [3, "4", math.nan])
def test_a_wrong_figure(size):
    sampling = {"scheme": "poisson", "p": 0.5}
    assert len(batches(dict(sampling, expected_batch_size=4), 5, 8)) == 5
    with pytest.raises(ValueError, match="sampling.expected_batch_size is"):
        batches(dict(sampling, expected_batch_size=size), 5, 8)


@pytest.mark.parametrize("change", [
    {"sampling": {"scheme": "poisson", "batch_size": 50, "dataset_size": 1003}},
    {"sampling": {"scheme": "poisson", "p": 0.1, "last_iterate": True}},
    {"sampling": {"scheme": "cyclic_poisson", "batch_size": 50, "dataset_size": 1003,
                  "truncation": {"max_batch_size": 60}}, "matrix": {"family": "square_root", "bands": 4}},
    {"sampling": {"scheme": "balls_in_bins", "batch_size": 50, "dataset_size": 1003}},
    {"sampling": {"scheme": "b_min_sep", "batch_size": 50, "dataset_size": 1003},
     "matrix": {"family": "square_root", "bands": 4}},
    {"sampling": {"scheme": "none", "batch_size": 50, "dataset_size": 1003, "schema": "min_separation"}},
    {"sampling": {"scheme": "none", "epochs": 2, "schema": "shuffled"}},
])
def test_the_sampling_of_an_answer(server, change):
    """Taken as returned, or from the mechanism; p and bins follow from the sizes to the last bit."""
    job = server.solve({"n": 40, "noise_multiplier": 1, "delta": 1e-6, **change})
    former = batches(job["job"]["sampling"], 40, 1003, key=key(10))
    mechanism = Client(server.url).mechanism(job, spend=False)
    assert mechanism.batches(1003, key(10)).state_dict() == former.state_dict()  # its figures are checked
    figures = job["result"]["sampling"]
    resolved = former.state_dict()["sampling"]
    assert resolved["p"] == figures["p"] and resolved["bins"] == (figures.get("bins") or 0)
    sizes = [len(batch) + former.truncated for batch in former]
    expected = figures["expected_batch_size"] or resolved["p"] and 1003 * resolved["p"] or 1003 / 20
    assert abs(sum(sizes) / 40 - expected) < 6 * math.sqrt(expected / 40) + 1


def test_lists_for_a_loader():
    sampling = {"scheme": "b_min_sep", "p": 0.2, "separation": 2}
    sampler = batches(sampling, 30, 20, key=key(1)).sampler()
    assert len(sampler) == 30
    lists = list(sampler)
    assert lists == [batch.tolist() for batch in batches(sampling, 30, 20, key=key(1))]
    assert all(type(index) is int for indices in lists for index in indices)
    assert list(sampler) == [] and len(sampler) == 0


def test_ten_million_examples_and_a_thousand_steps_take_seconds():
    began = time.process_time()
    for sampling in ({"scheme": "poisson", "p": 1e-4}, {"scheme": "b_min_sep", "p": 1e-4, "separation": 16}):
        sizes = [len(batch) for batch in batches(sampling, 1000, 10 ** 7, key=key(1))]
        assert abs(sum(sizes) - 10 ** 6) < 12000
    assert time.process_time() - began < 30  # observed: 1.5
