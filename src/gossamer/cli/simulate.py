"""`gossamer simulate`: what a strategy would do on a cluster one does not have, over worker counts, with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gossamer.cli.rehearse import FAILED

if TYPE_CHECKING:
    from gossamer.cli.simulate_report import Answer
    from gossamer.cli.simulate_request import Question

HELP = """Simulate a strategy on a described cluster: seconds, bytes and time to accuracy, each with its interval.

The strategy that trains is timed, without numbers, on up to a million workers. Clusters and workloads are files, or \
ours by name; `gossamer profile` measures a workload of your own.

    gossamer simulate --strategy 'allreduce(torus)' --cluster abci --workload resnet50 --workers 2048 --batch 65536

    gossamer simulate --compare allreduce 'local_sgd(every=8)' ssp --cluster lan-1gbit --workload vgg16 --workers 4

    gossamer simulate --cluster mine.toml --workload mine.toml --workers 64 --plot scaling.html --trace steps.json

    gossamer simulate --list
"""
_WHERE, _WHAT, _OUT = "The machines", "The run", "What comes out"


def simulate(
    expressions: Annotated[
        list[str] | None, typer.Argument(metavar="EXPR", help="A strategy; several with --compare.")
    ] = None,
    strategy: Annotated[
        str | None, typer.Option(metavar="EXPR", help="The strategy, if not given first. Default: allreduce.")
    ] = None,
    compare: Annotated[bool, typer.Option("--compare", metavar="", help="Set several side by side.")] = False,
    cluster: Annotated[
        str | None, typer.Option(metavar="FILE|NAME", help="As abci, or mine.toml.", rich_help_panel=_WHERE)
    ] = None,
    workload: Annotated[
        str | None, typer.Option(metavar="FILE|NAME", help="As resnet50, or mine.toml.", rich_help_panel=_WHAT)
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="The most; smaller counts stand above. Default: all seats, up to 4,096.")
    ] = None,
    least: Annotated[
        int | None, typer.Option("--from", metavar="N", help="The fewest workers. Default: one host.")
    ] = None,
    batch: Annotated[
        float | None,
        typer.Option(help="Of all workers together. Default: each has the largest measured.", rich_help_panel=_WHAT),
    ] = None,
    fixed_batch: Annotated[
        bool,
        typer.Option("--fixed-batch", metavar="", help="Fewer workers have the same batch.", rich_help_panel=_WHAT),
    ] = False,
    noise_scale: Annotated[
        float | None,
        typer.Option(metavar="B", help="As `train` saw it: the goal's critical batch.", rich_help_panel=_WHAT),
    ] = None,
    servers: Annotated[
        int, typer.Option(help="Hosts more, that keep the hubs. Default: workers do.", rich_help_panel=_WHERE)
    ] = 0,
    trouble: Annotated[
        str | None, typer.Option(metavar="SCRIPT", help="As slow(rank=1, factor=5).", rich_help_panel=_WHERE)
    ] = None,
    seed: Annotated[int, typer.Option(help="Of every draw.", rich_help_panel=_WHAT)] = 0,
    steps: Annotated[int, typer.Option(help="That are timed.", rich_help_panel=_WHAT)] = 100,
    as_json: Annotated[
        bool, typer.Option("--json", metavar="", help="One JSON object on stdout.", rich_help_panel=_OUT)
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Seconds and efficiency by workers: .png or .html.", rich_help_panel=_OUT),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="The first steps, or a period, for Perfetto.", rich_help_panel=_OUT),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", metavar="", help="Write over a trace that is there.", rich_help_panel=_OUT)
    ] = False,
    listing: Annotated[
        bool, typer.Option("--list", metavar="", help="Our clusters and workloads.", rich_help_panel=_OUT)
    ] = False,
) -> None:
    """Read the question, answer it, report."""
    if listing:
        from gossamer.cli.simulate_list import show

        show(as_json)
        return
    _writable(plot, trace, force)
    from gossamer.cli.request import misfortune
    from gossamer.cli.simulate_request import Question, local, parts
    from gossamer.sim.cluster import Cluster
    from gossamer.sim.workload import Workload

    machines = Cluster.load(_named("cluster", cluster))
    model = Workload.load(_named("workload", workload))
    model = model if noise_scale is None else model.noisy(noise_scale)
    count = min(machines.seats, 4096) if workers is None else workers
    question = Question(
        parts(_texts(expressions or [], strategy, compare)), machines, model, (str(cluster), str(workload)), count,
        local(model, batch, count), least, fixed_batch, servers, misfortune(trouble), seed, steps,
    )  # fmt: skip
    answer = _answer(question, trace is not None)
    _report(answer, plot, trace, as_json)
    if any(row.forecast.stopped for row in answer.rows):
        raise typer.Exit(FAILED)


def _named(kind: str, given: str | None) -> str:
    from gossamer.parts.refusal import Refused
    from gossamer.sim.description import names

    if not given:
        raise Refused(f"simulate: --{kind} is missing: a file, or one of {', '.join(names(kind))}", f"--{kind} FILE")
    return given


def _texts(given: list[str], strategy: str | None, compare: bool) -> list[str]:
    from gossamer.parts.refusal import Refused

    texts = [*([strategy] if strategy is not None else []), *given]
    if compare and len(set(texts)) < 2:
        raise Refused("--compare needs strategies to compare", "--compare allreduce 'local_sgd(every=8)'")
    if len(texts) > 1 and not compare:
        raise Refused("several strategies need --compare", "--compare " + " ".join(f"'{text}'" for text in texts))
    return texts or ["allreduce"]


def _writable(plot: Path | None, trace: Path | None, force: bool) -> None:
    """Refuse now what could not be written later."""
    from gossamer.parts.refusal import Refused

    if plot is not None:
        from gossamer.cli.plot import KINDS, check

        check(plot, (*KINDS, ".html"))
    if trace is not None:
        from gossamer.cli.screen import writable

        if trace.suffix.lower() != ".json" or trace.is_dir():
            raise Refused(f"trace: {trace} does not end in .json", str(trace.with_suffix(".json")))
        if trace.exists() and not force:
            raise Refused(f"simulate: {trace} is there already", "another --trace, or --force")
        writable(trace)


def _answer(question: Question, drawn: bool) -> Answer:
    from gossamer.cli.simulate_progress import Ticker
    from gossamer.cli.simulate_report import Answer
    from gossamer.cli.simulate_request import Row

    with Ticker(len(question.counts()) * len(question.parts)) as ticker:
        found = list(question.answer(drawn, ticker.tell))
    rows = [each for each in found if isinstance(each, Row)]
    return Answer(question, rows, [each for each in found if not isinstance(each, Row)])


def _report(answer: Answer, plot: Path | None, trace: Path | None, as_json: bool) -> None:
    if plot is not None:
        from gossamer.cli import simulate_plot

        simulate_plot.draw(answer, plot)
    said = None
    if trace is not None:
        from gossamer.cli import simulate_trace

        simulate_trace.write(answer, trace)
        said = simulate_trace.note(answer.question)
    if as_json:
        from gossamer.cli.screen import put_json
        from gossamer.cli.simulate_report import told

        put_json({**told(answer, plot, trace), "trace_note": said})
        return
    from gossamer.cli import simulate_screen

    simulate_screen.draw(answer, plot, trace, said)
