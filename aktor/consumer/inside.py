"""The names that a consumer has inside, and may not be taken by a subclass or a program.

Ours and theirs would break each other, later and elsewhere. So who takes one is told at once.
"""

from __future__ import annotations

import dis
import functools
import inspect
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final

__all__ = ["Inside", "names_inside"]

#: Whether a name may be one that is inside.
_INNER: Final = re.compile("_[^_]").match


class Inside:
    """A consumer whose inner attributes are set by our own modules only."""

    #: Inner names that a subclass may take: those that it can have of kafka-python's class, too.
    _replaceable: ClassVar[frozenset[str]] = frozenset()

    if not TYPE_CHECKING:  # a type checker would let any attribute be set

        def __setattr__(self, name: str, value: Any) -> None:
            if _INNER(name) and not _is_ours(sys._getframe(1).f_globals["__name__"]):
                _refuse(type(self), {name})
            super().__setattr__(name, value)

    def _check_names(self) -> None:
        """Raise TypeError if a subclass has taken an inner name."""
        kinds = type(self).__mro__
        for kind in kinds[: kinds.index(_base_of(type(self)))]:
            _refuse(type(self), {*vars(kind)})


def _is_ours(module: str) -> bool:
    return module.startswith("aktor.")


def _base_of(kind: type) -> type:
    """The class of ours of which it is a subclass."""
    return next(one for one in kind.__mro__ if _is_ours(one.__module__))


def _refuse(kind: type, taken: set[str]) -> None:
    for name in sorted(taken & names_inside(_base_of(kind))):
        raise TypeError(
            f"{kind.__name__}.{name} has the name of something that aktor's KafkaConsumer has"
            " inside: give yours another name"
        )


@functools.cache
def names_inside(kind: type[Inside]) -> frozenset[str]:
    """The inner names of this class of ours, and those of its instances."""
    ours = [one for one in kind.__mro__ if _is_ours(one.__module__)]
    found = {name for one in ours for name in (*vars(one), *_set_by(one))}
    return frozenset(filter(_INNER, found)) - kind._replaceable


def _set_by(kind: type) -> Iterator[str]:
    """The attributes that the methods of a class set."""
    for member in vars(kind).values():
        method = inspect.unwrap(member)
        if inspect.isfunction(method):
            for step in dis.get_instructions(method):
                if step.opname == "STORE_ATTR":
                    yield step.argval
