"""The door: every command by name, and how refusals leave. Loads nothing heavy, so that help answers at once."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from gossamer.cli.calibrate import HELP as CALIBRATE
from gossamer.cli.calibrate import calibrate
from gossamer.cli.key import HELP as KEY
from gossamer.cli.key import key
from gossamer.cli.lab import HELP as LAB
from gossamer.cli.lab import lab
from gossamer.cli.list import HELP as LIST
from gossamer.cli.list import list_strategies
from gossamer.cli.lr_find import HELP as LR_FIND
from gossamer.cli.lr_find import lr_find
from gossamer.cli.profile import HELP as PROFILE
from gossamer.cli.profile import profile
from gossamer.cli.recipes import HELP as RECIPES
from gossamer.cli.recipes import recipes
from gossamer.cli.rehearse import HELP as REHEARSE
from gossamer.cli.rehearse import rehearse
from gossamer.cli.run import HELP as RUN
from gossamer.cli.run import Verbatim, run
from gossamer.cli.show import HELP as SHOW
from gossamer.cli.show import show
from gossamer.cli.simulate import HELP as SIMULATE
from gossamer.cli.simulate import simulate
from gossamer.cli.train import HELP as TRAIN
from gossamer.cli.train import train
from gossamer.cli.train_settings import NEWEST
from gossamer.cli.validate import HELP as VALIDATE
from gossamer.cli.validate import validate

HELP = """Train on many workers with any synchronisation strategy of the literature.

A strategy is an expression: a name from the catalogue, with options, or parts put together.

    gossamer list

    gossamer show 'local_sgd(every=8)' --workers 8

    gossamer rehearse --compare allreduce gossip_pull --plot demo.png

    gossamer train --strategy 'local_sgd(every=8)'
"""

CALLERS = (
    "gossamer.tasks.build",
    "gossamer.tasks.task",
    "gossamer.sim.",
    "gossamer.replica.",
    "gossamer.engine.profile",
)
KINDS = {"integer": "a whole number", "number": "a number", "float": "a number"}  # what typer says, what we say
INTERRUPTED = 130  # what a shell reports for Ctrl-C


class Door(TyperGroup):
    """Turns what was refused into a line on stderr and exit code 2; a fault of our own keeps its traceback.

    Its own help is plain: the frames around that of the commands take as long to load as everything else together.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "rich_markup_mode": None})

    def invoke(self, ctx: Any) -> Any:
        from gossamer.parts.refusal import Refused

        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (Refused, OSError) as error:
            if isinstance(error, OSError) and theirs(error):
                raise
            from gossamer.cli.screen import explain

            explain(error)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            print("gossamer: stopped", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None


class Command(TyperCommand):
    """A command whose help shows --help as the flag it is, without a type; a value of the wrong kind is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        typed = list(args)
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            option = getattr(error.param, "opts", [""])[-1]
            value = _value(typed, option)
            kind = next((ours for theirs, ours in KINDS.items() if f"valid {theirs}" in error.message), None)
            if value is None or kind is None:
                raise
            from gossamer.parts.refusal import Refused

            raise Refused(f"{ctx.info_name}: {option} must be {kind}, not {value!r}") from None

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)
        if option is not None:
            option.metavar = ""
        return option


class Resuming(Command):
    """A command whose --resume may stand without a value: it is the newest run then."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        bare = [place for place, word in enumerate(args) if word == "--resume" and _last_or_flag(args, place)]
        for place in reversed(bare):
            args = [*args[: place + 1], NEWEST, *args[place + 1 :]]
        return super().parse_args(ctx, args)


def _value(args: list[str], option: str) -> str | None:
    """What was last typed for an option."""
    after = {place + 1: word.partition("=") for place, word in enumerate(args) if word.split("=")[0] == option}
    said = [text if sign else args[place] for place, (_, sign, text) in after.items() if sign or place < len(args)]
    return said[-1] if said else None


def _last_or_flag(args: list[str], place: int) -> bool:
    return place + 1 == len(args) or args[place + 1].startswith("-")


def theirs(error: Exception) -> TracebackType | None:
    """The part of a traceback that lies in a task of the user's own: what tasks and players call and is not ours."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        here, there = (str(each.tb_frame.f_globals.get("__name__")) for each in (trace, trace.tb_next))
        trace = trace.tb_next
        if here.startswith(CALLERS) and not there.startswith("gossamer."):
            return trace
    return None


app = typer.Typer(cls=Door, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
app.command("lr-find", cls=Command, help=LR_FIND, short_help="A learning rate, by a range test.")(lr_find)
app.command("recipes", cls=Command, help=RECIPES, short_help="Published large-batch runs, and recipes after them.")(
    recipes
)
app.command("list", cls=Command, help=LIST, short_help="The catalogue: every named strategy and its paper.")(
    list_strategies
)
app.command(cls=Command, help=SHOW, short_help="What a step of a strategy does, sends and mixes.")(show)
app.command(cls=Command, help=REHEARSE, short_help="Train on imagined machines; compare strategies.")(rehearse)
app.command(cls=Command, help=SIMULATE, short_help="Time strategies on clusters of thousands, with intervals.")(
    simulate
)
app.command(cls=Command, help=PROFILE, short_help="How long a task computes here, as a workload file.")(profile)
app.command(cls=Command, help=CALIBRATE, short_help="A cluster and a workload from the journals of runs.")(calibrate)
app.command(cls=Command, help=VALIDATE, short_help="Predictions beside published measurements.")(validate)
app.command(cls=Resuming, help=TRAIN, short_help="Train on real worker processes of this host.")(train)
app.command(cls=Verbatim, help=RUN, short_help="Your script on many workers: torchrun with a strategy.")(run)
app.command(cls=Command, help=KEY, short_help="A new key, for a run on several hosts.")(key)
app.command(
    cls=Command,
    help=LAB,
    short_help="A command on several hosts, made of this machine.",
    context_settings={"allow_interspersed_args": False},  # what follows the command's name is the command's
)(lab)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"gossamer {version('gossamer')}")
        raise typer.Exit


@app.callback(help=HELP)
def gossamer(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Every command goes through here."""


def main() -> None:
    """The console entry point; of what went wrong in a task of the user's own, only that part is shown."""
    try:
        app(prog_name="gossamer")
    except Exception as error:
        if (trace := theirs(error)) is None:
            raise
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        sys.exit(1)
