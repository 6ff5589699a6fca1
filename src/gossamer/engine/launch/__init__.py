"""Starting and stopping workers: on one host for our own commands, through torch's elastic launcher for anybody's."""

from gossamer.engine.launch.failure import WorkerFailed
from gossamer.engine.launch.workers import Workers

__all__ = ["WorkerFailed", "Workers"]
