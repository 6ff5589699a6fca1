"""Layers of InceptionV3, as `layers` has those of the other models of pictures. Names and order are torchvision's."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.layers import Picture, Row

Way = tuple[int, tuple[int, int]]  # channels and kernel of a convolution; one that strides has no padding
LONG, HIGH = (1, 7), (7, 1)
DOUBLE: list[Way] = [(64, (1, 1)), (96, (3, 3)), (96, (3, 3))]


def inception() -> list[Row]:
    """InceptionV3 for pictures of 299 x 299, with the auxiliary head that it trains with."""
    picture = Picture((299, 299))
    _conv(picture, "Conv2d_1a_3x3", 32, (3, 3), 2)
    _conv(picture, "Conv2d_2a_3x3", 32, (3, 3), pad=False)
    _conv(picture, "Conv2d_2b_3x3", 64, (3, 3))
    picture.pool(3, 2)
    _conv(picture, "Conv2d_3b_1x1", 80, (1, 1))
    _conv(picture, "Conv2d_4a_3x3", 192, (3, 3), pad=False)
    picture.pool(3, 2)
    for letter, pooled in (("b", 32), ("c", 64), ("d", 64)):
        small = [("1x1", [(64, (1, 1))]), ("5x5", [(48, (1, 1)), (64, (5, 5))]), ("3x3dbl", DOUBLE)]
        _mixed(picture, f"Mixed_5{letter}", small, pooled)
    _mixed(picture, "Mixed_6a", [("3x3", [(384, (3, 3))]), ("3x3dbl", DOUBLE)], None)
    for letter, width in (("b", 128), ("c", 160), ("d", 160), ("e", 192)):
        ways = [(width, (1, 1)), (width, LONG), (192, HIGH)]
        longer = [(width, (1, 1)), (width, HIGH), (width, LONG), (width, HIGH), (192, LONG)]
        _mixed(picture, f"Mixed_6{letter}", [("1x1", [(192, (1, 1))]), ("7x7", ways), ("7x7dbl", longer)], 192)
    _head(picture)
    last = [(192, (1, 1)), (192, LONG), (192, HIGH), (192, (3, 3))]
    _mixed(picture, "Mixed_7a", [("3x3", [(192, (1, 1)), (320, (3, 3))]), ("7x7x3", last)], None)
    for letter in "bc":
        _wide(picture, f"Mixed_7{letter}")
    picture.dense("fc", 2048, 1000)
    return picture.rows


def _conv(picture: Picture, name: str, out: int, kernel: tuple[int, int], stride: int = 1, *, pad: bool = True) -> None:
    around = (kernel[0] // 2, kernel[1] // 2) if pad and stride == 1 else (0, 0)
    picture.conv(f"{name}.conv", out, kernel, stride, around)
    picture.norm(f"{name}.bn")


def _mixed(picture: Picture, name: str, branches: Sequence[tuple[str, Sequence[Way]]], pooled: int | None) -> None:
    """Branches side by side; without a convolution behind the pooling, every branch halves the picture at its end."""
    sides, depth, total = picture.sides, picture.depth, 0
    for branch, ways in branches:
        picture.sides, picture.depth = sides, depth
        for number, (out, kernel) in enumerate(ways, 1):
            stride = 2 if pooled is None and number == len(ways) else 1
            many = f"_{number}" if len(ways) > 1 else ""
            _conv(picture, f"{name}.branch{branch}{many}", out, kernel, stride)
        total += picture.depth
    if pooled is None:
        picture.depth = total + depth
        return
    picture.depth = depth
    _conv(picture, f"{name}.branch_pool", pooled, (1, 1))
    picture.depth = total + pooled


def _wide(picture: Picture, name: str) -> None:
    """The last blocks, whose branches part once more."""
    depth = picture.depth
    _conv(picture, f"{name}.branch1x1", 320, (1, 1))
    for branch, ways in (("3x3", [(384, (1, 1))]), ("3x3dbl", [(448, (1, 1)), (384, (3, 3))])):
        picture.depth = depth
        for number, (out, kernel) in enumerate(ways, 1):
            _conv(picture, f"{name}.branch{branch}_{number}", out, kernel)
        for letter, kernel in (("a", (1, 3)), ("b", (3, 1))):
            picture.depth = 384
            _conv(picture, f"{name}.branch{branch}_{len(ways) + 1}{letter}", 384, kernel)
    picture.depth = depth
    _conv(picture, f"{name}.branch_pool", 192, (1, 1))
    picture.depth = 2048


def _head(picture: Picture) -> None:
    """The auxiliary head, beside the way of the picture."""
    sides, depth = picture.sides, picture.depth
    picture.pool(5, 3)
    _conv(picture, "AuxLogits.conv0", 128, (1, 1))
    _conv(picture, "AuxLogits.conv1", 768, (5, 5), pad=False)
    picture.dense("AuxLogits.fc", 768, 1000)
    picture.sides, picture.depth = sides, depth
