"""The published large-batch runs of ResNet-50 on ImageNet, as data: what was reported, by whom, and how sure we are."""

from __future__ import annotations

from dataclasses import dataclass

IMAGES = 1_281_167  # of ImageNet's training set
EPOCHS = 90  # of a run, where the source does not say otherwise


@dataclass(frozen=True)
class Run:
    """One line of the literature. `batches`: samples of a step, from the first size to the last.

    `sure`: "read" in the work itself or its abstract, "told" by another work that was read, "remembered" by us.
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
    sure: str

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
    Run("He et al.", None, (256,), "P100", 8, "Caffe", 29 * HOUR, 0.753, "table of P5", "remembered"),
    Run("Goyal et al. (Facebook)", "goyal", (8192,), "P100", 256, "Caffe2", HOUR, 0.763, "P1; accuracy: table of P5",
        "read but for the accuracy"),
    Run("Smith et al. (Google)", "smith", (8192, 16384), "TPU pod", None, "TensorFlow", 30 * MINUTE, 0.761,
        "table of P5", "remembered"),
    Run("You et al. (UC Berkeley)", "you", (32768,), "KNL", 2048, "Caffe", 20 * MINUTE, 0.754, "from memory",
        "hardly remembered"),
    Run("Akiba et al. (PFN)", "akiba", (32768,), "P100", 1024, "Chainer", 15 * MINUTE, 0.749,
        "abstract of Akiba et al.", "read"),
    Run("Jia et al. (Tencent)", "jia", (65536,), "P40", 2048, "TensorFlow", 6.6 * MINUTE, 0.758, "table of P5",
        "remembered"),
    Run("Ying et al. (Google)", None, (32768,), "TPU v3", 1024, "TensorFlow", 2.2 * MINUTE, 0.763, "table of P5, v2",
        "remembered"),
    Run("Mikami et al. (Sony), v1", "sony", (34816, 69632), "V100", 2176, "NNL", 224.0, 0.7503,
        "abstract of P5, v1; batches: 2,176 x 16 and x 32", "read but for the batches"),
    Run("Mikami et al. (Sony), v2", "sony", (55296,), "V100", 3456, "NNL", 122.0, 0.7529,
        "abstract of P5, v2; batch: 3,456 x 16", "read but for processors, batch and accuracy"),
)  # fmt: skip
