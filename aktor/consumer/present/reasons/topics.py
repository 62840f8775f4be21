"""Of topics that are subscribed to: those that are not there, or may not be described."""

from __future__ import annotations

import math
from typing import Final

from aktor.consumer.present.picture import Picture
from aktor.consumer.present.reasons.reason import FAULT_AFTER, Reason, WaitingFor
from aktor.consumer.present.reasons.words import for_long
from aktor.events.present import TopicTrouble

__all__ = ["AGAIN_AND_AGAIN", "is_fault", "no_topic", "no_topic_note", "refused_topic"]


def no_topic(p: Picture) -> Reason | None:
    """Topics that are subscribed to are not there, or may not be described."""
    if p.topics.isdisjoint(p.metadata.troubles) and p.topics <= p.cluster.topics.keys():
        return None
    troubles = sorted(
        (trouble.since, topic, trouble)
        for topic, trouble in p.metadata.troubles.items()
        if topic in p.topics
    )
    for since, topic, trouble in troubles:
        if trouble.error:
            text, fault = refused_topic(topic, trouble, p.now), is_fault(trouble, p.now)
            return Reason(WaitingFor.REFUSED, text, since, fault, AGAIN_AND_AGAIN)
    if troubles:
        since = troubles[0][0]
        these = ", ".join(repr(topic) for _, topic, _ in troubles[:3])
        more = f" and {len(troubles) - 3} more" if len(troubles) > 3 else ""
        noun = "topics" if len(troubles) > 1 else "topic"
        text = f"no broker has known the {noun} {these}{more}{for_long(since, p.now)}"
        fault = p.now - since >= FAULT_AFTER
        return Reason(WaitingFor.LEADER, text, since, fault, AGAIN_AND_AGAIN)
    if p.cluster.version <= 0:
        return Reason(
            WaitingFor.BROKER, "no broker has described the cluster yet", -math.inf, False
        )
    first = min(p.topics - p.cluster.topics.keys())
    text = f"the metadata that is known has no topic {first!r}"
    return Reason(WaitingFor.BROKER, text, -math.inf, False)


AGAIN_AND_AGAIN: Final = "The metadata is asked for again and again."


def is_fault(trouble: TopicTrouble, now: float) -> bool:
    return not trouble.may_pass or now - trouble.since >= FAULT_AFTER


def refused_topic(topic: str, trouble: TopicTrouble, now: float) -> str:
    how_long = for_long(trouble.since, now)
    if trouble.forbidden:
        return f"this principal has not been allowed to describe the topic {topic!r}{how_long}"
    return f"the topic {topic!r} has been refused{how_long} ({trouble.error})"


def no_topic_note(p: Picture) -> str:
    missing = no_topic(p)
    if missing is None or not missing.fault:
        return ""
    return f"{missing.text[0].upper()}{missing.text[1:]}."
