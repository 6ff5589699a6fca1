"""The systems that compress what they send, rehearsed, against their oracles, draws handed over."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from math import ceil

import numpy as np
import pytest
import torch
from tests.papers import codec_oracles as oracles
from tests.papers.oracles import allreduce
from tests.papers.problem import EXACT, RATE, WRONG, gap, given, played
from tests.papers.test_oracles import rooms
from tests.texts import small

from gossamer.parts.chance import Chance
from gossamer.strategy import parse

STEPS = 30
COUNT = sum(int(np.prod(shape)) for shape in ((4, 5), (4,), (3, 4), (3,)))


def drawn(member: int, step: int) -> np.ndarray:
    """The uniforms member `member` draws at `step` in slot 0 of a world with seed 0."""
    return Chance(0, 0, step, member).uniform_like(torch.empty(COUNT, dtype=torch.float64)).numpy()


def places(keep: float) -> Callable[[int, int], np.ndarray]:
    """The places all members draw at a step in slot 0 of a world with seed 0, of so many elements."""
    return lambda step, count: Chance(0, 0, step, 5).shared_places(torch.empty(count), ceil(keep * count)).numpy()


Oracle = Callable[..., np.ndarray]
RIGHT: tuple[tuple[str, Oracle, dict[str, object]], ...] = (
    ("one_bit", oracles.one_bit, {}),
    ("qsgd", oracles.qsgd, {"drawn": drawn}),
    ("qsgd(bits=2)", oracles.qsgd, {"drawn": drawn, "bits": 2}),
    ("qsgd(bits=8)", oracles.qsgd, {"drawn": drawn, "bits": 8}),
    ("Exchange(codec=QSGD(bits=4, bucket=7))", oracles.qsgd, {"drawn": drawn, "bucket": 7}),
    ("half", oracles.half, {}),
    ("bf16", oracles.bf16, {}),
    ("eight_bits", oracles.int8, {}),
    ("eight_bits(bucket=7)", oracles.int8, {"bucket": 7}),
    ("random_k", oracles.random_k, {"places": places(0.01)}),
    ("random_k(keep=0.3)", oracles.random_k, {"places": places(0.3)}),
    ("terngrad", oracles.terngrad, {"drawn": drawn}),
    ("terngrad(clip=1)", oracles.terngrad, {"drawn": drawn, "clip": 1.0}),
    ("strom", oracles.strom, {}),
    ("strom(threshold=0.01)", oracles.strom, {"tau": 0.01}),
    ("gradient_dropping", oracles.gradient_dropping, {}),
    ("gradient_dropping(keep=0.3)", oracles.gradient_dropping, {"keep": 0.3}),
    ("dryden", oracles.dryden, {}),
    ("dryden(keep=0.4)", oracles.dryden, {"keep": 0.4}),
    ("adacomp", oracles.adacomp, {}),
    ("adacomp(bin=3)", oracles.adacomp, {"bin": 3}),
    ("ef_signsgd", oracles.ef_signsgd, {}),
    ("natural", oracles.natural, {"drawn": drawn}),
    ("ako", oracles.ako, {}),
    ("ako(parts=3)", oracles.ako, {"parts": 3}),
    ("gaia", oracles.gaia, {}),
    ("gaia(threshold=0.3)", oracles.gaia, {"threshold": 0.3}),
)
AWRY: tuple[tuple[str, Oracle, dict[str, object]], ...] = (
    ("Exchange(codec=OneBit())", oracles.one_bit, {}),
    ("Exchange(codec=ErrorFeedback(codec=Sign()))", oracles.one_bit, {}),
    ("Exchange(codec=Corrected(codec=OneBit(), momentum=0.5))", oracles.one_bit, {"corrected": 0.52}),
    ("Exchange(codec=Corrected(codec=OneBit(), momentum=0.5, nesterov=True))", oracles.one_bit, {"corrected": 0.5}),
    ("qsgd(bits=8)", oracles.qsgd, {"drawn": drawn}),
    ("qsgd", oracles.qsgd, {"drawn": lambda member, step: drawn(member + 1, step)}),
    ("Exchange(codec=QSGD(bits=4, bucket=7))", oracles.qsgd, {"drawn": drawn}),
    ("allreduce", oracles.half, {}),
    ("Exchange(codec=ErrorFeedback(codec=Half()))", oracles.half, {}),
    ("half", oracles.bf16, {}),
    ("eight_bits(bucket=7)", oracles.int8, {}),
    ("Exchange(codec=Int8())", oracles.int8, {}),
    ("random_k(keep=0.4)", oracles.random_k, {"places": places(0.3)}),
    ("Exchange(codec=RandomK(keep=0.3))", oracles.random_k, {"places": places(0.3)}),
    ("terngrad(clip=0)", oracles.terngrad, {"drawn": drawn, "clip": 1.0}),
    ("Exchange(codec=ErrorFeedback(codec=Ternary()))", oracles.terngrad, {"drawn": drawn}),
    ("strom(threshold=0.11)", oracles.strom, {}),
    ("Exchange(codec=Threshold())", oracles.strom, {}),
    ("Exchange(codec=TopK(keep=0.3))", oracles.gradient_dropping, {"keep": 0.3}),
    ("gradient_dropping(keep=0.4)", oracles.gradient_dropping, {"keep": 0.3}),
    ("gradient_dropping(keep=0.4)", oracles.dryden, {"keep": 0.4}),
    ("Exchange(codec=Proportion(keep=0.4))", oracles.dryden, {"keep": 0.4}),
    ("adacomp(bin=4)", oracles.adacomp, {"bin": 3}),
    ("one_bit", oracles.ef_signsgd, {}),
    ("Exchange(codec=Sign())", oracles.ef_signsgd, {}),
    ("natural", oracles.natural, {"drawn": lambda member, step: drawn(member + 1, step)}),
    ("Exchange(codec=ErrorFeedback(codec=Natural()))", oracles.natural, {"drawn": drawn}),
    ("Exchange(codec=ErrorFeedback(codec=Slice()))", oracles.ako, {}),
    ("Exchange(codec=Slice(), synchrony=Synchrony(delay=1))", oracles.ako, {}),
    ("ako(parts=5)", oracles.ako, {}),
    ("gaia(threshold=0.2)", oracles.gaia, {"threshold": 0.3}),
    ("Exchange(payload=DELTAS, codec=Significant(threshold=0.3))", oracles.gaia, {"threshold": 0.3}),
)


def off(expression: str, oracle: Oracle, known: dict[str, object], size: int, mu: float) -> float:
    """How far the rehearsal of an expression ends from its oracle."""
    found = played(parse(small(expression, "Everything()")), size, STEPS, momentum=mu).outcome.replicas
    return gap(found, oracle(*given(size, STEPS), RATE, mu=mu, **known))


@pytest.mark.parametrize(("expression", "oracle", "known"), RIGHT, ids=lambda one: one if type(one) is str else "")
@pytest.mark.parametrize(("size", "mu"), [(1, 0.0), (2, 0.5), (4, 0.0)])
def test_equals_its_oracle(expression, oracle, known, size, mu):
    assert off(expression, oracle, known, size, mu) < EXACT


@pytest.mark.parametrize(("expression", "oracle", "known"), AWRY, ids=lambda one: one if type(one) is str else "")
def test_rejects(expression, oracle, known):
    assert off(expression, oracle, known, 3, 0.0) > WRONG


def test_momentum_correction_around_one_bit():
    assert (
        off("Exchange(codec=Corrected(codec=OneBit(), momentum=0.5))", oracles.one_bit, {"corrected": 0.5}, 3, 0.0)
        < EXACT
    )


SPARING = "one_bit(where=Matrices(least=0))"


@pytest.mark.parametrize("size", [2, 4])
def test_vectors_are_spared(size):
    wanted = oracles.one_bit(*given(size, STEPS), RATE, spared=True)
    assert gap(played(parse(SPARING), size, STEPS).outcome.replicas, wanted) < EXACT
    whole = oracles.one_bit(*given(size, STEPS), RATE)
    assert gap(played(parse(SPARING), size, STEPS).outcome.replicas, whole) > WRONG


@pytest.mark.parametrize("name", ["one_bit", "qsgd", "strom", "adacomp", "eight_bits", "random_k", "two_levels"])
def test_a_model_of_small_tensors_is_sent_as_it_is(name):
    found = played(parse(name + "(per_host=1)" * (name == "two_levels")), 3, STEPS).outcome.replicas
    assert gap(found, allreduce(*given(3, STEPS), RATE)) < EXACT


def test_these_oracles_import_numpy_and_the_network_alone():
    source = inspect.getsource(oracles)
    assert rooms(source) == {"collections", "numpy"}
    assert source.count("tests.") == source.count("from tests.papers.oracles import") == 1
