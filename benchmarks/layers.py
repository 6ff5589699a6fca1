"""Layers of models of pictures: each tensor's name and sides, and the work a sample makes of it. Knows no torch.

Work is multiply-adds of a forward pass; backward takes twice that, layer by layer. Names and order are torchvision's.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

Row = tuple[str, tuple[int, ...], float]  # name, sides, multiply-adds of a sample
NORM = 2.0  # multiply-adds of an element that is normalised


class Picture:
    """Rows of a convolutional model as a picture goes through it; `sides` is what it has come to."""

    def __init__(self, sides: tuple[int, int], depth: int = 3) -> None:
        self.sides, self.depth, self.rows = sides, depth, list[Row]()

    def conv(
        self, name: str, out: int, kernel: Sequence[int], stride: int = 1, pad: Sequence[int] = (0, 0),
        *, bias: bool = False,
    ) -> None:  # fmt: skip
        """A convolution."""
        high, wide = ((s + 2 * p - k) // stride + 1 for s, k, p in zip(self.sides, kernel, pad, strict=True))
        shape = (out, self.depth, *kernel)
        self.rows.append((f"{name}.weight", shape, float(prod(shape) * high * wide)))
        if bias:
            self.rows.append((f"{name}.bias", (out,), float(out * high * wide)))
        self.sides, self.depth = (high, wide), out

    def norm(self, name: str) -> None:
        """A batch norm."""
        work = NORM * self.depth * prod(self.sides)
        self.rows += [(f"{name}.weight", (self.depth,), work), (f"{name}.bias", (self.depth,), 0.0)]

    def pool(self, kernel: int, stride: int, pad: int = 0) -> None:
        """A pooling, which has no tensors."""
        high, wide = ((s + 2 * pad - kernel) // stride + 1 for s in self.sides)
        self.sides = (high, wide)

    def dense(self, name: str, inputs: int, out: int) -> None:
        """A dense layer."""
        self.rows += [(f"{name}.weight", (out, inputs), float(out * inputs)), (f"{name}.bias", (out,), float(out))]


def resnet(blocks: Sequence[int], deep: bool) -> list[Row]:
    """ResNet for pictures of 224 x 224; in deep ones a block is a bottleneck, with the stride on its 3 x 3 (v1.5)."""
    picture = Picture((224, 224))
    picture.conv("conv1", 64, (7, 7), 2, (3, 3))
    picture.norm("bn1")
    picture.pool(3, 2, 1)
    _blocks(picture, blocks, deep)
    picture.dense("fc", picture.depth, 1000)
    return picture.rows


def resnet_small() -> list[Row]:
    """ResNet-18 as it is trained on CIFAR-10: pictures of 32 x 32, a first convolution of 3 x 3 and no pooling."""
    picture = Picture((32, 32))
    picture.conv("conv1", 64, (3, 3), 1, (1, 1))
    picture.norm("bn1")
    _blocks(picture, (2, 2, 2, 2), deep=False)
    picture.dense("fc", picture.depth, 10)
    return picture.rows


def _blocks(picture: Picture, blocks: Sequence[int], deep: bool) -> None:
    for group, count in enumerate(blocks):
        for number in range(count):
            _block(picture, f"layer{group + 1}.{number}", 64 << group, deep, 2 if group and not number else 1)


def _block(picture: Picture, name: str, width: int, deep: bool, stride: int) -> None:
    sides, depth = picture.sides, picture.depth
    ways = [(width, 1, 1), (width, 3, stride), (4 * width, 1, 1)] if deep else [(width, 3, stride), (width, 3, 1)]
    for number, (out, kernel, step) in enumerate(ways, 1):
        picture.conv(f"{name}.conv{number}", out, (kernel, kernel), step, (kernel // 2, kernel // 2))
        picture.norm(f"{name}.bn{number}")
    if depth != picture.depth or stride > 1:
        picture.sides, picture.depth, out = sides, depth, picture.depth
        picture.conv(f"{name}.downsample.0", out, (1, 1), stride)
        picture.norm(f"{name}.downsample.1")


def vgg16() -> list[Row]:
    """VGG-16 without batch norm, for pictures of 224 x 224."""
    picture, place = Picture((224, 224)), 0
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            picture.conv(f"features.{place}", width, (3, 3), 1, (1, 1), bias=True)
            place += 2
        picture.pool(2, 2)
        place += 1
    for place, inputs, out in ((0, 512 * 49, 4096), (3, 4096, 4096), (6, 4096, 1000)):
        picture.dense(f"classifier.{place}", inputs, out)
    return picture.rows
