"""The law of what may be asked for: see `FetchRoom`."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from aktor.managers.fetch.room import FetchRoom


class Moment(NamedTuple):
    """A room, and what the plan knows, when a request may be sent."""

    room: FetchRoom
    bound: int
    nodes: int
    readable: int
    from_node: int

    @property
    def total(self) -> int:
        """What is buffered and reserved."""
        return self.room.buffered + self.room.reserved


@st.composite
def moments(draw: st.DrawFn) -> Moment:
    """Any room whatever, also one that is fuller than it may be (KIP-74)."""
    bound, per_partition = draw(st.integers(1, 5000)), draw(st.integers(1, 5000))
    room = FetchRoom(bound, per_partition)
    room.fill(draw(st.integers(0, 2 * bound)))
    room.reserve(draw(st.integers(0, 2 * bound)))
    readable = draw(st.integers(0, room.buffered))
    return Moment(room, bound, draw(st.integers(1, 9)), readable, draw(st.integers(0, readable)))


@settings(max_examples=300, deadline=None)
@given(moments(), st.integers(1, 9))
def test_a_fetch_stays_within_the_bound_or_asks_for_the_smallest_request_beyond_it(
    at: Moment, waiting: int
) -> None:
    asked = at.room.for_session(
        waiting=waiting, nodes=at.nodes, readable=at.readable, from_node=at.from_node
    )

    if asked and at.total + asked > at.bound:
        assert at.from_node + asked <= at.room.smallest_request(at.nodes)
        assert at.readable + at.room.reserved + asked <= at.bound


def test_what_the_application_can_read_may_fill_the_bound_beside_paused_partitions() -> None:
    room = FetchRoom(100, 40)
    room.fill(100)
    extra = room.sessionless_extra(2)

    assert room.for_sessionless(extra, nodes=2, readable=100 - extra, from_node=0) == extra
    assert room.for_sessionless(extra, nodes=2, readable=101 - extra, from_node=0) == 0


@settings(max_examples=300, deadline=None)
@given(moments(), st.integers(1, 5000))
def test_a_fetch_beside_a_long_poll_asks_for_no_more_than_is_kept_for_it(
    at: Moment, limit: int
) -> None:
    asked = at.room.for_sessionless(
        limit, nodes=at.nodes, readable=at.readable, from_node=at.from_node
    )

    extra = at.room.sessionless_extra(at.nodes)
    assert asked <= limit
    if asked and at.total + asked > at.bound + max(2, at.nodes) * extra:
        assert at.from_node + asked <= extra
        assert at.readable + asked <= at.bound
