"""A pattern of topic names that the brokers evaluate."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SubscriptionPattern"]


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """For `subscribe(pattern=...)`: a regular expression in the syntax of RE2 (KIP-848).

    The brokers match it with the names of all topics that the group may describe, and again as
    topics come and go: no consumer has to know all topics of a large cluster. It must match the
    whole name. An invalid one is an `InvalidRegularExpressionError`, raised by `poll`.
    """

    pattern: str

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str):
            raise TypeError("a SubscriptionPattern is made of a str")
        if not self.pattern:
            raise ValueError("an empty SubscriptionPattern matches no topic")

    def __str__(self) -> str:
        return self.pattern
