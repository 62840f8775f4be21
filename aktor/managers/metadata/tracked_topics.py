"""The topics that are kept fresh in the snapshot of the cluster."""

from __future__ import annotations

from aktor.events.metadata import TopicInfo, TopicPattern, TrackTopics

__all__ = ["TrackedTopics"]


class TrackedTopics:
    """Owns which topics each owner wants to be kept fresh: those that it names, and those that its
    pattern matches."""

    def __init__(self) -> None:
        self._named: dict[str, frozenset[str]] = {}
        self._patterns: dict[str, TopicPattern] = {}

    @property
    def named(self) -> frozenset[str]:
        """The topics that any owner names."""
        return frozenset().union(*self._named.values())

    def named_by(self, owner: str) -> frozenset[str]:
        """The topics that this owner names."""
        return self._named.get(owner, frozenset())

    @property
    def has_pattern(self) -> bool:
        """Whether an owner has a pattern: only an answer with all topics tells which ones match."""
        return bool(self._patterns)

    def pattern_of(self, owner: str) -> TopicPattern | None:
        """The pattern of this owner, if it has one."""
        return self._patterns.get(owner)

    def is_matched(self, topic: str, info: TopicInfo) -> bool:
        """Whether the pattern of any owner matches this topic."""
        return any(pattern.matches(topic, info) for pattern in self._patterns.values())

    def track(self, track: TrackTopics) -> None:
        """The owner wants these topics and this pattern in place of those that it had."""
        self._named.pop(track.owner, None)
        self._patterns.pop(track.owner, None)
        if track.topics:
            self._named[track.owner] = track.topics
        if track.pattern is not None:
            self._patterns[track.owner] = track.pattern
