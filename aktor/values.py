"""Values: plain data that never changes, such as the messages between actors.

A subclass of `Value` reads like a frozen, slotted, keyword-only dataclass, and behaves like one:

    class Position(Value):
        partition: int
        offset: int = 0

A subclass of `Mutable` is declared in the same way, and its methods change it.

`dataclass` itself is not used for them, because it writes and compiles up to six functions for each
class (0.3 ms to 0.6 ms): for the 160 classes that `from aktor import KafkaConsumer` makes, that
would be a quarter of the whole import. Here only `__init__` is compiled, and only of a class of
which many objects are made: a consumer makes few of most of these classes, or none. The rest is
inherited. An object is also made in two thirds of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, field
from operator import attrgetter
from typing import Any, ClassVar, Final, TypeVar, dataclass_transform

__all__ = ["Mutable", "Value", "made_quickly", "replace"]

_V = TypeVar("_V", bound="Value")
_T = TypeVar("_T")

#: So many objects of a class are made before its `__init__` is compiled. That takes 0.05 ms to
#: 0.3 ms, and saves about 2 µs an object.
SLOWLY: Final = 50


def _as_field(default: Any) -> Field[Any]:
    made: Field[Any] = default if isinstance(default, Field) else field(default=default)
    return made


def _getter(names: list[str]) -> Callable[[Any], Any]:
    return attrgetter(*names) if names else type


def _init(of: type, fields: dict[str, Field[Any]], kw_only: bool) -> Callable[..., None]:
    """Compile `__init__` of a class with these fields."""
    # Each slot is set by its own descriptor, since `__setattr__` refuses.
    known: dict[str, Any] = {"__name__": of.__module__, "_MISSING": MISSING}
    known.update((f"_set_{key}", getattr(of, key).__set__) for key in fields)
    parameters, lines = [], []
    for key, spec in fields.items():
        value = key
        if spec.default_factory is not MISSING:
            known[f"_make_{key}"] = spec.default_factory
            value = f"_make_{key}()"
            if spec.init:
                parameters.append(f"{key}=_MISSING")
                value = f"{value} if {key} is _MISSING else {key}"
        elif spec.default is not MISSING:
            known[f"_default_{key}"] = spec.default
            value = f"_default_{key}"
            if spec.init:
                parameters.append(f"{key}={value}")
                value = key
        else:
            parameters.append(key)
        lines.append(f" _set_{key}(self, {value})")
    if hasattr(of, "__post_init__"):
        lines.append(" self.__post_init__()")
    star = "*, " if kw_only else ""
    head = f"def __init__(self, {star}{', '.join(parameters)}):"
    exec("\n".join([head, *lines]), known)  # our own field names
    made: Callable[..., None] = known["__init__"]
    return made


def made_quickly(of: type[_T]) -> type[_T]:
    """A frozen dataclass with slots and keyword arguments whose objects are made as those of
    `Value` are: in two thirds of the time. For one that is made thousands of times at a go."""
    type.__setattr__(of, "__init__", _init(of, vars(of)["__dataclass_fields__"], kw_only=True))
    return of


def _init_later(of: type, fields: dict[str, Field[Any]], kw_only: bool) -> Callable[..., None]:
    """An `__init__` that goes through the fields, and puts a compiled one in its place when the
    class turns out to be one of many objects. If two threads do that at once, both compile, to the
    same end. It also compiles what raises for wrong arguments."""
    slots: list[tuple[str, Field[Any], Callable[..., None]]] = []
    made = 0

    def __init__(self: Any, *args: Any, **given: Any) -> None:
        nonlocal made, slots
        made += 1
        slots = slots or [(key, spec, getattr(of, key).__set__) for key, spec in fields.items()]
        if made > SLOWLY or args or not _fill(self, slots, given):
            compiled = _init(of, fields, kw_only)
            type.__setattr__(of, "__init__", compiled)
            compiled(self, *args, **given)

    return __init__


def _fill(
    of: Any, slots: list[tuple[str, Field[Any], Callable[..., None]]], given: dict[str, Any]
) -> bool:
    """Set the fields of a new object, as a compiled `__init__` does; False: not with these
    arguments."""
    used = 0
    for key, spec, set_slot in slots:
        if key in given and spec.init:
            used += 1
            set_slot(of, given[key])
        elif spec.default_factory is not MISSING:
            set_slot(of, spec.default_factory())
        elif spec.default is not MISSING:
            set_slot(of, spec.default)
        else:
            return False
    if used != len(given):
        return False
    if hasattr(of, "__post_init__"):
        of.__post_init__()
    return True


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class _ValueType(type):
    """Makes the subclasses of `Value`; `kw_only=False` lets arguments be given by position. A field
    with `init=False` is no argument. `__post_init__`, if there is one, is called at the end."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, kw_only: bool = True
    ) -> _ValueType:
        own = {
            key: _as_field(namespace.pop(key, MISSING))
            for key, annotation in namespace.get("__annotations__", {}).items()
            if not annotation.startswith("ClassVar")
        }
        fields: dict[str, Field[Any]] = {}
        for base in reversed(bases):
            fields |= getattr(base, "FIELDS", {})
        namespace["__slots__"] = tuple(key for key in own if key not in fields)
        # (A class may name its fields itself: fewer than its base has, see `Settings.only`.)
        fields = namespace.setdefault("FIELDS", fields | own)
        namespace["__match_args__"] = () if kw_only else tuple(fields)
        namespace["_compared"] = _getter([key for key, spec in fields.items() if spec.compare])
        made = super().__new__(cls, name, bases, namespace)
        if fields:
            type.__setattr__(made, "__init__", _init_later(made, fields, kw_only))
        return made


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
class _MutableType(_ValueType):
    """Makes the subclasses of `Mutable`. For type checkers: their fields may be assigned."""


class _Fields(metaclass=_ValueType):
    """What has declared fields."""

    __slots__ = ()

    #: What is known of each field, by its name.
    FIELDS: ClassVar[dict[str, Field[Any]]]

    def __repr__(self) -> str:
        shown = (f"{key}={getattr(self, key)!r}" for key, spec in self.FIELDS.items() if spec.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"


class Mutable(_Fields, metaclass=_MutableType):
    """Base of records that their own methods change. No two are equal."""

    __slots__ = ()


class Value(_Fields):
    """Base of all values. Two are equal if they are of one class and their fields are equal."""

    __slots__ = ()

    #: The fields that count for equality, as one object.
    _compared: ClassVar[Callable[[Any], Any]]

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        kind = type(self)
        if type(other) is not kind:
            return NotImplemented
        return bool(kind._compared(self) == kind._compared(other))

    def __hash__(self) -> int:
        return hash(type(self)._compared(self))

    def __getstate__(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in self.FIELDS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for key, value in state.items():
            object.__setattr__(self, key, value)


def replace(value: _V, **changes: Any) -> _V:
    """The same value with other contents in these fields."""
    return type(value)(**{**value.__getstate__(), **changes})
