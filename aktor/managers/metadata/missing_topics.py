"""Topics that brokers do not describe: they are unknown, or refused."""

from __future__ import annotations

from collections.abc import Collection, Set
from typing import Final

from aktor.protocol.error_codes import Answer, Do, forbids_topic, means

__all__ = ["MissingTopics"]

#: A topic that no answer had so far is reported as unknown after this many answers in a row ...
UNKNOWN_ANSWERS: Final = 2
#: ... and this many seconds: a topic that is being created is unknown for a moment.
UNKNOWN_SECONDS: Final = 2.0


class _Unknown:
    """Since when brokers do not know a topic, and in how many answers in a row."""

    __slots__ = ("answers", "since")

    def __init__(self, now: float) -> None:
        self.since = now
        self.answers = 0

    def count(self) -> int:
        """One more answer does not know the topic; returns how many in a row did not."""
        self.answers += 1
        return self.answers


class MissingTopics:
    """Owns which topics brokers do not know, which ones they refuse and why, and which ones they
    have described before."""

    def __init__(self) -> None:
        self._unknown: dict[str, _Unknown] = {}
        self._refused: dict[str, type[Exception]] = {}
        self._seen: set[str] = set()

    @property
    def unknown(self) -> Set[str]:
        """The topics that brokers do not know, by the last answer about each."""
        return self._unknown.keys()

    @property
    def forbidden(self) -> frozenset[str]:
        """The topics that this principal may not describe."""
        return frozenset(topic for topic, kind in self._refused.items() if forbids_topic(kind))

    @property
    def invalid(self) -> frozenset[str]:
        """The topics that are refused for good: a name that a broker called invalid never becomes
        valid."""
        refused = self._refused.items()
        return frozenset(topic for topic, kind in refused if not _may_be_mended(kind))

    def may_appear(self, topic: str) -> bool:
        """Whether another answer may describe the topic: we may be authorized later."""
        refused = self._refused.get(topic)
        return refused is None or _may_be_mended(refused)

    # -- what answers say

    def described(self, topic: str) -> None:
        """An answer describes the topic: it exists, and we may read it."""
        self._seen.add(topic)
        self._refused.pop(topic, None)

    def not_unknown(self, topic: str) -> None:
        """An answer describes the topic, or has another error for it."""
        self._unknown.pop(topic, None)

    def count_unknown(self, topic: str, now: float) -> bool:
        """Count an answer that does not know the topic. True from the second such answer in a row
        on: a single broker may lag behind the others."""
        return self._unknown.setdefault(topic, _Unknown(now)).count() >= UNKNOWN_ANSWERS

    def never_existed(self, topic: str, now: float) -> bool:
        """Whether an unknown topic was not described before, and is not just being created."""
        return topic not in self._seen and now - self._unknown[topic].since >= UNKNOWN_SECONDS

    def refuse(self, topic: str, kind: type[Exception]) -> bool:
        """The topic is refused; False if the application was told so already."""
        if self._refused.get(topic) is kind:
            return False
        self._refused[topic] = kind
        return True

    # -- what is wanted

    def forget_refusals(self, topics: Set[str]) -> bool:
        """Tell the application again if these are refused; False if none of them was."""
        refused = topics & self._refused.keys()
        for topic in refused:
            del self._refused[topic]
        return bool(refused)

    def forget(self, topics: Collection[str]) -> None:
        """Nobody wants these any more."""
        self._seen.difference_update(topics)
        for topic in topics:
            self._unknown.pop(topic, None)
            self._refused.pop(topic, None)


def _may_be_mended(refused: type[Exception]) -> bool:
    return Do.RETRY in means(Answer.METADATA_TOPIC, refused)
