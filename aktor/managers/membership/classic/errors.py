"""Why the coordinator refused the group: the error a user reads, and what to do about it."""

from __future__ import annotations

from kafka.errors import KafkaError

from aktor.events.metadata import Broker
from aktor.protocol.error_codes import Answer, name_of
from aktor.protocol.remedies import remedy

__all__ = ["assignor_failed", "named", "refusal"]


def named(coordinator: Broker | None) -> str:
    """The coordinator as an error names it; None if it has gone meanwhile."""
    if coordinator is None:
        return "the coordinator"
    return f"the coordinator, {coordinator},"


def refusal(
    error: type[Exception], *, group: str | None, coordinator: Broker | None, member: str
) -> Exception:
    """The error with what a reader needs: which group, broker and member, what to do."""
    return error(
        f"{name_of(error)}: {named(coordinator)} refused group {group!r}"
        f" (member: {member or 'not joined yet'}); {remedy(Answer.JOIN_GROUP, error)}"
    )


def assignor_failed(
    error: BaseException | None, *, group: str | None, assignor: str | None
) -> Exception:
    """The error if an assignor raised: that is the fault of the user's code, or of another member's
    subscription, and no reason for the actor to crash."""
    failure: Exception = KafkaError(
        f"the assignor {assignor!r} failed in group {group!r}"
        f" ({type(error).__name__}: {error}); use another partition_assignment_strategy or"
        " mend the assignor"
    )
    failure.__cause__ = error
    return failure
