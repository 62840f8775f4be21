"""The patterns by which members of one group subscribe, and the topics that they match.

They are resolved all at once and not too often, so that one new topic makes one rebalance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from aktor.broker.codes import Code, Refused
from aktor.broker.groups.consumer.re2 import Pattern, PatternError
from aktor.broker.groups.topics_view import TopicsView

__all__ = ["RegexIntervals", "TopicRegexes", "check_regex"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegexIntervals:
    """How often patterns are matched with the topics, seconds.

    minimum: never sooner after the last time, whatever happens (fixed in Kafka).
    maximum: at the first heartbeat after it (`group.consumer.regex.refresh.interval.ms`).
    """

    minimum: float = 10.0
    maximum: float = 600.0


def check_regex(regex: str) -> None:
    """Refuse what is not RE2 with INVALID_REGULAR_EXPRESSION and the reason."""
    try:
        Pattern(regex)
    except PatternError as error:
        raise Refused(
            Code.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.",
        ) from None


class TopicRegexes:
    """Owns what each pattern in use matched when they were last resolved."""

    def __init__(self, topics: TopicsView, *, intervals: RegexIntervals) -> None:
        self._topics = topics
        self._intervals = intervals
        self._resolved: dict[str, frozenset[str]] = {}
        self._resolved_at = -math.inf
        #: The topics that were looked at then.
        self._known: frozenset[tuple[str, UUID | None]] = frozenset()
        self._known_version: int | None = None
        self._patterns: dict[str, Pattern] = {}

    def topics(self, regex: str) -> frozenset[str]:
        """What it matched when last resolved; nothing if it was not yet."""
        return self._resolved.get(regex, frozenset())

    def is_resolved(self, regex: str) -> bool:
        """Whether it is known what it matches."""
        return regex in self._resolved

    def resolved(self) -> tuple[str, ...]:
        """The patterns of which it is known what they match."""
        return tuple(self._resolved)

    def forget(self, regex: str) -> None:
        """No member subscribes to it any more."""
        self._resolved.pop(regex, None)
        self._patterns.pop(regex, None)
        if not self._resolved:
            self._resolved_at = -math.inf

    def due(self, in_use: Iterable[str], *, now: float) -> bool:
        """Whether to resolve: a pattern is new, a topic is new, or it is long ago."""
        in_use = set(in_use)
        if not in_use or now <= self._resolved_at + self._intervals.minimum:
            return False
        return (
            len(in_use) != len(self._resolved)
            or now > self._resolved_at + self._intervals.maximum
            or self._has_new_topics()
        )

    def _has_new_topics(self) -> bool:
        if self._topics.version == self._known_version:
            return False
        return not self._all_topics() <= self._known

    def _all_topics(self) -> frozenset[tuple[str, UUID | None]]:
        return frozenset((name, self._topics.topic_id(name)) for name in self._topics.names())

    def resolve(self, in_use: Iterable[str], *, now: float) -> bool:
        """Match the patterns with all topics; whether one matches others than before."""
        changed = False
        names = self._topics.names()
        for regex in sorted(set(in_use)):
            pattern = self._patterns.setdefault(regex, Pattern(regex))
            found = frozenset(name for name in names if pattern.matches(name))
            changed = changed or found != self.topics(regex)
            self._resolved[regex] = found
        self._resolved_at = now
        self._known = self._all_topics()
        self._known_version = self._topics.version
        return changed

    def to_json(self) -> dict[str, Any]:
        """What `load` takes."""
        return {
            "at": None if self._resolved_at == -math.inf else self._resolved_at,
            "topics": {regex: sorted(topics) for regex, topics in sorted(self._resolved.items())},
        }

    def load(self, value: Mapping[str, Any]) -> None:
        """Take over what was resolved before a restart."""
        self._resolved = {regex: frozenset(topics) for regex, topics in value["topics"].items()}
        self._resolved_at = -math.inf if value["at"] is None else value["at"]
