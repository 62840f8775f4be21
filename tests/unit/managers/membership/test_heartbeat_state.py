"""A member's heartbeats: since when they fail."""

from __future__ import annotations

import math

from aktor.managers.membership.heartbeat_state import HeartbeatState
from aktor.settings import Settings


def test_heartbeats_fail_since_the_first_of_them_was_sent() -> None:
    """Not since the last answer, which came a whole interval before."""
    beats = HeartbeatState(Settings(group_id="g"))
    beats.sent(10.0)
    beats.answered(10.1)
    assert beats.failing_since == math.inf

    for sent_at in (30.0, 33.0):
        beats.sent(sent_at)
        beats.failed(sent_at + 2.0, 0.5)
        assert beats.failing_since == 30.0

    beats.sent(40.0)
    assert (beats.failing_since, beats.asked_at) == (30.0, 40.0)
    beats.answered(40.1)
    assert beats.failing_since == math.inf
