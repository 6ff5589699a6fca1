"""A character model over the source text of Python's own standard library."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import torch
from torch import nn

from gossamer.parts.refusal import Refused, whole
from gossamer.tasks.models import bounded
from gossamer.tasks.task import Task, classified

FILES = (
    "argparse",
    "ast",
    "calendar",
    "codecs",
    "configparser",
    "csv",
    "dataclasses",
    "datetime",
    "difflib",
    "enum",
)
VOCABULARY = 128  # plain ASCII; anything else reads as a question mark
WIDTH = 16  # numbers that stand for one character


def characters(seed: int = 0, context: int = 16, hidden: int = 128, files: int = len(FILES)) -> Task:
    """Predict the next character from the `context` before it; the last tenth of the text is held out."""
    for name, value, most in (("context", context, 4096), ("files", files, len(FILES))):
        whole("characters", name, value, 1, most)
    bounded("characters", WIDTH * context, hidden)
    text = _text(files)
    if len(text) < 100 * context:
        raise Refused("characters: the standard library's source files are not here", "the digits task")
    codes = torch.tensor(list(text.encode("ascii", "replace")), dtype=torch.int64)
    windows = codes.unfold(0, context + 1, 3)
    cut = len(windows) * 9 // 10
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = nn.Sequential(
            nn.Embedding(VOCABULARY, WIDTH),
            nn.Flatten(),
            nn.Linear(WIDTH * context, hidden),
            nn.ReLU(),
            nn.Linear(hidden, VOCABULARY),
        )
    train, test = windows[:cut], windows[cut:]
    return Task(model, (train[:, :-1], train[:, -1]), (test[:, :-1], test[:, -1]), classified)


def _text(files: int) -> str:
    library = Path(sysconfig.get_paths()["stdlib"])
    paths = [library / f"{name}.py" for name in FILES[:files]]
    return "\n".join(path.read_text("utf-8", "replace") for path in paths if path.is_file())
