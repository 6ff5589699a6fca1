"""Draws are pure functions of their key: the same everywhere, different for every other key, and fair."""

from __future__ import annotations

from itertools import product
from math import sqrt

import numpy
import torch

from gossamer.parts.chance import Chance, all_below, below, draw, normal, uniform

LIKE = torch.zeros(40, 25)
GOLDEN_WORDS = (11400714819323198485, 14059657853059812744, 2684102661621406950, 12082556061626479874)
GOLDEN_UNIFORMS = [0.30356353521347046, 0.9855601787567139, 0.4497833847999573]
GOLDEN_NORMALS = [-0.22320733964443207, -1.0240862369537354, -0.7213848233222961]


def test_a_draw_is_the_same_on_every_machine() -> None:
    assert (draw(), draw(0), draw(1, 2, 3), draw(-1)) == GOLDEN_WORDS
    assert Chance(1, 2, 3, 4).uniform_like(torch.zeros(3)).tolist() == GOLDEN_UNIFORMS
    assert Chance(1, 2, 3, 4).shared_normal(torch.zeros(3), 0).tolist() == GOLDEN_NORMALS


def test_draws_of_all_members_at_once_are_their_own() -> None:
    for size, count in ((1, 1), (2, 1), (7, 7), (300, 299)):
        for begins, ends in (((5, 1, 9), (3,)), ((2**63 - 1, 0, 10**6), ())):
            each = [below(count, *begins, member, *ends) for member in range(size)]
            assert all_below(count, size, begins, *ends) == each
    assert all_below(300, 300, (5, 1, 9)) != all_below(300, 300, (5, 1, 8))


def test_every_key_has_its_own_draw() -> None:
    keys = [key for length in range(4) for key in product((0, 1, 2, 2**63, -1), repeat=length)]
    assert len({draw(*key) for key in keys}) == len(keys)
    assert all(0 <= draw(*key) < 2**64 for key in keys)


def test_places_are_different_ones_that_all_draw_alike_and_anew_at_each_step() -> None:
    for count, many in ((1, 1), (30, 100), (5, 50_000), (4_000, 50_000), (100, 100)):
        like = torch.empty(many)
        places = Chance(1, 2, 3, 0).shared_places(like, count)
        assert len(set(places.tolist())) == count and places.equal(places.sort().values)
        assert 0 <= int(places[0]) <= int(places[-1]) < many
        assert places.equal(Chance(1, 2, 3, 7).shared_places(like, count))
    others = [Chance(1, 2, 3, 0), Chance(1, 2, 4, 0), Chance(1, 3, 3, 0), Chance(2, 2, 3, 0)]
    drawn = {tuple(chance.shared_places(torch.empty(10_000), 10).tolist()) for chance in others}
    assert len(drawn) == 4


def test_neighbouring_keys_differ_in_half_their_bits() -> None:
    flips = [(draw(7, step, 0) ^ draw(7, step + 1, 0)).bit_count() for step in range(2000)]
    assert abs(numpy.mean(flips) - 32) < 4 * 4 / sqrt(2000)  # 64 fair bits have a deviation of 4


def test_whole_numbers_and_floats_are_uniform() -> None:
    tally = numpy.bincount([below(7, 3, number) for number in range(7000)], minlength=7)
    assert len(tally) == 7 and ((tally - 1000) ** 2 / 1000).sum() < 6 + 4 * sqrt(12)
    drawn = [uniform(5, number) for number in range(4000)]
    assert 0.0 <= min(drawn) < 0.01 and 0.99 < max(drawn) < 1.0
    assert abs(numpy.mean(drawn) - 0.5) < 4 / sqrt(12 * 4000)


def test_normals_are_normal() -> None:
    drawn = numpy.array([normal(9, number) for number in range(4000)])
    assert abs(drawn.mean()) < 4 / sqrt(4000) and abs(drawn.var() - 1) < 4 * sqrt(2 / 4000)
    assert 0.02 < (abs(drawn) > 2).mean() < 0.07


def test_uniforms_differ_by_seed_slot_step_and_member() -> None:
    base = Chance(1, 2, 3, 4).uniform_like(LIKE)
    assert torch.equal(base, Chance(1, 2, 3, 4).uniform_like(LIKE))
    for other in (Chance(0, 2, 3, 4), Chance(1, 0, 3, 4), Chance(1, 2, 0, 4), Chance(1, 2, 3, 0)):
        assert not torch.equal(base, other.uniform_like(LIKE))
    assert base.shape == LIKE.shape and base.min() >= 0 and base.max() < 1
    assert abs(base.mean() - 0.5) < 4 / sqrt(12 * LIKE.numel())


def test_shared_normals_are_alike_for_all_members_at_all_steps() -> None:
    base = Chance(1, 2, 3, 4).shared_normal(LIKE, 0)
    assert torch.equal(base, Chance(1, 2, 9, 0).shared_normal(LIKE, 0))
    for other in (Chance(0, 2, 3, 4).shared_normal(LIKE, 0), Chance(1, 2, 3, 4).shared_normal(LIKE, 1)):
        assert not torch.equal(base, other)
    assert abs(base.mean()) < 4 / sqrt(LIKE.numel()) and abs(base.std() - 1) < 0.1


def test_draws_come_in_the_type_asked_for_and_leave_the_global_generators_alone() -> None:
    before = torch.get_rng_state(), numpy.random.get_state()[1].copy()
    double = Chance(1, 2, 3, 4).uniform_like(LIKE.double())
    assert double.dtype == torch.float64
    assert torch.equal(double.float(), Chance(1, 2, 3, 4).uniform_like(LIKE))
    assert torch.equal(before[0], torch.get_rng_state()) and (before[1] == numpy.random.get_state()[1]).all()
