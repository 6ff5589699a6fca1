"""Measured steps as they are published in CSV: the traces of the Pollux artifact (petuum/adaptdl). Fits nothing."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

from gossamer.parts.refusal import Refused
from gossamer.sim.fit import Measured

SECONDS = "step_time"  # the column that is predicted


def pollux(folder: Path) -> tuple[list[Measured], list[Measured]]:
    """The rows of one model: those of up to four hosts in every layout, and those of more, whose seconds need not be
    there."""
    few = _read(folder / "placements.csv", ("placement", "local_bsz", SECONDS), _placed)
    many = _read(folder / "scalability.csv", ("num_nodes", "num_replicas", "local_bsz"), _spread)
    return few, many


def _placed(row: dict[str, str]) -> Measured:
    on_hosts = [int(digit) for digit in row["placement"]]
    return Measured.placed(on_hosts, float(row["local_bsz"]), float(row[SECONDS]))


def _spread(row: dict[str, str]) -> Measured:
    hosts, members = int(row["num_nodes"]), int(row["num_replicas"])
    seconds = float(row[SECONDS]) if SECONDS in row else None
    return Measured(hosts, -(-members // hosts), float(row["local_bsz"]), seconds, members)


def _read(path: Path, columns: tuple[str, ...], measured: Callable[[dict[str, str]], Measured]) -> list[Measured]:
    """Every row, or the first that is none, by its number below the names of the columns."""
    found = []
    for number, row in enumerate(_rows(path, columns), 1):
        try:
            found.append(measured(row))
        except Refused as error:
            raise Refused(f"{path}, row {number}: {error.reason}", error.nearest) from None
        except (ValueError, TypeError, ZeroDivisionError):
            told = ", ".join(f"{column} {row[column]!r}" for column in row if column in (*columns, SECONDS))
            raise Refused(f"{path}, row {number} is no measured step: {told}", "a number in every column") from None
    return found


def _rows(path: Path, columns: tuple[str, ...]) -> list[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            found = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Refused(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or error}",
            "a folder with placements.csv and scalability.csv",
        ) from None
    for column in columns:
        if not found or column not in found[0]:
            raise Refused(f"{path} has no column {column}", ", ".join(columns))
    return found
