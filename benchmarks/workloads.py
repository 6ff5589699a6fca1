"""Writes the workload files that are shipped, from tables of layers and one line of seconds on an A100.

    python -m benchmarks.workloads [FOLDER]

ResNet-50 takes 4.6 ms + 0.296 ms an image (derived from MLPerf v2.0's logs). For other models both are scaled: the
first by how many tensors there are, the second by multiply-adds, as if every model got as many of them a second. That
is ours, and makes models of text too slow: they often get half as many again. Gradients are of 32 bits.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from textwrap import wrap

from benchmarks.layers import Row, resnet, resnet_small, vgg16
from benchmarks.layers_inception import inception
from benchmarks.layers_text import bert, gpt, halves

START, IMAGE = 0.0046, 0.000296  # seconds of a step of ResNet-50 on an A100, and of each image in it
TENSORS, WORK = 161, 4.111413e9  # of ResNet-50, its multiply-adds as we count them
ADAM, MEMORY = 28, 1.5e12  # bytes that Adam moves for a parameter; bytes a second of an A100 (memory)
SCALED = "seconds: ours, those of ResNet-50 on an A100 (derived from MLPerf v2.0) scaled by tensors and multiply-adds"
READ = "seconds: of an A100, mixed precision, derived from MLPerf v2.0's logs (mlcommons/training_results_v2.0)"
VISION = "tensors: torchvision's, names, order and sides checked"
FACE = "tensors: Hugging Face's names, order and sides checked"
SHARES = "shares: multiply-adds of a forward pass, in millions a sample (counted)"
IMAGENET, CIFAR, SQUAD = 1_281_167, 50_000, 88_641
LARS = (
    35.0 * IMAGENET,
    47_000,
    "MLPerf's 75.9 % top-1 with LARS: 35.0 (1 + B / 47,000) epochs fit 17 MLPerf runs (derived)",
)
PLAIN = (90.0 * IMAGENET, 19_700, "as ResNet-50 in Pollux's traces, rate scaled (derived); 90 epochs, and that this "
         "model does as that one, are ours")  # fmt: skip
SMALL = (90.0 * CIFAR, 5_900, "as ResNet-18 in Pollux's traces, rate scaled (derived); 90 epochs are ours")
ASKED = (2.0 * SQUAD, 8_800, "two epochs of SQuAD, as in Pollux's traces of a BERT (derived)")


@dataclass(frozen=True)
class Model:
    """What a file says."""

    name: str
    rows: Sequence[Row]
    source: str
    epoch: int | None = None
    goal: tuple[float, float, str] | None = None
    adam: bool = False

    def written(self) -> str:
        """The file."""
        work, count = sum(row[2] for row in self.rows), sum(prod(row[1]) for row in self.rows)
        start, each = START * len(self.rows) / TENSORS, IMAGE * work / WORK
        lines = [
            f'name = "{self.name}, {count:,} parameters"',
            f'source = """\\\n{_wrapped(f"{self.source}. {SHARES}")}"""',
            "batches = [1, 256]",
            f"seconds = [{start + each:.4g}, {start + 256 * each:.4g}]",
        ]
        if self.adam:
            lines.append(f"update = {count * ADAM / MEMORY:.3g}")
        if self.epoch:
            lines.append(f"epoch = {self.epoch}")
        lines += ["tensors = [", *map(_row, self.rows), "]"]
        if self.goal:
            samples, critical, what = self.goal
            lines += ["", "[goal]", f"samples = {samples:.0f}", f"critical = {critical:.0f}", f'what = "{what}"']
        return "\n".join(lines) + "\n"


def _wrapped(text: str) -> str:
    return " \\\n".join(wrap(text, 116))


def _row(row: Row) -> str:
    name, sides, work = row
    share = f"{work / 1e6:.4g}" if work < 1e10 else f"{work / 1e6:.0f}"
    return f'  ["{name}", [{", ".join(map(str, sides))}], {share}],'


def _text(name: str, layers: int, width: int) -> Model:
    told = f"{SCALED}; update: Adam at 28 bytes a parameter and 1.5 TB/s (ours). A sample is 1,024 words. {FACE}"
    return Model(name, gpt(layers, width), told, adam=True)


def _vision(name: str, blocks: Sequence[int], deep: bool, first: bool = False) -> Model:
    told = f"{READ if first else SCALED}. {VISION}"
    return Model(name, resnet(blocks, deep), told, IMAGENET, LARS if first else PLAIN)


def _asked(name: str, layers: int, width: int) -> Model:
    told = f"{SCALED}; update: Adam at 28 bytes a parameter and 1.5 TB/s (ours). A sample is 384 words. {FACE}"
    return Model(name, bert(layers, width), told, SQUAD, ASKED, adam=True)


def models() -> dict[str, Model]:
    """Every file, by its name."""
    one = "as blocks: each half of one is told as one tensor. No device holds it: seconds are of one that would"
    three = f"{SCALED}; update: Adam (ours). A sample is 2,048 words. GPT-3's sides (memory), {one}"
    return {
        "resnet18": _vision("ResNet-18 on ImageNet", (2, 2, 2, 2), False),
        "resnet50": _vision("ResNet-50 on ImageNet", (3, 4, 6, 3), True, first=True),
        "resnet101": _vision("ResNet-101 on ImageNet", (3, 4, 23, 3), True),
        "resnet152": _vision("ResNet-152 on ImageNet", (3, 8, 36, 3), True),
        "resnet18-cifar10": Model("ResNet-18 on CIFAR-10", resnet_small(), f"{SCALED}. Names: ours", CIFAR, SMALL),
        "vgg16": Model("VGG-16 on ImageNet", vgg16(), f"{SCALED}. {VISION}", IMAGENET),
        "inceptionv3": Model("InceptionV3 on ImageNet, auxiliary head", inception(), f"{SCALED}. {VISION}", IMAGENET),
        "bert-base": _asked("BERT-base on SQuAD", 12, 768),
        "bert-large": _asked("BERT-large on SQuAD", 24, 1024),
        "gpt2-small": _text("GPT-2 small", 12, 768),
        "gpt2-medium": _text("GPT-2 medium", 24, 1024),
        "gpt2-large": _text("GPT-2 large", 36, 1280),
        "gpt2-xl": _text("GPT-2 XL", 48, 1600),
        "gpt3": Model("GPT-3", halves(gpt(96, 12288, context=2048)), three, adam=True),
    }


def main() -> None:
    """Write them all."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "workloads")
    for name, model in models().items():
        (folder / f"{name}.toml").write_text(model.written(), "utf-8")


if __name__ == "__main__":
    main()
