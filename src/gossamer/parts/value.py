"""What every part is: a frozen value that prints as the expression that makes it. Knows no part in particular."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from enum import Enum
from typing import Any


class Value:
    """Prints as `Name(field=value)` with defaults left out, so that parse(repr(v)) == v."""

    def __repr__(self) -> str:
        told = []
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if value != _default(field):
                told.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(told)})"


class Word(Enum):
    """An enumeration whose members print as the bare word of the expression language."""

    def __repr__(self) -> str:
        return self.name


def _default(field: Field[Any]) -> object:
    if field.default is not MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not MISSING else MISSING
