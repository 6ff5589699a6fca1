"""`gossamer validate`: predictions beside published measurements, row by row, and whether the bars are held."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gossamer.sim.validate import Check, Line

HELP = """Hold the simulator against published measurements.

The tables that ship (MLPerf, TensorFlow's parameter servers, famous runs), and with --traces a folder of the Pollux \
traces, one folder a model. No row that is tested is ever fitted to. Exit code 1 if a bar is missed.

    gossamer validate

    gossamer validate --traces pollux --rows
"""
MOST = 12  # lines of a table that are shown unless all are asked for


def validate(
    traces: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="With MODEL/placements.csv and MODEL/scalability.csv.")
    ] = None,
    rows: Annotated[bool, typer.Option("--rows", metavar="", help="Every row of long tables, too.")] = False,
    parameters: Annotated[bool, typer.Option("--parameters", metavar="", help="What was fitted, in words.")] = False,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="One JSON object on stdout.")] = False,
) -> None:
    """Predict, compare, report."""
    from gossamer.cli.screen import put_json
    from gossamer.parts.refusal import Refused
    from gossamer.sim.validate import checks

    if traces is not None and not traces.is_dir():
        raise Refused(f"validate: {traces} is no folder", "--traces FOLDER, with one folder a model in it")
    found = checks(traces)
    if as_json:
        put_json({"held": all(check.held for check in found), "tables": [_told(check) for check in found]})
    else:
        _print(found, rows, parameters)
    if not all(check.held for check in found):
        raise typer.Exit(1)


def _told(check: Check) -> dict[str, object]:
    return {
        "name": check.name,
        "held": check.held,
        "error_mean": check.off.mean,
        "error_worst": check.off.worst,
        "error_largest": check.off.largest,
        "coverage": check.coverage,
        "bars": vars(check.bar),
        "parameters": list(check.told),
        "rows": [_told_line(line) for line in check.lines],
        "beside": [_told_line(line) for line in check.beside],
    }


def _told_line(line: Line) -> dict[str, object]:
    return {
        "what": line.what,
        "workers": line.workers,
        "unit": line.unit,
        "predicted": line.predicted.value,
        "low": line.predicted.low,
        "high": line.predicted.high,
        "published": line.seen,
        "error": line.error,
        "sure": line.sure,
    }


def _print(found: list[Check], rows: bool, parameters: bool) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from gossamer.cli.screen import out
    from gossamer.sim.validate import Bar

    console = out()
    for check in found:
        style = "bold green" if check.held else "bold red"
        verdict = "" if Bar() in (check.bar, check.off) else "held" if check.held else "MISSED"
        console.print(Text.assemble((check.name, "bold cyan"), "  ", (verdict, style)))
        console.print(Text(f"  {_summed(check)}"))
        for words in check.told if parameters or len(check.told) == 1 else ():
            console.print(Text(f"  {words}", style="dim"))
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for title in ("", "workers", "predicted", "published", "points" if _in_points(check) else "error", "known"):
            table.add_column(title, justify="left" if title in ("", "known") else "right")
        shown = check.lines if rows or len(check.lines) <= MOST else ()
        for line in (*shown, *check.beside):
            beside = "beside: " if line in check.beside else ""
            table.add_row(f"{beside}{line.what}", f"{line.workers:,}", *_figures(line), line.sure)
        if table.row_count:
            console.print(Padding(table, (0, 0, 0, 2)))
        elif check.lines:
            console.print(Text(f"  {len(check.lines)} rows; all of them with --rows", style="dim"))
        console.print()


def _figures(line: Line) -> tuple[str, str, str]:
    """Predicted, published and by how much they differ; of what is not published, what was predicted alone."""
    predicted = _figure(line.predicted.value, line.unit)
    if line.seen is None or line.error is None:
        return predicted, "-", "-"
    error = f"{100 * line.error:+.1f}" if line.unit == "share" else f"{line.error:+.1%}"
    return predicted, _figure(line.seen, line.unit), error


def _in_points(check: Check) -> bool:
    return any(line.unit == "share" for line in check.lines)


def _figure(value: float, unit: str) -> str:
    from gossamer.parts.units import told_seconds

    return told_seconds(value) if unit == "s" else f"{value:.1%}" if unit == "share" else f"{value:,.0f}/s"


def _summed(check: Check) -> str:
    unit = " points" if _in_points(check) else " %"

    def told(name: str, value: float, bar: float | None) -> str:
        return f"{name} {100 * value:.1f}{unit}" + (f" (bar {100 * bar:.0f}{unit})" if bar is not None else "")

    seen, off, bar = check.seen, check.off, check.bar
    if off.mean is None or off.worst is None or off.largest is None:
        return "predictions alone: nothing is published to hold them against"
    words = [told("mean error", off.mean, bar.mean), told("worst", off.worst, bar.worst)]
    if bar.largest is not None:
        words.append(told(f"at {max(line.workers for line in seen):,} workers", off.largest, bar.largest))
    if check.coverage is not None:
        words.append(f"the interval holds {check.coverage:.0%} of {len(seen)} rows")
    if len(seen) < len(check.lines):
        words.append(f"{len(check.lines) - len(seen)} more rows are predictions alone")
    return ", ".join(words)
