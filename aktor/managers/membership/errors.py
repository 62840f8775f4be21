"""Why the group refuses a member, in either protocol, and what the user can do about it."""

from __future__ import annotations

from kafka.errors import KafkaError, UnsupportedVersionError

from aktor.events.metadata import Broker
from aktor.protocol.error_codes import Answer, name_of
from aktor.protocol.remedies import remedy
from aktor.settings import Settings
from aktor.trace.plain import named

__all__ = ["assignor_failed", "no_patterns", "refusal"]


def refusal(
    error: type[Exception],
    answer: Answer,
    *,
    settings: Settings,
    coordinator: Broker | None,
    member: str,
    error_message: str = "",
    regex: str = "",
) -> Exception:
    """The error with what a reader needs: which group, broker and member, what to do.

    `answer` says in which answer the error came. `coordinator` is None if it has gone meanwhile.
    `error_message` is the coordinator's own, "" if it gave none; `regex` is the pattern that
    brokers were to evaluate.
    """
    to_do = remedy(answer, error)
    if regex and issubclass(error, UnsupportedVersionError):
        to_do = no_patterns(regex)
    named = "the coordinator" if coordinator is None else f"the coordinator, {coordinator},"
    explained = f" ({error_message})" if error_message else ""
    who = settings.group_instance_id or member or "not joined yet"
    text = (
        f"{name_of(error)}: {named} refused group {settings.group_id!r}"
        f" (member: {who}){explained}; {to_do}"
    )
    made: Exception = error(text) if issubclass(error, KafkaError) else KafkaError(text)
    return made


def no_patterns(regex: str) -> str:
    """What to do where the brokers cannot evaluate the pattern."""
    return (
        f"the SubscriptionPattern {regex!r} takes brokers that evaluate it (Kafka 4.0 and newer,"
        " with the feature group.version 1) and the consumer group protocol; give a pattern of"
        " Python's re as a str instead"
    )


def assignor_failed(error: BaseException, *, group: str | None, assignor: str | None) -> Exception:
    """The error if an assignor raised: that is the fault of the user's code, or of another member's
    subscription, and no reason for the actor to crash."""
    failure: Exception = KafkaError(
        f"the assignor {assignor!r} failed in group {group!r}"
        f" ({named(error)}); use another partition_assignment_strategy or"
        " mend the assignor"
    )
    failure.__cause__ = error
    return failure
