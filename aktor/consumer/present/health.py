"""Whether a consumer is well: the two rules for Kubernetes' probes, see `docs/operate.md`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from aktor.consumer.present.picture import Picture
from aktor.consumer.present.reasons.consumer import faults
from aktor.consumer.present.reasons.group import group_refuses
from aktor.consumer.present.reasons.reason import Reason
from aktor.consumer.present.reasons.topics import no_topic
from aktor.consumer.present.reasons.words import seconds
from aktor.values import Value

__all__ = ["HANGS_AFTER", "UNHEALTHY_AFTER", "WELL", "Health", "alive", "healthy"]

#: A background thread that has not turned for so long, in seconds, is taken for dead.
HANGS_AFTER: Final = 10.0

#: A fault may last so long, in seconds, before the consumer is not healthy any more.
UNHEALTHY_AFTER: Final = 10.0


class Health(Value, kw_only=False):
    """Whether a rule holds: true or false, and why not (`because`, "" if it holds)."""

    ok: bool
    because: str = ""

    def __bool__(self) -> bool:
        return self.ok


#: The rule holds.
WELL: Final = Health(True)


def alive(p: Picture) -> Health:
    """Whether a restart of the process would not help (a liveness probe). A cluster that is down is
    no reason for a restart: the consumer goes on by itself when it is back."""
    if p.closed:
        return Health(False, "the consumer is closed")
    if p.forked:
        return Health(False, "the consumer is that of the parent process")
    if p.failure:
        return Health(False, f"the consumer has failed: {p.failure}")
    if p.overdue >= HANGS_AFTER:
        return Health(False, f"the background thread has not turned for {seconds(p.overdue)}")
    refused = group_refuses(p)
    if refused is not None and p.member is not None and p.member.for_good:
        return Health(False, f"{refused.text}. The member does not join again")
    app = p.application
    # (Who assigns by hand may read on demand, once an hour.)
    if p.subscribed and not (app.waits or p.closing):
        late = p.now - max(app.polled_at, app.subscribed_at)
        if late >= p.max_poll_interval:
            never = app.polled_at == -math.inf
            since = f"since it has subscribed, {seconds(late)} ago"
            since = since if never else f"for {seconds(late)}"
            at = f" (it is at {app.line})" if app.line else ""
            return Health(False, f"the application has not polled {since}{at}")
    return WELL


def healthy(p: Picture, of_consumer: Reason | None, of_partitions: Iterable[Reason]) -> Health:
    """Whether records are read, or would be if there were any (a readiness probe)."""
    living = alive(p)
    if not living:
        return living
    topic = no_topic(p) if p.subscribed else None
    wrong = faults(p) if of_consumer is not None and of_consumer.fault else ()
    for reason in (*wrong, *of_partitions, topic):
        if reason is not None and reason.fault and p.now - reason.since >= UNHEALTHY_AFTER:
            return Health(False, reason.text)
    member, wants_some = p.member, bool(p.topics) or not p.pattern
    if p.in_group and wants_some and member is not None and member.state != "stable":
        joining_since = member.since if member.joining_since == -math.inf else member.joining_since
        on_the_way = p.now - joining_since
        if on_the_way >= p.session_timeout and not p.partitions:
            how_long = seconds(on_the_way)
            return Health(False, f"the member has been {member.state} for {how_long}")
    return WELL
