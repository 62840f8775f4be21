"""The error for a record that a deserializer refuses: of our class, and of the deserializer's own.

kafka-python raises what the deserializer raises. Programs catch that: `except ValueError`,
`except json.JSONDecodeError`. Ours is a `RecordDeserializationError`, with topic, partition, offset
and the raw bytes; so that both are caught, it is an instance of both classes. For each class of
errors of a deserializer a class is made that derives from both.

That is not possible for every class (a class that is final, that cannot be made without arguments,
as an ExceptionGroup, or whose attributes have the names of ours). Then it is a
`RecordDeserializationError` only, and the original is its `__cause__`, as in any case.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Final

from kafka.errors import KafkaError

import aktor.errors
from aktor.errors import RecordDeserializationError

__all__ = ["refused"]

#: `for` and coroutines would take these for an end: they must not come out of a consumer.
_ENDS: Final = (StopIteration, StopAsyncIteration)

#: By their classes errors are told apart in the consumer, so ours must be no other one of them.
_TOLD_APART: Final = frozenset({KafkaError.__module__, aktor.errors.__name__})

#: What holds an attribute that is not in the `__dict__`: of a class in C, or in `__slots__`.
_MEMBERS: Final = (types.MemberDescriptorType, types.GetSetDescriptorType)

#: What is pickled of the attributes that the original had.
_PLAIN: Final = frozenset({bool, bytes, float, int, str, type(None)})

#: Of so many classes of errors the class of both is kept.
_KEPT: Final = 128


def refused(cause: Exception, fields: Mapping[str, Any]) -> RecordDeserializationError:
    """The error to raise for `cause`, which a deserializer raised; `fields` are those of a
    RecordDeserializationError."""
    kind = type(cause)
    error = _made(kind, fields, _attributes(cause, kind))
    error.__cause__ = cause
    return error


class _OfBoth(RecordDeserializationError):
    """Base of the classes that derive from another class of errors, too. What is here comes before
    the methods of that class: these may be unlike those of an exception, or show secrets."""

    #: The other class.
    _kind = Exception

    __repr__ = BaseException.__repr__
    __eq__ = object.__eq__
    __hash__ = object.__hash__
    __setattr__ = object.__setattr__
    __delattr__ = object.__delattr__
    __setstate__ = BaseException.__setstate__

    def __str__(self) -> str:
        return f"{type(self).__name__}: {BaseException.__str__(self)}"  # as that of a KafkaError

    def __bool__(self) -> bool:
        return True

    def __copy__(self) -> RecordDeserializationError:
        return _made(self._kind, self._fields(), _attributes(self, self._kind))

    def __reduce__(self) -> Any:
        kind, beside = self._kind, _attributes(self, self._kind)
        if not _can_be_found(kind):
            return _made_again, (RecordDeserializationError, self._fields(), {})
        plain = {name: value for name, value in beside.items() if type(value) in _PLAIN}
        return _made_again, (kind, self._fields(), plain)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    def _fields(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self._names}


def _made_again(
    kind: type[Exception], fields: Mapping[str, Any], beside: Mapping[str, Any]
) -> RecordDeserializationError:
    return _made(kind, fields, beside)


def _made(
    kind: type[Exception], fields: Mapping[str, Any], beside: Mapping[str, Any]
) -> RecordDeserializationError:
    """An error of both classes if there can be one. `beside`: what the original has besides."""
    with contextlib.suppress(Exception):  # the class is the user's, and may do anything
        hashable: Any = kind  # (mypy looks at the hash of its instances)
        both = _class_of_both(hashable)
        if both is not None:
            return _instance(both, kind, fields, beside)
    return RecordDeserializationError(**fields)


def _instance(
    both: type[_OfBoth],
    kind: type[Exception],
    fields: Mapping[str, Any],
    beside: Mapping[str, Any],
) -> RecordDeserializationError:
    # Neither `__new__` nor `__init__` of the other class: they may want any arguments.
    in_c: Any = both
    while not _is_in_c(in_c):
        in_c = in_c.__base__
    error: _OfBoth = in_c.__new__(both)
    error.__dict__.update(fields)
    own = fields.keys()
    if isinstance(error, SyntaxError):
        # (`except (ValueError, SyntaxError)` is usual round `ast.literal_eval`.) Its `offset` is a
        # column; ours is the record's. The line of the original stays with the cause: a traceback
        # would show it in place of our text.
        error.offset = fields["offset"]
        error.msg = error._text()
        own = own | vars(SyntaxError).keys()
    BaseException.__init__(error, error._text())
    for name, value in beside.items():
        if name not in own:
            with contextlib.suppress(AttributeError, TypeError):
                object.__setattr__(error, name, value)
    for name, value in fields.items():
        if getattr(error, name) is not value:
            raise TypeError(f"{kind.__name__} has an attribute {name!r} of its own")
    return error


@functools.lru_cache(maxsize=_KEPT)
def _class_of_both(kind: type[Exception]) -> type[_OfBoth] | None:
    """The class of errors that are of this class, too; None if there is to be none."""
    if issubclass(RecordDeserializationError, kind) or issubclass(kind, _ENDS):
        return None
    if any(base.__module__ in _TOLD_APART and base is not KafkaError for base in kind.__mro__):
        return None
    ours = RecordDeserializationError
    body = {"__module__": ours.__module__, "__qualname__": ours.__qualname__, "_kind": kind}
    body["__doc__"] = ours.__doc__
    return types.new_class(ours.__name__, (_OfBoth, kind), exec_body=lambda own: own.update(body))


def _attributes(error: Exception, kind: type[Exception]) -> dict[str, Any]:
    """What an error of this class has besides its `args`."""
    found: dict[str, Any] = {}
    for base in kind.__mro__:
        if base in (Exception, BaseException, object):
            continue
        for name, member in vars(base).items():
            if isinstance(member, _MEMBERS) and not name.startswith("__"):
                with contextlib.suppress(Exception):
                    found[name] = member.__get__(error, kind)
    with contextlib.suppress(Exception):
        found |= vars(error)
    return found


def _is_in_c(kind: type) -> bool:
    heap_type = 1 << 9  # Py_TPFLAGS_HEAPTYPE
    return not kind.__flags__ & heap_type


def _can_be_found(kind: type[Exception]) -> bool:
    """Whether pickle finds the class by its name."""
    try:
        found = attrgetter(kind.__qualname__)(sys.modules[kind.__module__])
    except (AttributeError, KeyError):
        return False
    return found is kind
