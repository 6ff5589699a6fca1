"""Descriptions in TOML: a table whose fields are taken one by one, and whatever is wrong is said with its name.

Knows no cluster and no workload.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from gossamer.parts.refusal import Refused, real, told, whole
from gossamer.parts.spelling import nearest

T = TypeVar("T")
LONG = 200  # characters of a file's name that are told


class Table:
    """One table of a file; `rest` refuses fields that nobody took."""

    def __init__(self, where: str, found: dict[str, Any]) -> None:
        self.where, self._found, self._asked = where, found, list[str]()

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def take(self, name: str, default: Any = None, *, needed: bool = False) -> Any:
        """A field as it stands there."""
        self._asked.append(name)
        if name not in self._found and needed:
            raise Refused(f"{self.where}: {name} is missing", f"{name} = ...")
        return self._found.get(name, default)

    def number(self, name: str, low: float, high: float, default: float | None = None, **ends: bool) -> float:
        """A field that is a number."""
        value = self.take(name, default, needed=default is None)
        real(self.where, name, value, low, high, **ends)
        return float(value)

    def count(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """A field that is a whole number."""
        value = self.take(name, default, needed=default is None)
        whole(self.where, name, value, low, high)
        return int(value)

    def unit(self, name: str, read: Callable[[str], float], low: float, high: float, default: Any = None) -> float:
        """A field that is a number, or words with a unit."""
        value = self.take(name, default, needed=default is None)
        if isinstance(value, str):
            try:
                value = read(value)
            except Refused as error:
                raise Refused(f"{self.where}: {name}: {error.reason}", error.nearest) from None
        real(self.where, name, value, low, high)
        return float(value)

    def words(self, name: str, default: str = "") -> str:
        """A field that is text."""
        value = self.take(name, default)
        if not isinstance(value, str):
            raise Refused(f"{self.where}: {name} must be text, not {told(value)}", f'{name} = "..."')
        return value

    def table(self, name: str) -> Table | None:
        """A table inside, if there is one."""
        value = self.take(name)
        if value is not None and not isinstance(value, dict):
            raise Refused(f"{self.where}: {name} must be a table, not {told(value)}", f"[{name}]")
        return None if value is None else Table(f"{self.where}, [{name}]", value)

    def rest(self) -> None:
        """Refuse what nobody asked for."""
        for name in self._found:
            if name not in self._asked:
                raise Refused(f"{self.where}: there is no field {name}", nearest(name, self._asked))


def read(kind: str, given: str | Path) -> Table:
    """The table of a file, or of one that is shipped, by its name."""
    where = f"{kind} {_short(str(given))}"
    text = _text(where, kind, given)
    try:
        return Table(where, tomllib.loads(text))
    except RecursionError:
        raise Refused(f"{where} is not TOML: it is nested too deeply", "a list of lists, at most") from None
    except tomllib.TOMLDecodeError as error:
        raise Refused(f"{where} is not TOML: {error}", "name = value, one a line") from None
    except ValueError:  # as Python has it for numbers of thousands of digits
        raise Refused(f"{where} holds a number too long to read", "a number of a few digits") from None


def _text(where: str, kind: str, given: str | Path) -> str:
    path = Path(given)
    try:
        if path.suffix or path.is_file() or (path.exists() and str(given) not in names(kind)):
            return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{where} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    shipped = files("gossamer").joinpath(f"{kind}s", f"{given}.toml")
    if not shipped.is_file():
        raise Refused(f"{kind} {str(given)!r} is neither a file nor one of ours", _near(str(given), names(kind)))
    return shipped.read_text("utf-8")


def made(where: str, owner: str, make: Callable[[], T]) -> T:
    """What fields are made into; what is refused then is said of the place they stand in, as whatever they say is."""
    try:
        return make()
    except Refused as error:
        raise Refused(f"{where}: {error.reason.removeprefix(f'{owner}: ')}", error.nearest) from None


def _short(name: str) -> str:
    """No more of a name than one can read."""
    return name if len(name) <= LONG else f"{name[:LONG]}..."


def names(kind: str) -> list[str]:
    """Those that are shipped."""
    folder = files("gossamer").joinpath(f"{kind}s")
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def _near(given: str, known: Sequence[str]) -> str:
    return nearest(given, list(known)) or ", ".join(known)
