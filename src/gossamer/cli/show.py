"""`gossamer show`: what a step of a strategy does, what it sends, and how fast it mixes, worked out without running."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gossamer.cli.sight import Sight
    from gossamer.strategy.describe import Load

HELP = """Show what a step of a strategy does: its phases, rounds, bytes and mixing. Nothing is run.

Bytes are worked out on a stand-in model of that size in 32-bit floats: eight square matrices, each with its bias, \
and the rest as one vector. A codec that looks at shapes, or a selection by name, will differ on a real model.

The spectral gap is 1 - s ** (1/k), where s is the second largest singular value of the product of the mixing \
matrices of k rounds, one period of the topology; where partners are drawn at random it is the mean-square one over \
many rounds. A delay is not counted in it. \
1 means that all agree after a period, 0 that some never hear of others. It is worked out for up to 256 workers.

    gossamer show allreduce

    gossamer show 'allreduce(torus)' --workers 4096

    gossamer show 'powersgd(rank=4)' --workers 16 --link 10Gbit --json
"""

PAYS_NOTE = "whether a codec pays is not said yet: the cost of encoding is not measured"


def show(
    expression: Annotated[str, typer.Argument(metavar="EXPR", help="A strategy, as in 'local_sgd(every=8)'.")],
    workers: Annotated[int, typer.Option(help="How many workers.")] = 8,
    size: Annotated[str, typer.Option("--bytes", metavar="BYTES", help="Model size: 100MB, 1GiB, 4e6.")] = "100MB",
    link: Annotated[
        str | None, typer.Option(metavar="RATE", help="Price the exchanges on a link: 1Gbit, 100Mbit/s, 125MB/s.")
    ] = None,
    latency: Annotated[str, typer.Option(metavar="SECONDS", help="Of that link: 100us, 1ms, 0.05.")] = "100us",
    seed: Annotated[int, typer.Option(help="Of topologies that draw their partners.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="One JSON object on stdout.")] = False,
) -> None:
    """Work it out, then print it or write it as JSON."""
    from gossamer.cli.sight import look

    sight = look(expression, workers, seed, size, link, latency)
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
        "pays": None,
        "pays_below_bits_per_second": None,
        "pays_note": PAYS_NOTE,
        "model_bytes": sum(tag.bytes for tag in sight.tags),
        "period": sight.timeline.periods[-1],
        "steps": [
            {"first": row.first, "last": row.last, "phases": row.marks} for row in sight.timeline.rows if row.marks
        ],
        "steps_left_out": any(row.cut for row in sight.timeline.rows),
        "exchanges": [_told_load(sight, load) for load in sight.loads],
        "notes": list(sight.notes),
    }


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
        "spectral_gap": sight.gaps[load.slot],
        "mixing_matrix": None if matrix is None else matrix.tolist(),
    }
