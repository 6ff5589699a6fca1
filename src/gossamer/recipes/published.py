"""The published large-batch runs of ResNet-50 on ImageNet, as data: what was reported, by whom, and how sure we are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

IMAGES = 1_281_167  # of ImageNet's training set
EPOCHS = 90  # of a run: read of Goyal's and Akiba's, and taken for all others
READ, TOLD, REMEMBERED, HARDLY = "read", "told", "remembered", "hardly remembered"
FACTS = {  # of a run, and what they are called
    "batches": "batch", "count": "how many processors", "processors": "which processors", "library": "library",
    "seconds": "time", "top1": "accuracy",
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """One line of the literature. `batches`: samples of a step, from the first size to the last.

    `read`: what stands in the work itself or its abstract, and `told`: what another work says of it that was read.
    Whatever else is here is `beside`: remembered by us, or hardly so, and no paper's word.
    """

    work: str
    recipe: str | None  # ours of that name
    batches: tuple[int, ...]
    processors: str
    count: int | None
    library: str
    seconds: float
    top1: float
    source: str
    read: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    beside: str = REMEMBERED

    @property
    def sure(self) -> Mapping[str, str]:
        """How sure we are of each fact."""
        return {name: READ if name in self.read else TOLD if name in self.told else self.beside for name in FACTS}

    @property
    def surely(self) -> str:
        """The same in words."""
        sure = self.sure
        by = {level: [FACTS[name] for name in FACTS if sure[name] == level] for level in (READ, TOLD, self.beside)}
        return "; ".join(f"{level}: {', '.join(names)}" for level, names in by.items() if names)

    def described(self) -> dict[str, Any]:
        """Every fact under its name, how sure we are of each, and what follows from them."""
        facts = {name: getattr(self, name) for name in ("work", "recipe", *FACTS, "source")}
        derived = {"images_per_second": self.images_per_second, "updates_per_epoch": self.updates_per_epoch}
        return {**facts, "sure": self.sure, **derived}

    @property
    def images_per_second(self) -> float:
        """Of all processors together, from the time of all epochs."""
        return EPOCHS * IMAGES / self.seconds

    @property
    def updates_per_epoch(self) -> tuple[int, ...]:
        """Steps of an epoch at each size, the last one begun counted whole."""
        return tuple(-(-IMAGES // size) for size in self.batches)


HOUR, MINUTE = 3600.0, 60.0
RUNS: tuple[Run, ...] = (
    Run("He et al.", None, (256,), "P100", 8, "Caffe", 29 * HOUR, 0.753, "our memory of P5's table"),
    Run("Goyal et al. (Facebook)", "goyal", (8192,), "P100", 256, "Caffe2", HOUR, 0.763,
        "P1; the rest: our memory of P5's table", told=("batches", "count", "seconds")),
    Run("Smith et al. (Google)", "smith", (8192, 16384), "TPU pod", None, "TensorFlow", 30 * MINUTE, 0.761,
        "our memory of P5's table"),
    Run("You et al. (UC Berkeley)", "you", (32768,), "KNL", 2048, "Caffe", 20 * MINUTE, 0.754, "our memory",
        beside=HARDLY),
    Run("Akiba et al. (PFN)", "akiba", (32768,), "P100", 1024, "Chainer", 15 * MINUTE, 0.749,
        "abstract of Akiba et al.; the rest: our memory of P5's table",
        read=("batches", "count", "processors", "seconds")),
    Run("Jia et al. (Tencent)", "jia", (65536,), "P40", 2048, "TensorFlow", 6.6 * MINUTE, 0.758,
        "P1, and P5 on the time; the rest: our memory of P5's table", told=("batches", "count", "seconds")),
    Run("Ying et al. (Google)", None, (32768,), "TPU v3", 1024, "TensorFlow", 2.2 * MINUTE, 0.763, "our memory",
        beside=HARDLY),
    Run("Mikami et al. (Sony), v1", "sony", (34816, 69632), "V100", 2176, "NNL", 224.0, 0.7503,
        "accounts of P5, v1; batches: our memory, 2,176 x 16 and x 32",
        told=("count", "processors", "library", "seconds", "top1")),
    Run("Mikami et al. (Sony), v2", "sony", (55296,), "V100", 3456, "NNL", 122.0, 0.7529,
        "abstract of P5, v2; the rest: our memory of its table, batch 3,456 x 16",
        read=("seconds",), told=("library",)),
)  # fmt: skip
