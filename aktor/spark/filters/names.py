"""The columns and fields that a condition may name, and what is meant by a name that is none."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import DataType, StructType

from aktor.errors import ConfigurationError
from aktor.spark.filters.conditions import Column

__all__ = ["Columns", "Named"]

#: So many names of columns stand in an error.
_LISTED: Final = 20


@dataclass(frozen=True, slots=True)
class Named:
    """A column, and its type in Spark."""

    column: Column
    kind: DataType
    text: str


class Columns:
    """The columns that a condition may name. Upper and lower case do not matter, as in Spark."""

    def __init__(self, kinds: Mapping[str, DataType]) -> None:
        self._root = StructType()
        for name, kind in kinds.items():
            self._root.add(name, kind)

    def counted(self) -> Column:
        """A column that is there in each row, and cheap."""
        return self.find(
            ["offset" if "offset" in self._root.names else self._root.names[-1]]
        ).column

    def find(self, path: Sequence[str]) -> Named:
        """The column of this name, or the field. ConfigurationError: there is none."""
        kind: DataType = self._root
        places = []
        text = ".".join(path)
        for depth, name in enumerate(path):
            if not isinstance(kind, StructType):
                raise ConfigurationError(
                    f"{'.'.join(path[:depth])} is {kind.simpleString()}, and {text} would be a"
                    " field of it"
                )
            place = _place(kind, name)
            if place is None:
                hint = self._hint(text) if not depth else _hint_inside(kind, path[:depth], name)
                raise ConfigurationError(f"there is no column {text}; {hint}")
            places.append(place)
            kind = kind[place].dataType
        # pyspark gives no types for this function.
        from pyspark.sql.pandas.types import to_arrow_type

        name = self._root.names[places[0]]
        return Named(
            Column(name, tuple(places[1:]), to_arrow_type(kind, timezone="UTC")), kind, text
        )

    def _hint(self, text: str) -> str:
        """What the user may have meant by a name that there is not."""
        names = _dotted(self._root)
        last = text.rpartition(".")[2].lower()
        near = [name for name in names if name.lower().endswith(f".{last}")]
        near = near or _nearest(text, names) or _nearest(last, names, whole=False)
        if near:
            return f"did you mean {' or '.join(near[:2])}?"
        written = "" if "." in text else f"a text is written as '{text}'; "
        return f"{written}there are {_listed(names)}"


def _hint_inside(kind: StructType, path: Sequence[str], name: str) -> str:
    near = _nearest(name, kind.names)
    if near:
        return f"did you mean {'.'.join((*path, near[0]))}?"
    return f"{'.'.join(path)} has {_listed(kind.names)}"


def _nearest(text: str, names: Sequence[str], *, whole: bool = True) -> list[str]:
    """The name that is nearest, or whose last part is; none if none is near."""
    by_part = {
        (name if whole else name.rpartition(".")[2]).lower(): name for name in reversed(names)
    }
    return [by_part[one] for one in difflib.get_close_matches(text.lower(), by_part, 1)]


def _listed(names: Sequence[str]) -> str:
    return ", ".join([*names[:_LISTED], *(["..."] if len(names) > _LISTED else [])])


def _dotted(kind: StructType, depth: int = 2) -> list[str]:
    """The names of all columns, and after each its fields."""
    found = []
    for field in kind.fields:
        found.append(field.name)
        if isinstance(field.dataType, StructType) and depth:
            found += [f"{field.name}.{name}" for name in _dotted(field.dataType, depth - 1)]
    return found


def _place(kind: StructType, name: str) -> int | None:
    if name in kind.names:
        return kind.names.index(name)
    places = [place for place, one in enumerate(kind.names) if one.lower() == name.lower()]
    return places[0] if len(places) == 1 else None
