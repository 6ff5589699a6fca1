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
    if traces is not None and not any(check.covers for check in found):
        raise Refused(f"validate: {traces} holds no MODEL/placements.csv", "the folder above those of the models")
    if as_json:
        put_json({"held": all(check.held for check in found), "tables": [_told(check) for check in found]})
    else:
        _print(found, rows, parameters)
    if not all(check.held for check in found):
        raise typer.Exit(1)


def _told(check: Check) -> dict[str, object]:
    from statistics import mean

    return {
        "name": check.name,
        "held": check.held,
        "error_mean": mean(check.errors),
        "error_worst": max(check.errors),
        "error_largest": check.largest,
        "coverage": check.coverage if check.covers else None,
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
    from rich.table import Table
    from rich.text import Text

    from gossamer.cli.screen import out
    from gossamer.sim.validate import Bar

    console = out()
    for check in found:
        style = "bold green" if check.held else "bold red"
        verdict = "" if check.bar == Bar() else "held" if check.held else "MISSED"
        console.print(Text.assemble((check.name, "bold cyan"), "  ", (verdict, style)))
        console.print(Text(f"  {_summed(check)}"))
        for words in check.told if parameters or len(check.told) == 1 else ():
            console.print(Text(f"  {words}", style="dim"))
        table = Table(box=None, padding=(0, 2, 0, 2), header_style="dim")
        for title in ("", "workers", "predicted", "published", "error", "known"):
            table.add_column(title, justify="left" if title in ("", "known") else "right")
        shown = check.lines if rows or len(check.lines) <= MOST else ()
        for line in (*shown, *check.beside):
            beside = " (beside)" if line in check.beside else ""
            table.add_row(f"{line.what}{beside}", f"{line.workers:,}", *_figures(line), line.sure)
        if table.row_count:
            console.print(table)
        elif check.lines:
            console.print(Text(f"  {len(check.lines)} rows; all of them with --rows", style="dim"))
        console.print()


def _figures(line: Line) -> tuple[str, str, str]:
    from gossamer.parts.units import told_seconds

    if line.unit == "s":
        return told_seconds(line.predicted.value), told_seconds(line.seen), f"{line.error:+.1%}"
    if line.unit == "share":
        return f"{line.predicted.value:.1%}", f"{line.seen:.1%}", f"{100 * line.error:+.1f} points"
    return f"{line.predicted.value:,.0f}/s", f"{line.seen:,.0f}/s", f"{line.error:+.1%}"


def _summed(check: Check) -> str:
    from statistics import mean

    points = check.lines[0].unit == "share"

    def told(name: str, value: float, bar: float | None) -> str:
        unit = " points" if points else " %"
        return f"{name} {100 * value:.1f}{unit}" + (f" (bar {100 * bar:.0f}{unit})" if bar is not None else "")

    most = max(line.workers for line in check.lines)
    words = [told("mean error", mean(check.errors), check.bar.mean), told("worst", max(check.errors), check.bar.worst)]
    if check.bar.largest is not None:
        words.append(told(f"at {most} workers", check.largest, check.bar.largest))
    if check.covers:
        words.append(f"the interval holds {check.coverage:.0%} of {len(check.lines)} rows")
    return ", ".join(words)
