"""The regular expressions of RE2, for names of topics: linear in time, whatever the pattern.

Python's `re` knows other expressions than RE2 and can take for ever on some; so a pattern becomes
an automaton here, all of whose states are followed at once. Names of topics are ASCII: a
character class is a number with a bit for each of the 128 characters.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from aktor.broker.groups.consumer.re2_syntax import (
    Assertion,
    Choice,
    Class,
    Node,
    PatternError,
    Repeat,
    Sequence,
    parse,
)

__all__ = ["Pattern", "PatternError"]

#: Steps of an automaton. A counted repetition has as many copies of what it repeats.
_MAX_STEPS: Final = 4_000

#: States in all remembered transitions; beyond it they are found anew.
_MAX_REMEMBERED: Final = 50_000

#: (what it needs, where it leads). A class needs a character; the others need none.
_Step: TypeAlias = tuple[Class | Assertion | None, tuple[int, ...]]

_MATCH: Final = 0


class Pattern:
    """A compiled pattern. Raises PatternError with RE2's reason if it is none."""

    __slots__ = ("_remembered", "_size", "_start", "_steps", "regex")

    def __init__(self, regex: str) -> None:
        self.regex = regex
        self._steps: list[_Step] = [(None, ())]
        self._start = frozenset((self._compile(parse(regex), _MATCH),))
        self._remembered: dict[tuple[frozenset[int], str, str], frozenset[int]] = {}
        self._size = 0

    def __repr__(self) -> str:
        return f"Pattern({self.regex!r})"

    def matches(self, name: str) -> bool:
        """Whether the whole name matches."""
        states, before = self._start, ""
        for char in name:
            states = self._step(states, before, char)
            if not states:
                return False
            before = char
        return _MATCH in self._reachable(states, before, "")

    def _step(self, states: frozenset[int], before: str, char: str) -> frozenset[int]:
        key = (states, before, char)
        found = self._remembered.get(key)
        if found is None:
            bit = 1 << ord(char)
            taken = (self._steps[state] for state in self._reachable(states, before, char))
            found = frozenset(
                leads[0] for needs, leads in taken if isinstance(needs, Class) and needs.mask & bit
            )
            if self._size > _MAX_REMEMBERED:
                self._remembered.clear()
                self._size = 0
            self._remembered[key] = found
            self._size += len(states) + 1
        return found

    def _reachable(self, states: frozenset[int], before: str, after: str) -> set[int]:
        """The states to be in between two characters ("" at either end) without taking one."""
        found: set[int] = set()
        open_ = list(states)
        while open_:
            state = open_.pop()
            if state in found:
                continue
            found.add(state)
            needs, leads = self._steps[state]
            if needs is None or (isinstance(needs, Assertion) and needs.holds(before, after)):
                open_.extend(leads)
        return found

    def _add(self, needs: Class | Assertion | None, *leads: int) -> int:
        if len(self._steps) >= _MAX_STEPS:
            raise PatternError("expression is too large")
        self._steps.append((needs, leads))
        return len(self._steps) - 1

    def _compile(self, node: Node, after: int) -> int:
        """Add the steps of a node that lead on to `after`; where it begins."""
        match node:
            case Class() | Assertion():
                return self._add(node, after)
            case Sequence(parts):
                for part in reversed(parts):
                    after = self._compile(part, after)
                return after
            case Choice(parts):
                return self._add(None, *(self._compile(part, after) for part in parts))
            case Repeat(part, least, most):
                return self._compile_repeat(part, least, most, after)

    def _compile_repeat(self, part: Node, least: int, most: int | None, after: int) -> int:
        if most is None:
            loop = self._add(None)
            self._steps[loop] = (None, (self._compile(part, loop), after))
            after = loop
        else:
            end = after
            for _ in range(most - least):
                after = self._add(None, self._compile(part, after), end)
        for _ in range(least):
            after = self._compile(part, after)
        return after
