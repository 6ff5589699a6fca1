"""What the links of a lab carried, as a table, and whether that is what the run recorded."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from gossamer.cli.screen import aside
from gossamer.lab import Host, Traffic
from gossamer.lab.meter import WITHIN, Reading
from gossamer.parts.units import told_bytes, told_rate, told_seconds


@dataclass(frozen=True)
class Row:
    """A host, what its link carried, and what its journals say left it, if they say anything."""

    host: Host
    traffic: Traffic
    recorded: int | None

    def agreed(self, spare: int) -> bool:
        """Whether the link carried what was recorded."""
        return self.recorded is None or Reading(self.host.index, self.recorded, self.traffic.sent).agreed(WITHIN, spare)

    def busy(self, bits: int, seconds: float) -> float:
        """The share of its rate that a link was used, in the busier direction."""
        return max(self.traffic.sent, self.traffic.received) * 8 / (bits * seconds)


def put(rows: Sequence[Row], bits: int | None, seconds: float, spare: int, *, judged: bool) -> bool:
    """Print the table on stderr; whether all agree. A run that failed is not judged: its records stop early."""
    _table(rows, bits, seconds, spare if judged else None)
    wrong = [row for row in rows if not row.agreed(spare)] if judged else []
    for row in wrong:
        said = f"{row.traffic.sent:,} bytes left it and its journals say {row.recorded:,} crossed"
        print(f"gossamer: host {row.host.index}: {said}; more than {_bound(spare)} apart", file=sys.stderr)
    return not wrong


def _bound(spare: int) -> str:
    return f"{WITHIN:.0%} and {told_bytes(spare)} for starting up"


def _table(rows: Sequence[Row], bits: int | None, seconds: float, spare: int | None) -> None:
    from rich.table import Table
    from rich.text import Text

    recorded = any(row.recorded is not None for row in rows)
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("host", style="cyan")
    table.add_column("address")
    for title in ("sent", *(["recorded"] if recorded else []), "received", "busy"):
        table.add_column(title, justify="right")
    for row in rows:
        wrong = spare is not None and not row.agreed(spare)
        table.add_row(*_cells(row, bits, seconds, recorded), style="bold red" if wrong else None)
    console = aside()
    console.print(table)
    rate = "links as fast as they come" if bits is None else f"links of {told_rate(bits / 8)}"
    held = f"; sent and recorded agree within {_bound(spare)}" if recorded and spare is not None else ""
    if any(spare is not None and not row.agreed(spare) for row in rows):
        held = ""
    console.print(Text(f"{told_seconds(seconds)}, {rate}; bytes with all headers{held}", style="dim"))


def _cells(row: Row, bits: int | None, seconds: float, recorded: bool) -> list[str]:
    said = ["-" if row.recorded is None else told_bytes(row.recorded)] if recorded else []
    busy = "-" if bits is None else f"{row.busy(bits, seconds):.0%}"
    sent, received = told_bytes(row.traffic.sent), told_bytes(row.traffic.received)
    return [str(row.host.index), row.host.address, sent, *said, received, busy]
