"""What is trained when the user brings nothing: digits, characters, idx files."""

from gossamer.tasks.build import build, tried
from gossamer.tasks.stream import Stream
from gossamer.tasks.task import Batch, Task, evaluate, smoothed

__all__ = ["Batch", "Stream", "Task", "build", "evaluate", "smoothed", "tried"]
