"""A session: the hooks that let the user's own loop play a strategy. It knows models and courses, and no exchange."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MethodType, TracebackType
from typing import Any
from weakref import ref

import torch
from torch import Tensor, nn
from torch.autograd import Variable
from torch.utils.data import DataLoader

from gossamer.engine.fabrics import Fabric
from gossamer.engine.loop.course import Course
from gossamer.engine.loop.loader import latest
from gossamer.engine.loop.lookout import Lookout
from gossamer.engine.loop.place import Place
from gossamer.parts.refusal import Refused
from gossamer.parts.world import World
from gossamer.records import Event, Header, Journal, StepRecord
from gossamer.strategy import AnyStrategy

Watch = Callable[[Course, StepRecord], None]  # called after each step of an optimizer


class Session:
    """What one `prepare` made of models and optimizers; hooks call it, and it calls the courses."""

    def __init__(
        self,
        courses: Sequence[Course],
        fabric: Fabric,
        place: Place,
        strategy: AnyStrategy,
        world: World,
    ) -> None:
        self.courses, self.fabric, self.place = list(courses), fabric, place
        self.strategy, self.world, self.size = strategy, world, place.size
        self.loaders: list[DataLoader[Any]] = []
        self.syncing, self.closing = True, False
        self.watches: list[Watch] = []
        self.events: list[Callable[[str], None]] = []
        self.lookout: Lookout | None = None
        self._weight: Callable[[], float] = self._counted
        self._graph: int | None = None  # the backward that is under way
        self._open: list[Course] = []

    def say(self, what: str) -> None:
        """Tell whoever watches, and the journal."""
        print(f"gossamer: {what}", file=sys.stderr, flush=True)
        for told in self.events:
            told(what)

    def part(self) -> None:
        """At the end of the script: hear the others out, unless this process fails, or another one did."""
        if not self.closing and not _failed():
            self.close()

    def hook(self, models: Sequence[nn.Module]) -> None:
        """Put hooks on everything that trains."""
        for model in models:
            self._hook_model(model)
        for course in self.courses:
            self._hook_optimizer(course)
            for strand in course.strands:
                for place in strand.early:
                    self._hook_tensor(course, strand.tensors[place], place, course.strands.index(strand))

    def record(self, folder: str | Path | None) -> None:
        """Keep a journal of every step in this member's own file of a folder."""
        if folder is None:
            return
        journal = Journal(Path(folder) / f"journal-{self.place.member}.jsonl")
        world, names = self.world, [type(course.optimizer).__name__ for course in self.courses]
        settings = {"fabric": self.fabric.name}
        journal.write(
            Header("prepare", repr(self.strategy), world.size, world.seed, "own loop", ", ".join(names), 0, 0, settings)
        )
        began = time.perf_counter()
        self.watches.append(lambda _, record: journal.write(record))
        self.events.append(lambda what: journal.write(Event(time.perf_counter() - began, what, self.place.member)))

    def close(self) -> None:
        """Hear out what is under way, and serve the others until they are done too; once."""
        courses, self.closing = ([], True) if self.closing else (self.courses, True)
        if self.lookout is not None:
            self.lookout.close()
        for course in courses:
            for strand in course.strands:
                strand.stepper.close()

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backwards inside exchange nothing; gradients gather as autograd adds them up."""
        before, self.syncing = self.syncing, False
        try:
            yield
        finally:
            self.syncing = before

    def weigh(self, mine: float, all_: float) -> None:
        """Let the next backward's gradients count as `mine` of `all_`."""
        scale = self.size * mine / all_
        self._weight = lambda: scale

    def _counted(self) -> float:
        """My share of the batch in hand, times the workers: 1 where all have as many samples."""
        mine, everybody = latest(self.loaders)
        return self.size * mine / everybody if everybody else 1.0

    def _hook_model(self, model: nn.Module) -> None:
        owner = ref(model)
        held = {id(p) for p in model.parameters()}
        courses = [c for c in self.courses if any(id(t) in held for s in c.strands for t in s.tensors)]

        def begin(module: nn.Module, _: object) -> None:
            if torch.is_grad_enabled() and module is owner():  # a copy of the model carries the hook along
                self._open, self._graph = [], None
                for course in courses:
                    course.begin()

        model.register_forward_pre_hook(begin)
        vars(model)["no_sync"] = self.no_sync
        vars(model)["module"] = model

    def _hook_tensor(self, course: Course, tensor: Tensor, place: int, number: int) -> None:
        strand = course.strands[number]

        def arrived(_: Tensor) -> None:
            if not self.syncing:
                return
            if course not in self._open:
                self._enter(course)
            strand.arrived(place, course.step)

        tensor.register_post_accumulate_grad_hook(arrived)  # type: ignore[no-untyped-call]

    def _enter(self, course: Course) -> None:
        """The first gradient of a course in a backward; its end is heard of by a callback of autograd's own."""
        graph = torch._C._current_graph_task_id()
        if self._graph is None:
            self._graph = graph
            Variable._execution_engine.queue_callback(self._over)
        elif self._graph != graph:
            raise Refused("a backward inside a backward cannot be followed", "checkpoint(..., use_reentrant=False)")
        course.open(self._weight())
        self._open.append(course)

    def _over(self) -> None:
        """The backward has ended: every course that took part is mixed, in the same order everywhere."""
        self._graph = None
        opened, self._open = self._open, []
        for course in self.courses:
            if course in opened:
                course.close()
        self._weight = self._counted

    def _hook_optimizer(self, course: Course) -> None:
        optimizer = course.optimizer
        inner = optimizer.step

        def step(_: torch.optim.Optimizer, closure: object = None) -> None:
            if closure is not None:
                raise Refused("optimizer.step(closure) would compute in the midst of an exchange", "step() without one")
            _unscale(optimizer)
            record = course.finish(inner)
            for watch in self.watches:
                watch(course, record)

        def add(_: torch.optim.Optimizer, held: dict[str, Any]) -> None:
            raise Refused(
                "add_param_group: tensors are laid out when prepared", "prepare(...) after the last one is added"
            )

        flag = getattr(inner, "_wrapped_by_lr_sched", None)
        if flag is not None:
            step._wrapped_by_lr_sched = flag  # type: ignore[attr-defined]
        optimizer.step = MethodType(step, optimizer)  # type: ignore[method-assign]
        optimizer.add_param_group = MethodType(add, optimizer)  # type: ignore[method-assign]
        optimizer._step_supports_amp_scaling = True  # type: ignore[attr-defined]  # a scaler must not skip our step


_ends: list[BaseException] = []


def _failed() -> bool:
    """Whether an exception that nobody caught ends this process."""
    return bool(_ends)


def watch_for_failure() -> None:
    """Notice an uncaught exception: then nobody may be waited for at the end."""
    before = sys.excepthook

    def note(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        _ends.append(error)
        before(kind, error, trace)

    sys.excepthook = note


def _unscale(optimizer: torch.optim.Optimizer) -> None:
    """Where torch's GradScaler left it to us, divide its scale out."""
    scale = getattr(optimizer, "grad_scale", None)
    if scale is not None:
        inverse = scale.double().reciprocal().float()
        for held in optimizer.param_groups:
            for tensor in held["params"]:
                if tensor.grad is not None:
                    tensor.grad.mul_(inverse.to(tensor.grad.device))
