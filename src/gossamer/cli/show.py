"""`gossamer show`: what a step of a strategy does, what it sends, and how fast it mixes, worked out without running."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gossamer.cli.sight import Sight
    from gossamer.strategy.describe import Load

HELP = """Show what a step of a strategy does: its phases, rounds, bytes and mixing; with a codec, whether it pays.

Nothing is run, but for one thing: with --link or --task a codec's writing and reading is timed on this machine, on \
random numbers, one thread. It pays where what it spares on the link takes longer than that.

Bytes are worked out on a stand-in model of that size in 32-bit floats: eight square matrices, each with its bias, \
and the rest as one vector. A codec that looks at shapes, or a selection by name, will differ on a real model.

The spectral gap is 1 - s ** (1/k), where s is the second largest singular value of the product of the mixing \
matrices of k rounds, one period of the topology; where partners are drawn at random it is the mean-square one over \
many rounds. A delay is not counted in it. \
1 means that all agree after a period, 0 that some never hear of others. It is worked out for up to 256 workers.

    gossamer show allreduce

    gossamer show 'allreduce(torus)' --workers 4096

    gossamer show 'powersgd(rank=4)' --workers 16 --link 10Gbit --json

    gossamer show one_bit --workers 4 --task digits --link 100Mbit
"""

UNWEIGHED = "whether a codec pays is not said without --link or --task: they have its cost measured"
WEIGHED = "writing and reading were timed on this machine, with one thread"
PLAIN = "nothing is written in fewer bytes"


def show(
    expression: Annotated[str, typer.Argument(metavar="EXPR", help="A strategy, as in 'local_sgd(every=8)'.")],
    workers: Annotated[int, typer.Option(help="How many workers.")] = 8,
    size: Annotated[str, typer.Option("--bytes", metavar="BYTES", help="Model size: 100MB, 1GiB, 4e6.")] = "100MB",
    link: Annotated[
        str | None, typer.Option(metavar="RATE", help="Price the exchanges on a link: 1Gbit, 100Mbit/s, 125MB/s.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(metavar="NAME", help="Take a task's own model instead of a stand-in: digits.")
    ] = None,
    latency: Annotated[str, typer.Option(metavar="SECONDS", help="Of that link: 100us, 1ms, 0.05.")] = "100us",
    seed: Annotated[int, typer.Option(help="Of topologies that draw their partners.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="One JSON object on stdout.")] = False,
) -> None:
    """Work it out, then print it or write it as JSON."""
    from gossamer.cli.sight import look

    sight = look(expression, workers, seed, size, link, latency, task)
    if as_json:
        from gossamer.cli.screen import put_json

        put_json(_told(sight))
    else:
        from gossamer.cli.show_screen import draw

        draw(sight)


def _told(sight: Sight) -> dict[str, object]:
    from dataclasses import asdict

    from gossamer.strategy import position

    gaps = [gap for gap in sight.gaps if gap is not None]
    return {
        "strategy": repr(sight.strategy),
        "workers": sight.world.size,
        "position": asdict(position(sight.strategy)),
        "rounds": sight.rounds,
        "bytes_sent_per_member": sight.sent,
        "bytes_sent_per_member_per_step": sight.sent_per_step,
        "spectral_gap": min(gaps) if gaps else None,
        "pays": sight.pays,
        "pays_below_bits_per_second": _finite(sight.pays_below),
        "pays_note": _note(sight),
        "task": sight.task,
        "model_bytes": sum(tag.bytes for tag in sight.tags),
        "period": sight.timeline.periods[-1],
        "steps": [
            {"first": row.first, "last": row.last, "phases": row.marks} for row in sight.timeline.rows if row.marks
        ],
        "steps_left_out": any(row.cut for row in sight.timeline.rows),
        "exchanges": [_told_load(sight, load) for load in sight.loads],
        "notes": list(sight.notes),
    }


def _note(sight: Sight) -> str:
    if not any(load.exchange.codec.compresses for load in sight.loads):
        return PLAIN
    return UNWEIGHED if sight.balances is None else WEIGHED


def _finite(number: float | None) -> float | None:
    """JSON knows no infinity: a codec that pays on every link has no bound."""
    return None if number == float("inf") else number


def _told_load(sight: Sight, load: Load) -> dict[str, object]:
    matrix = sight.matrices[load.slot]
    return {
        "slot": load.slot,
        "expression": repr(load.exchange),
        "first_step": load.first,
        "last_step": load.last,
        "every": load.exchange.synchrony.every,
        "rounds": load.rounds,
        "wire_bytes": [[wire.low, wire.likely, wire.high] for wire in load.wires],
        "bytes_sent_per_member": load.sent.likely,
        "bytes_sent_per_member_bounds": [load.sent.low, load.sent.high],
        "bytes_sent_per_member_per_step": load.per_step,
        "bytes_answered_by_hub": load.answered,
        "seconds_on_link": sight.seconds(load),
        "cost": _told_cost(sight, load.slot),
        "spectral_gap": sight.gaps[load.slot],
        "mixing_matrix": None if matrix is None else matrix.tolist(),
    }


def _told_cost(sight: Sight, slot: int) -> dict[str, object] | None:
    """What the codec of an exchange costs and spares, where that was measured."""
    for each in sight.balances or ():
        if each.slot == slot:
            coded, dense = (None, None) if sight.link is None else each.seconds(sight.link, sight.latency)
            return {
                "encode_seconds": each.cost.write,
                "decode_seconds": each.cost.read,
                "seconds_with_codec": coded,
                "seconds_dense": dense,
                "pays_below_bits_per_second": _finite(each.below(sight.latency)),
            }
    return None
