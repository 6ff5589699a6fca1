"""Images and labels in idx files, MNIST's format, plain or gzip, in a folder given by the user."""

from __future__ import annotations

import gzip
import zlib
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from gossamer.parts.refusal import Refused
from gossamer.tasks.models import image_model
from gossamer.tasks.task import Task, classified

UNSIGNED_BYTES = 8  # the only element type MNIST's files use
LARGEST = 2**31  # bytes; a header that asks for more is not believed


def idx(path: str, seed: int = 0, model: str = "mlp", hidden: int = 128) -> Task:
    """The folder must hold train and t10k images and labels under their MNIST names."""
    train = _pair(Path(path), "train")
    test = _pair(Path(path), "t10k")
    height, width = train[0].shape[-2:]
    if test[0].shape[-2:] != (height, width):
        other = " x ".join(map(str, test[0].shape[-2:]))
        raise Refused(f"idx: {path}: images to train on are {height} x {width}, those to test on {other}")
    classes = int(max(train[1].max(), test[1].max())) + 1
    return Task(image_model(model, height, width, hidden, classes, seed), train, test, classified)


def _pair(folder: Path, part: str) -> tuple[Tensor, Tensor]:
    images = read(_find(folder, f"{part}-images-idx3-ubyte"), 3)
    labels = read(_find(folder, f"{part}-labels-idx1-ubyte"), 1)
    if len(images) != len(labels):
        raise Refused(f"idx: {folder}: {len(images):,} {part} images do not fit {len(labels):,} labels")
    return images.unsqueeze(1).float() / 255.0, labels.long()


def _find(folder: Path, name: str) -> Path:
    for candidate in (folder / name, folder / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    raise Refused(f"idx: {folder} holds neither {name} nor {name}.gz", "a folder with the four files of MNIST")


def read(path: Path, dims: int) -> Tensor:
    """The array of one idx file, refused by name when it is torn or of another kind."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            head = file.read(4 + 4 * dims)
            if len(head) < 4 + 4 * dims or head[:4] != bytes((0, 0, UNSIGNED_BYTES, dims)):
                raise Refused(f"idx: {path} is not an idx file of bytes with {dims} dimensions")
            shape = [int.from_bytes(head[4 + 4 * d : 8 + 4 * d]) for d in range(dims)]
            if prod(shape) > LARGEST:
                raise Refused(f"idx: {path} claims {prod(shape)} bytes, more than {LARGEST}")
            body = file.read(prod(shape) + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise Refused(f"idx: {path} cannot be read: {error}") from None
    if len(body) != prod(shape) or not body:
        raise Refused(f"idx: {path} holds {len(body)} bytes where its header says {prod(shape)}")
    return torch.frombuffer(bytearray(body), dtype=torch.uint8).view(shape)
