"""A session: what one `prepare` made; hooks tell it of forwards and gradients. It knows courses, and no exchange."""

from __future__ import annotations

import atexit
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any
from weakref import ref

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd import Variable
from torch.autograd.function import BackwardCFunction
from torch.utils.data import DataLoader
from torch.utils.hooks import RemovableHandle

from gossamer.engine.fabrics import Fabric
from gossamer.engine.launch.slate import Slate
from gossamer.engine.lines import Lines, Said
from gossamer.engine.loop import gathering
from gossamer.engine.loop.course import Course
from gossamer.engine.loop.hooks import hook_model, hook_optimizer, hook_tensor
from gossamer.engine.loop.living import Living
from gossamer.engine.loop.loader import computed
from gossamer.engine.loop.lookout import Lookout
from gossamer.engine.loop.place import Place
from gossamer.engine.loop.strand import Strand
from gossamer.engine.reach import Reach
from gossamer.parts.refusal import Refused
from gossamer.parts.topology import Complete
from gossamer.parts.world import World
from gossamer.records import Event, Header, Journal, StepRecord
from gossamer.records.drift import Trail
from gossamer.strategy import AnyStrategy, slots

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
        self.scaler: torch.amp.GradScaler | None = None
        self.syncing, self.closing = True, False
        self.watches: list[Watch] = []
        self.events: list[Callable[[str, int], None]] = []
        self.journal: Journal | None = None
        self.lookout: Lookout | None = None
        # whether the others go on when a member is gone: no exchange waits for all, and all visits end with a loss
        carried = [strand.carrier for course in courses for strand in course.strands]
        self.survives = all(_survives(carrier, strategy) for carrier in carried)
        self.living = Living(self)
        self.lost: set[int] = set()  # members that died
        self._slate = Slate.found()
        for strand in [strand for course in courses for strand in course.strands]:
            if isinstance(strand.stepper.visits, Reach):
                strand.stepper.visits.missed = lambda member, step: self._miss(member, f" in step {step}")
            elif strand.stepper.visits is not None:
                strand.stepper.visits.service.missed = self._hear_of
        # who lets go of process groups when all members have closed it
        ends = [carrier.end for carrier in carried if carrier is not None]
        self.ends: list[Callable[[], None]] = [fabric.end, self.living.end, *ends]
        self._counts = (0, 0)  # samples of the batch that is computed: mine, and in all
        self._counted: tuple[int, Course] | None = None  # the last backward whose samples a course has counted
        self._unknown: Refused | None = None
        self._warned = False
        self._alike = all(type(ex.topology) is Complete for ex in slots(strategy))  # all hear the same average
        self._trails: dict[Course, Trail] = {}  # of what lossy exchanges came to beside the truth
        self._told: float | None = None  # what the next backward counts, where somebody said so
        self._spent = False
        self._weighed: list[RemovableHandle] = []
        self._graph: int | None = None  # the backward that is under way
        self._open: list[Course] = []

    @property
    def carried(self) -> str:
        """What carries this session's wires; visits by name where they go another way."""
        carrier = self.courses[0].strands[0].carrier
        return self.fabric.name + ("" if carrier is None or carrier.name is None else f", visits by {carrier.name}")

    def say(self, what: str, *, member: int | None = None, aloud: bool = True) -> None:
        """Tell whoever watches, and the journal, what is about this member or another."""
        if aloud:
            print(f"gossamer: {what}", file=sys.stderr, flush=True)
        for told in self.events:
            told(what, self.place.member if member is None else member)

    def _miss(self, member: int, when: str) -> None:
        """A member has died, and the others go on; whoever started it says so on the screen."""
        if self.survives and member not in self.lost:
            self.lost.add(member)
            self.say(f"rank {member} was lost{when}; the others go on", member=member, aloud=False)

    def _hear_of(self, said: Said) -> None:
        """Messages do not reach a member any more."""
        if self.survives and said.sender < self.size:
            self._miss(said.sender, "")
        else:
            print(f"gossamer: {said.why}", file=sys.stderr, flush=True)

    def part(self) -> None:
        """At the end of the script: hear the others out, unless this process fails, or another one did."""
        if not self.closing and not _failed():
            self._rest()

    def hook(self, models: Sequence[nn.Module]) -> None:
        """Put hooks on everything that trains."""
        for model in models:
            hook_model(self, model)
        for course in self.courses:
            hook_optimizer(self, course)
            for strand in course.strands:
                for place in strand.early:
                    hook_tensor(self, course, strand, place)

    def record(self, folder: str | Path | None) -> None:
        """Keep a journal of every step in this member's own file of a folder."""
        if folder is None:
            return
        self.journal = journal = Journal(Path(folder) / f"journal-{self.place.member}.jsonl", self.say)
        world, place, names = self.world, self.place, [type(course.optimizer).__name__ for course in self.courses]
        settings = {"fabric": self.carried, "hosts": place.told_hosts, "servers": place.told_servers}
        journal.write(
            Header("prepare", repr(self.strategy), world.size, world.seed, "own loop", ", ".join(names), 0, 0, settings)
        )
        began = time.perf_counter()
        self.watches.append(lambda _, record: journal.write(record))
        self.events.append(lambda what, who: journal.write(Event(time.perf_counter() - began, what, who)))

    def close(self) -> None:
        """Hear out what is under way, and give back what was made for this session; once, on all members."""
        if self.closing:
            return
        self._rest()
        atexit.unregister(self.part)
        if self.size > 1 and not self.survives and dist.is_initialized():  # where some survive, one may be gone
            with suppress(RuntimeError):  # somebody has ended already, and will not miss anything
                dist.barrier()
        for end in self.ends:
            end()
        self.place.groups.close()
        self._slate.close()

    def _rest(self) -> None:
        """Hear out what is under way, and serve the others until they are done too."""
        courses, self.closing = self.courses, True
        gathering.ended(self)
        gathering.come()
        if self.lookout is not None:
            self.lookout.rest()
        for strand in [strand for course in courses for strand in course.strands]:
            if isinstance(strand.carrier, Reach):  # nobody waits for this member at any of its gates
                strand.carrier.shelf.leave()
        for course in courses:
            for strand in course.strands:
                strand.stepper.close()
                if strand.carrier is not None:
                    strand.carrier.close()
        if self.lookout is not None:
            self.lookout.close()
        if self.journal is not None:
            self.journal.__exit__(None, None, None)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backwards inside exchange nothing; gradients gather as autograd adds them up."""
        before, self.syncing = self.syncing, False
        self._lay()
        try:
            yield
        finally:
            self.syncing = before

    def weigh(self, mine: float, all_: float) -> None:
        """Let the next backward's gradients count as `mine` of `all_`."""
        self._told, self._spent = (self.size * mine / all_ if all_ else 0.0), False
        self._lay()

    @property
    def scale(self) -> float:
        """My share of the batch in hand, times the workers: 1 where all have as many samples, or as was told."""
        if self._told is not None:
            return self._told
        if self._unknown is not None:
            raise self._unknown
        mine, everybody = self._counts
        return self.size * mine / everybody if everybody else 1.0

    def compute(self) -> None:
        """A forward takes a batch, whether it trains or not."""
        self._unknown = None
        try:
            self._counts = computed(self.loaders)
        except Refused as error:  # only if nobody says what it counts
            self._unknown = error

    def begin(self, courses: Sequence[Course]) -> None:
        """A forward begins: pass the gates of those it computes for."""
        if torch._C._current_graph_task_id() >= 0:  # computed once more for a backward that is under way
            return
        _latest[:] = [ref(self)]
        self.compute()
        self._open, self._graph = [], None
        if self._spent:  # a backward inside no_sync() has used what `weigh` told
            self._told, self._spent = None, False
        self._lay()
        for course in courses:
            course.begin()

    def arrived(self, course: Course, strand: Strand, place: int) -> None:
        """The gradient of a tensor is complete."""
        if not self.syncing:
            if self._unknown is not None and self._told is None:
                raise self._unknown
            course.gathered = self._spent = True
            self._count(course)
            return
        graph = torch._C._current_graph_task_id()
        if graph != self._graph or course not in self._open:
            self._enter(course, graph)
        course.arrived(strand, place)

    def _enter(self, course: Course, graph: int) -> None:
        """The first gradient of a course in a backward; its end is heard of by a callback of autograd's own."""
        if self._graph is None:
            _refuse_nested()
            self._graph = graph
            gathering.turn_to(self)
            Variable._execution_engine.queue_callback(self._over)
        elif self._graph != graph:
            raise Refused(*NESTED)
        self._count(course)
        course.open(1.0 if self._weighed else self.scale, self._scaled_by)
        self._open.append(course)

    def _scaled_by(self) -> float:
        """What the scaler, if there is one, multiplies losses by now."""
        return 1.0 if self.scaler is None else float(self.scaler.get_scale())

    def _count(self, course: Course) -> None:
        """Once a backward: of how many samples its gradient is the mean; weighed ones cannot be added up."""
        backward = (torch._C._current_graph_task_id(), course)
        if backward != self._counted:
            self._counted = backward
            course.counts(None if self._weighed or self._told is not None else self._counts[0])

    def _over(self) -> None:
        """The backward has ended: every course that took part is mixed, in the same order everywhere."""
        self._graph = None
        opened, self._open = self._open, []
        for course in self.courses:
            if course in opened:
                course.close()
        self._told = None

    def _lay(self) -> None:
        """Where gradients gather over backwards of different weights, each is weighed before it is added."""
        for handle in self._weighed:
            handle.remove()
        gathering = not self.syncing or any(course.gathered for course in self.courses)
        doubt = self._unknown is not None and self._told is None
        scale = self.scale if gathering and self.size > 1 and not doubt else 1.0
        courses = self.courses if scale != 1.0 else []
        weighed = [course.masters.weight(s.tensors[p]) for course in courses for s in course.strands for p in s.early]
        self._weighed = [tensor.register_hook(lambda g: g * scale) for tensor in weighed]  # type: ignore[no-untyped-call]

    def played(self, course: Course, record: StepRecord, scaled: bool) -> None:
        """A step of an optimizer is over: tell whoever watches, and say who was sick."""
        if course.sick and (course.alone or self.place.member == 0):
            self._say_sick(course, record, scaled)
        if course.edited and not self._warned:
            self._warned = True
            self.say("a parameter was changed in place; with route=sharded all workers share it: let one of them do it")
        self._slate.write(self.courses[0].step)
        if record.truth and (self.place.member == 0 or not self._alike):
            for words in self._trails.setdefault(course, Trail()).take(record.truth):
                self.say(f"step {record.step}: {words}")
        for watch in self.watches:
            watch(course, record)

    def _say_sick(self, course: Course, record: StepRecord, scaled: bool) -> None:
        """A scaler's overflow is no news for the screen: it looks for them."""
        who = dict.fromkeys(course.sick)
        all_ = len({member for member, _ in who}) == self.size > 1
        told = [f"rank {member}, parameter {name}" for member, name in who]
        where = f"all ranks, parameter {course.sick[0][1]}" if all_ else "; ".join(told)
        what = f"step {record.step}: NaN or infinity in a gradient ({where}); "
        what += "left out, the others go on" if course.alone and not course.spoilt else "applied on no rank"
        self.say(what, member=course.sick[0][0], aloud=not scaled)


def _survives(carrier: Lines | Reach | None, strategy: AnyStrategy) -> bool:
    """Whether nobody's death is the others': in memory the visitor acts alone, elsewhere hubs live with members, unless
    there are servers."""
    if carrier is None or not carrier.survives:
        return False
    served = not isinstance(carrier, Reach) and bool(carrier.servers)
    return isinstance(carrier, Reach) or all(ex.survives or (served and ex.hub) for ex in slots(strategy))


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


def latest() -> Session | None:
    """The session whose model computed last."""
    return _latest[0]() if _latest else None


_latest: list[ref[Session]] = []
NESTED = ("a backward inside a backward cannot be followed", "checkpoint(..., use_reentrant=False)")
_INNER = BackwardCFunction.apply.__code__  # python's frame around every backward of a function of one's own


def _refuse_nested() -> None:
    """Refuse a backward that another one's function has started: its end is not the end of the outer one."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code is _INNER:
            raise Refused(*NESTED)
