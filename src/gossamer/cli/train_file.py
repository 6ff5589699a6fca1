"""The run file: small TOML with the names of the settings. Reads and writes it; runs nothing."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import fields
from datetime import date, time
from math import isfinite
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from gossamer.cli.train_settings import NAMES, Settings
from gossamer.parts.refusal import Refused
from gossamer.parts.spelling import nearest

KINDS = {dict: "a table", bool: "true or false", int: "a whole number", float: "a number", str: "text"}
MOST = 1 << 20  # bytes: what is longer is no run file


def read(path: Path) -> dict[str, Any]:
    """What a run file says, every field of a known name and of the right type."""
    text = _text(path)
    try:
        said = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Refused(f"{path} is not TOML: {error}", 'lines such as: strategy = "allreduce"') from None
    found: dict[str, Any] = {}
    for key, value in said.items():
        name = key.replace("-", "_")
        where = f"{path}{_line(text, key)}"
        if name not in NAMES:
            near, all_ = nearest(key, NAMES), f"the fields are {', '.join(NAMES)}"
            raise Refused(f"{where}: there is no field {key!r}", f"{near}; {all_}" if near else all_)
        if name in found:
            raise Refused(f"{where}: {name} is given twice")
        found[name] = _typed(where, name, value)
    if "epochs" in found and "steps" in found:
        raise Refused(f"{path}: epochs and steps both say how long", "one of them")
    return found


def _text(path: Path) -> str:
    if path.is_dir():
        raise Refused(f"{path} is a folder, not a run file", f"--resume {path}")
    if not path.exists() and path.suffix != ".toml":
        raise Refused(f"there is no run file {str(path)!r}", f"--strategy {str(path)!r}")
    with path.open("rb") as file:
        raw = file.read(MOST + 1)
    try:
        if len(raw) > MOST:
            raise Refused(f"{path} is longer than {MOST:,} bytes: that is no run file")
        return raw.decode()
    except UnicodeDecodeError as error:
        raise Refused(f"{path} is not a text in UTF-8: byte {error.start}") from None


def _line(text: str, key: str) -> str:
    """Where a field stands, if that is plain to see."""
    said = re.compile(rf"\s*(\[\s*)?[\"']?{re.escape(key)}[\"']?\s*[=.\]]")
    found = [number for number, line in enumerate(text.splitlines(), 1) if said.match(line)]
    return f", line {found[0]}" if found else ""


def _typed(where: str, name: str, value: Any) -> Any:
    wanted = get_type_hints(Settings)[name]
    try:
        made = msgspec.convert(value, wanted)
    except msgspec.ValidationError:
        kind = next(word for kind, word in KINDS.items() if kind in (wanted, get_origin(wanted), *get_args(wanted)))
        raise Refused(f"{where}: {name} must be {kind}, not {value!r}") from None
    if name == "options":
        for key, each in value.items():
            _plain(f"{where}: options.{key}", each)
        if "seed" in value:
            raise Refused(
                f"{where}: the seed of a task is that of the run", f"seed = {value['seed']!r} above [options]"
            )
    return made


def _plain(where: str, value: object) -> None:
    """Refuse what does not reach a worker as it is written."""
    if isinstance(value, date | time) or (isinstance(value, float) and not isfinite(value)):
        raise Refused(f"{where} is {value}, which cannot be handed to workers", "text, a finite number, true or false")
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _plain(where, each)


def written(settings: Settings) -> str:
    """A run file that says all of these settings; the ones that are None are left out."""
    said = {each.name: getattr(settings, each.name) for each in fields(settings)}
    options = said.pop("options")
    lines = [f"{name} = {told_value(value)}" for name, value in said.items() if value is not None]
    return "\n".join([*lines, "", "[options]", *(f"{_key(k)} = {told_value(v)}" for k, v in options.items())]) + "\n"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else told_value(name)


def told_value(value: object) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):  # JSON's texts are TOML's, but for one sign
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(told_value, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {told_value(each)}" for key, each in value.items()) + "}"
    return repr(value)
