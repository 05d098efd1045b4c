"""Stable assignment: against the definition, whoever is served first."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.build.assignment import assign


@st.composite
def problems(draw):
    askers, things = draw(st.integers(0, 6)), draw(st.integers(1, 6))
    wishes = [draw(st.permutations(range(things)))[: draw(st.integers(0, things))] for _ in range(askers)]
    quotas = [draw(st.integers(0, 3)) for _ in range(askers)]
    capacity = [draw(st.integers(0, 3)) for _ in range(things)]
    claims = [draw(st.permutations(range(askers))) for _ in range(things)]
    return quotas, wishes, capacity, claims


def run(problem):
    quotas, wishes, capacity, claims = problem
    return assign(quotas, wishes, capacity.__getitem__, lambda asker, thing: claims[thing][asker])


@given(problems())
@settings(max_examples=300, deadline=None)
def test_no_asker_and_thing_would_rather_have_each_other(problem):
    quotas, wishes, capacity, claims = problem
    held = run(problem)
    holders = {t: [a for a in range(len(quotas)) if t in held[a]] for t in range(len(capacity))}
    for asker, things in enumerate(held):
        assert things == [thing for thing in wishes[asker] if thing in things]  # best first, each once
        assert len(things) <= quotas[asker]
    for thing, with_it in holders.items():
        assert len(with_it) <= capacity[thing]
        for asker in set(range(len(quotas))) - set(with_it):
            if thing not in wishes[asker] or quotas[asker] == 0:
                continue
            rank = wishes[asker].index(thing)
            wants = len(held[asker]) < quotas[asker] or any(wishes[asker].index(h) > rank for h in held[asker])
            gets = len(with_it) < capacity[thing] or any(claims[thing][asker] < claims[thing][h] for h in with_it)
            assert not (wants and gets)


@given(problems(), st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_the_order_of_the_askers_does_not_matter(problem, dice):
    quotas, wishes, capacity, claims = problem
    order = list(range(len(quotas)))
    dice.shuffle(order)
    moved = [quotas[i] for i in order], [wishes[i] for i in order], capacity, [[c[i] for i in order] for c in claims]
    wanted = run(problem)
    assert run(moved) == [wanted[i] for i in order]


def test_the_best_of_the_stable_assignments_for_the_askers():
    # Both {a: 0, b: 1} and {a: 1, b: 0} are stable; the askers prefer the former.
    assert assign([1, 1], [[0, 1], [1, 0]], lambda _: 1, lambda asker, thing: abs(asker - (1 - thing))) == [[0], [1]]


def test_a_list_without_end_is_read_as_far_as_needed():
    read = []

    def endless():
        for number in itertools.count():
            read.append(number)
            yield number

    assert assign([3], [endless()], lambda _: float("inf"), lambda *_: 0) == [[0, 1, 2]]
    assert read == [0, 1, 2]


@pytest.mark.parametrize(
    ("limit", "uses"), [(0, [0] * 4), (1, [1] * 4), (2, [2] * 4), (3, [3, 3, 2, 2]), (9, [5, 5, 0, 0])]
)
def test_everybody_wants_the_same(limit, uses):
    held = assign([2] * 5, [range(4)] * 5, lambda _: limit, lambda asker, _: asker)
    assert [sum(thing in things for things in held) for thing in range(4)] == uses
    assert held[0] == ([] if limit == 0 else [0, 1])
