"""The topics that a group member wants, and whether it may join for them."""

from __future__ import annotations

__all__ = ["MemberSubscription"]


class MemberSubscription:
    """Owns the topics that the application wants (KIP-848: or the pattern), those that the member
    has joined with, and whether the application has polled since the subscription changed.

    A member joins only when the application has polled since it subscribed, as with kafka-python
    and the Java client. A member that had to leave joins again only when the application polls
    again.
    """

    __slots__ = ("_has_polled", "joined_topics", "regex", "topics")

    def __init__(self) -> None:
        self.topics: frozenset[str] = frozenset()
        self.regex = ""
        self._has_polled = False
        #: The topics with which the last rebalance began.
        self.joined_topics: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.topics or self.regex)

    def change(self, topics: frozenset[str], regex: str = "") -> None:
        """Set other topics, or another pattern. The member joins when the application polls."""
        self.topics = topics
        self.regex = regex
        self._has_polled = False

    def clear(self) -> None:
        """The application wants no topics any more."""
        self.change(frozenset())

    def polled(self) -> None:
        """The application polls: it may be given partitions."""
        self._has_polled = True

    def await_poll(self) -> None:
        """Do not join before the application polls again."""
        self._has_polled = False

    def wants_to_join(self) -> bool:
        """Whether there are topics or a pattern, and the application has polled for them."""
        return bool(self) and self._has_polled

    def joins(self) -> None:
        """A rebalance begins: the member joins, or joins again, with these topics."""
        self.joined_topics = self.topics

    def has_changed(self) -> bool:
        """Whether the application has polled with other topics than the member has joined with."""
        return self.topics != self.joined_topics and self._has_polled
