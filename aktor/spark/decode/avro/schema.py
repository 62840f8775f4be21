"""Schemas of Avro, from their JSON (Avro's specification, 1.12)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["NO_DEFAULT", "Field", "Kind", "SchemaError", "alone", "parse"]

#: The types that have no name of their own.
PRIMITIVE: Final = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
)
NO_DEFAULT: Final[Any] = object()


class SchemaError(ValueError):
    """This is no schema of Avro."""


@dataclass(eq=False, slots=True)
class Field:
    """A field of a record. `default` is JSON, or NO_DEFAULT."""

    name: str
    kind: Kind
    default: Any = NO_DEFAULT
    aliases: tuple[str, ...] = ()


@dataclass(eq=False, slots=True)
class Kind:
    """A type. `type` says which of the fields after `logical` have a meaning."""

    type: str
    logical: str | None = None
    precision: int = 0
    scale: int = 0
    name: str = ""
    fields: list[Field] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    default: str | None = None
    size: int = 0
    #: Of an array, or the values of a map.
    items: Kind | None = None
    branches: tuple[Kind, ...] = ()

    def __str__(self) -> str:
        return self.name or (f"{self.type} ({self.logical})" if self.logical else self.type)


def alone(kind: Kind) -> Kind | None:
    """What a union is besides null, if it is one type; any other type is that itself. None: a union
    of several types, each of which has a place of its own. (As Spark's `from_avro` has it.)"""
    if kind.type != "union":
        return kind
    others = [branch for branch in kind.branches if branch.type != "null"]
    if not others:
        return Kind("null")
    if len(others) == 1:
        return others[0]
    for wide in ("long", "double"):
        if {other.type for other in others} == {"int" if wide == "long" else "float", wide}:
            return Kind(wide)
    return None


def parse(text: str, named: dict[str, Kind] | None = None) -> Kind:
    """The type that a schema says. `named`: types that it may name, to which its own are added.

    Raises SchemaError.
    """
    try:
        said = json.loads(text)
    except ValueError as error:
        if not text.strip().isidentifier():
            raise SchemaError(f"it is no JSON: {error}") from None
        said = text.strip()
    try:
        return _Parser({} if named is None else named).kind(said, "")
    except RecursionError:
        raise SchemaError("it is nested too deeply") from None


class _Parser:
    """Owns the types that have been named."""

    def __init__(self, named: dict[str, Kind]) -> None:
        self._named = named

    def kind(self, said: Any, space: str) -> Kind:
        """`space` is the name space around it."""
        if isinstance(said, list):
            return Kind("union", branches=tuple(self.kind(one, space) for one in said))
        if isinstance(said, str):
            return Kind(said) if said in PRIMITIVE else self._known(said, space)
        if not isinstance(said, Mapping) or "type" not in said:
            raise SchemaError(f"{json.dumps(said)[:80]} is no type")
        match said["type"]:
            case "array":
                return Kind("array", items=self.kind(_of(said, "items"), space))
            case "map":
                return Kind("map", items=self.kind(_of(said, "values"), space))
            case "record" | "error" | "enum" | "fixed":
                return self._new(said, space)
            case str(primitive) if primitive in PRIMITIVE:
                return _logical(Kind(primitive), said)
            case other:
                return self.kind(other, space)

    def _known(self, name: str, space: str) -> Kind:
        found = self._named.get(_full_name(name, space)) or self._named.get(name)
        if found is None:
            raise SchemaError(f"the type {name} is not known")
        return found

    def _new(self, said: Mapping[str, Any], space: str) -> Kind:
        name = _of(said, "name")
        if not isinstance(name, str) or not name:
            raise SchemaError(f"{name!r} cannot be a name")
        space = said.get("namespace") or space
        name = _full_name(name, space)
        space = name.rpartition(".")[0]
        made = Kind("record" if said["type"] == "error" else said["type"], name=name)
        self._named[name] = made
        for alias in _names(said.get("aliases", ())):
            self._named.setdefault(_full_name(alias, space), made)
        if made.type == "record":
            made.fields = [self._field(one, space) for one in _of(said, "fields")]
            twice = {one.name for one in made.fields}
            if len(twice) < len(made.fields):
                raise SchemaError(f"the record {name} names a field twice")
        elif made.type == "enum":
            made.symbols = _names(_of(said, "symbols"))
            made.default = said.get("default")
        else:
            size = _of(said, "size")
            if type(size) is not int or size < 0:
                raise SchemaError(f"the size of {name} is {size!r}")
            made.size = size
            _logical(made, said)
        return made

    def _field(self, said: Any, space: str) -> Field:
        if not isinstance(said, Mapping):
            raise SchemaError(f"{json.dumps(said)[:80]} is no field")
        return Field(
            str(_of(said, "name")),
            self.kind(_of(said, "type"), space),
            said.get("default", NO_DEFAULT),
            _names(said.get("aliases", ())),
        )


def _logical(kind: Kind, said: Mapping[str, Any]) -> Kind:
    """The logical type. One that does not fit is ignored, as the specification says."""
    logical = said.get("logicalType")
    if logical == "decimal" and kind.type in ("bytes", "fixed"):
        precision, scale = said.get("precision"), said.get("scale", 0)
        if type(precision) is int and type(scale) is int and 0 <= scale <= precision > 0:
            kind.logical, kind.precision, kind.scale = logical, precision, scale
    elif logical in _LOGICAL.get(kind.type, ()):
        kind.logical = logical
    return kind


#: Those that change how a value is read. A uuid, for example, stays the string that it is.
_LOGICAL: Final = {
    "int": ("date",),
    "long": (
        *("timestamp-millis", "timestamp-micros"),
        *("local-timestamp-millis", "local-timestamp-micros"),
    ),
}


def _full_name(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _names(said: Any) -> tuple[str, ...]:
    if not isinstance(said, Iterable) or not all(isinstance(one, str) for one in said):
        raise SchemaError(f"{json.dumps(said)[:80]} must be names")
    return tuple(said)


def _of(said: Mapping[str, Any], name: str) -> Any:
    if name not in said:
        raise SchemaError(f"{json.dumps(said)[:80]} has no {name}")
    return said[name]
