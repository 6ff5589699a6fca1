"""The workloads that are shipped: each is what the tables of layers say, has as many parameters as its model, and says
where its figures come from."""

from __future__ import annotations

from math import prod
from pathlib import Path

import pytest
from benchmarks.workloads import models

from gossamer.sim.description import names
from gossamer.sim.workload import Workload

COUNTS = {
    "resnet18": 11_689_512, "resnet50": 25_557_032, "resnet101": 44_549_160, "resnet152": 60_192_808,
    "resnet18-cifar10": 11_173_962, "vgg16": 138_357_544, "inceptionv3": 27_161_264, "bert-base": 108_893_186,
    "bert-large": 334_094_338, "gpt2-small": 124_439_808, "gpt2-medium": 354_823_168, "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200, "gpt3": 174_604_259_328,
}  # fmt: skip
SHIPPED = Path(__file__).parents[2] / "workloads"


def test_these_are_shipped() -> None:
    assert {*COUNTS, "mlp-small"} == set(names("workload"))


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_a_file_is_its_model(name: str) -> None:
    assert (SHIPPED / f"{name}.toml").read_text("utf-8") == models()[name].written(), "python -m benchmarks.workloads"
    found = Workload.load(name)
    assert sum(prod(tag.shape) for tag in found.tags) == COUNTS[name] and found.nbytes == 4 * COUNTS[name]
    assert len({tag.name for tag in found.tags}) == len(found.tags)
    assert sum(found.shares) > 0 and found.name and "derived from MLPerf" in found.source
    ready = found.ready()
    assert ready == sorted(ready, reverse=True) and ready[0] == pytest.approx(1.0) and ready[-1] >= found.forward
    assert 0 < found.compute(1) < found.compute(2) < found.compute(1000)


def test_the_work_of_models_is_as_published() -> None:
    """Thousand millions of multiply-adds of a forward pass, as torchvision's tables have them, without norms."""
    told = {"resnet18": 1.81, "resnet50": 4.09, "resnet101": 7.80, "resnet152": 11.51, "vgg16": 15.47}
    for name, work in told.items():
        assert sum(Workload.load(name).shares) / 1e3 == pytest.approx(work, rel=0.01)
    small, large = (sum(Workload.load(f"gpt2-{size}").shares) * 1e6 / 1024 for size in ("small", "xl"))
    assert small == pytest.approx(124e6, rel=0.2) and large == pytest.approx(1.56e9, rel=0.12)  # a word meets each once


def test_resnet50_computes_as_mlperf_says() -> None:
    """Its one line reproduces the rows of one host: 3,003 images a second and A100 at 256, 3,257 at 408."""
    found = Workload.load("resnet50")
    assert 256 / found.compute(256) == pytest.approx(3003, rel=0.07)
    assert 408 / found.compute(408) == pytest.approx(3257, rel=0.02)
    assert found.goal is not None and found.goal.needed(3264) / 1_281_167 == pytest.approx(37.4, rel=0.01)
