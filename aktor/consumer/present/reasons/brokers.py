"""Of brokers: which one is down, how it is called, and the reasons that no broker serves us."""

from __future__ import annotations

import math
from typing import Final

from aktor.consumer.present.picture import Picture
from aktor.consumer.present.reasons.reason import FAULT_AFTER, Reason, WaitingFor
from aktor.consumer.present.reasons.words import (
    a_sentence,
    ago,
    first_line,
    for_long,
    made_in,
    plural,
    seconds,
)
from aktor.events.present import BrokerNow, Throttle

__all__ = [
    "broker_name",
    "down_since",
    "is_down",
    "login_refused",
    "next_attempt",
    "nobody_there",
    "refusal",
    "refused_since",
    "refuses",
    "silence",
    "throttling",
]


#: A shorter time, in seconds, would be told as 0.0 s.
LEAST_TOLD: Final = 0.05


def broker_name(broker: BrokerNow) -> str:
    return broker.address if broker.node < 0 else f"broker {broker.node}, {broker.address}"


def silence(p: Picture, broker: BrokerNow) -> str:
    """ "has not answered for 7.2 s (connection refused, 14 attempts)"."""
    since = down_since(p, broker)
    if broker.heard_at > -math.inf:
        return f"has not answered{for_long(since, p.now)}{how_it_failed(broker)}"
    # (This consumer may not have asked it before.)
    first = f"; the first attempt was {seconds(p.now - since)} ago" if since > -math.inf else ""
    return f"has not answered yet{first}{how_it_failed(broker)}"


def throttling(throttle: Throttle | None, asked_at: float, now: float) -> str:
    """ "has throttled us for 2.0 s (a quota is used up); 3.0 s are left", if what was asked then is
    held back by that; else "". Times that have just begun, or are nearly over, are not told."""
    if throttle is None or throttle.until <= now or asked_at < throttle.since:
        return ""
    since, left = throttle.since, throttle.until - now
    told = for_long(since, now) if now - since >= LEAST_TOLD else ""
    rest = f"; {seconds(left)} are left" if left >= LEAST_TOLD else ""
    return f"has throttled us{told} (a quota is used up){rest}"


def how_it_failed(broker: BrokerNow) -> str:
    error = first_line(broker.error)
    attempts = plural(broker.attempts, "attempt") if broker.attempts else ""
    inside = ", ".join(filter(None, (error, attempts)))
    return f" ({inside})" if inside else ""


def is_down(broker: BrokerNow | None, now: float) -> bool:
    """Whether this broker has not answered for a second since it failed, or since we try to connect
    to it."""
    if broker is None:
        return False
    begun = _begun(broker, now)
    return begun is not None and now - begun >= FAULT_AFTER


def _begun(broker: BrokerNow, now: float) -> float | None:
    """Since when it fails, or we try to connect to it; None: neither."""
    if broker.fails_at(now):
        return broker.failing_since
    return None if broker.connected else broker.connecting_since


def down_since(p: Picture, broker: BrokerNow) -> float:
    """From when on a broker that is down has answered nothing that it was asked; -inf: not known.
    (Its last answer may be of long before: nobody has asked since.)"""
    return max(min(_not_answered(p, broker), default=-math.inf), broker.heard_at)


def _not_answered(p: Picture, broker: BrokerNow) -> list[float]:
    """When that began which a broker that is down has not answered: the failures in a row, or the
    attempt to connect to it; and a Fetch on its way, which may be older than what failed first."""
    begun = _begun(broker, p.now)
    if begun is None:
        return []
    fetch = p.fetch.late.get(broker.node)
    return [begun] if fetch is None else [begun, fetch]


def login_refused(p: Picture) -> Reason | None:
    """Our login is refused, and no broker serves us by one that it has accepted before."""
    asked = (*p.network.brokers.values(), *p.network.servers)
    refusing = [one for one in asked if refuses(one)]
    if not refusing or any(one.connected and not one.fails for one in p.network.brokers.values()):
        return None
    # (All refuse by the same fault: it has lasted for as long as the first does.)
    first = min(refusing, key=refused_since)
    # A bootstrap server is one of the brokers, mostly.
    same = [one for one in p.network.brokers.values() if one.address == first.address]
    if any(one.heard_at > first.failed_at for one in same):
        return None
    named = same[0] if same and refuses(same[0]) else first
    text, since = refusal(named, p.now, since=refused_since(first)), refused_since(first)
    then = a_sentence(next_attempt(named, p.now))
    return Reason(
        WaitingFor.REFUSED, f"{broker_name(named)} {text}", since, True, then, only_new=True
    )


def refuses(broker: BrokerNow) -> bool:
    """Whether it refuses our login."""
    return broker.refused_since is not None and broker.fails


def refused_since(broker: BrokerNow) -> float:
    """Since when; -inf: it does not."""
    return -math.inf if broker.refused_since is None else broker.refused_since


def refusal(broker: BrokerNow, now: float, *, since: float | None = None) -> str:
    """ "has refused our login for 7.2 s (wrong password)"."""
    lasts = for_long(refused_since(broker) if since is None else since, now)
    return f"has refused our login{lasts} ({first_line(broker.error)})"


def nobody_there(p: Picture) -> Reason | None:
    """No broker that was tried answers, neither one of the cluster nor a bootstrap server."""
    brokers = _all_brokers(p)
    down = [one for one in brokers if is_down(one, p.now)]
    if p.unreachable:
        since = _all_down_since(p, brokers)
        text = first_line(p.unreachable, 400).removesuffix(".")
        if (attempts := sum(one.attempts for one in down)) and p.now - since >= LEAST_TOLD:
            text += f". It has been so{for_long(since, p.now)} ({plural(attempts, 'attempt')})"
        return Reason(WaitingFor.BROKER, text, since, True, _soonest(p, down), only_new=True)
    if any(one.connected and not one.fails for one in brokers):
        return None
    if not down:
        return None
    since = _all_down_since(p, brokers)
    if p.now - since < FAULT_AFTER:
        return None  # one of them has answered just now, even if not what it was asked
    named = ", ".join(f"{broker_name(one)}{how_it_failed(one)}" for one in down[:3])
    more = f" and {len(down) - 3} more" if len(down) > 3 else ""
    tried_all = len(down) == len(brokers) and p.cluster.brokers.keys() <= p.network.brokers.keys()
    no_broker = "no broker" if tried_all else "none of the brokers that were asked"
    text = f"{no_broker} has been reachable{for_long(since, p.now)}: {named}{more}"
    return Reason(WaitingFor.BROKER, text, since, True, _soonest(p, down), only_new=True)


def _soonest(p: Picture, down: list[BrokerNow]) -> str:
    """When the next of these brokers is tried."""
    if not down:
        return ""
    return a_sentence(next_attempt(min(down, key=lambda one: one.retry_at), p.now))


def _all_down_since(p: Picture, brokers: list[BrokerNow]) -> float:
    """From when on none of them has answered anything: the first failure after the last answer."""
    heard = max([one.heard_at for one in brokers], default=-math.inf)
    down = [one for one in brokers if is_down(one, p.now)]
    begun = [max(at, one.heard_at) for one in down for at in _not_answered(p, one)]
    return min([at for at in begun if at >= heard], default=heard)


def next_attempt(broker: BrokerNow, now: float) -> str:
    """ "the next attempt is made in 0.3 s"."""
    if broker.connecting_since is not None:
        return "the next attempt is under way"
    if broker.connected and broker.asked_at > broker.failed_at:
        return f"it was asked again{ago(broker.asked_at, now)}"
    if broker.retry_at <= now:  # nobody needs it just now
        return "the next attempt is made with the next request to it"
    return made_in(broker.retry_at, now, "the next attempt")


def _all_brokers(p: Picture) -> list[BrokerNow]:
    known = list(p.network.brokers.values())
    addresses = {one.address for one in known}
    return [*known, *(one for one in p.network.servers if one.address not in addresses)]
