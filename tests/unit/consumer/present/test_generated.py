"""What holds of every sentence, whatever is known."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from aktor.consumer.core.partition import Stage
from aktor.consumer.present import health
from aktor.consumer.present.picture import Picture
from aktor.consumer.present.reasons import sentence
from aktor.consumer.present.reasons.consumer import covering, of_consumer
from aktor.consumer.present.reasons.partition import of_partition, of_partitions
from aktor.consumer.present.reasons.reason import WaitingFor
from aktor.consumer.present.seen import Partitions, _Own
from aktor.events.metadata import Cluster
from aktor.events.positions import LogEnd
from aktor.events.present import FetchNow, Hindrance, PositionNow, PositionsNow, Throttle
from aktor.structs import TopicPartition
from tests.unit.consumer.present.builders import (
    NOW,
    T0,
    T1,
    a_broker,
    a_coordinator,
    a_dead_broker,
    a_member,
    a_picture,
    an_application,
    changed,
    cluster,
    network,
    seen,
    trouble,
    wrong,
)

#: (An owner may publish something after the picture's `now` was read: 3 ms ahead of it.)
TIMES = st.sampled_from(
    [-math.inf, NOW - 400.0, NOW - 3.0, NOW - 0.1, NOW, NOW + 0.003, NOW + 3.0, math.inf]
)


THROTTLES = st.builds(Throttle, since=TIMES, until=TIMES)


MAYBE = st.one_of(st.none(), TIMES)


#: When something last happened; -inf: never.
PAST = TIMES.filter(lambda at: at < math.inf)


BROKERS = st.builds(
    a_broker,
    st.sampled_from([1, 2]),
    connected=st.booleans(),
    connecting_since=MAYBE,
    failing_since=MAYBE,
    failed_at=TIMES,
    attempts=st.integers(0, 3),
    error=st.sampled_from(["", "Connection refused"]),
    retry_at=TIMES,
    refused_since=MAYBE,
    throttle=THROTTLES,
    fetch_throttle=THROTTLES,
    group_throttle=THROTTLES,
    answered=TIMES,
)


MEMBERS = st.builds(
    a_member,
    state=st.sampled_from(["stable", "joining", "unjoined"]),
    step=st.sampled_from(["", "poll", "members", "callback", "commit", "answer", "other"]),
    since=TIMES,
    asked_at=TIMES,
    answered_at=TIMES,
    failing_since=TIMES,
    failures=st.integers(0, 2),
    trouble=st.sampled_from(["", "it hung up"]),
)


SEEN = st.builds(
    seen,
    position=st.one_of(st.none(), st.integers(0, 9)),
    lag=st.one_of(st.none(), st.integers(0, 9)),
    high_watermark=st.one_of(st.none(), st.integers(0, 9)),
    paused=st.booleans(),
    stage=st.sampled_from(Stage),
    subscribed=st.booleans(),
    buffered=st.integers(0, 9),
    records=st.integers(0, 9),
    error=st.sampled_from(["", "refused"]),
)


#: What is noted of a partition (see `seen`): so that most are alike, and some differ by one fact.
NOTED = st.tuples(
    st.sampled_from([5, 5, 3, None]),
    st.sampled_from([(5, 5), (5, 5), (5, 3), (9, 3), None]),
    st.sampled_from([False, False, False, True]),
    st.sampled_from([Stage.OWNED, Stage.OWNED, *Stage]),
    st.sampled_from([True, True, False]),
    st.just(-1),
    *[st.sampled_from([NOW - 3.0, NOW - 0.1])] * 5,
    st.just(()),
)


OWN = st.builds(
    _Own,
    chunks=st.lists(st.sampled_from([(100, 9, NOW - 0.1), (100, 9, NOW - 9.0), (0, 9, NOW)])),
    ends=st.sampled_from([None, (5, 5), (9, 3)]),
    ends_at=st.sampled_from([NOW - 5.0, NOW]),
    error=st.sampled_from(["", "refused"]),
    in_hand=st.sampled_from([0, 2]),
)


ALL: Final = (T0, T1, TopicPartition("orders", 2), TopicPartition("others", 0))
TPS = st.sampled_from(ALL)


def of_few(values: st.SearchStrategy[Any], *, at_least: int = 0) -> st.SearchStrategy[Any]:
    """The same value, or one of two, for each of some partitions."""
    pool = st.lists(values, min_size=1, max_size=2)
    return pool.flatmap(lambda some: st.dictionaries(TPS, st.sampled_from(some), min_size=at_least))


LISTED = st.builds(
    LogEnd, offset=st.sampled_from([3, 5, 50]), at=st.sampled_from([NOW - 1.0, NOW - 9.0])
)


PARTITIONS = st.builds(
    lambda noted, own, positions, listed, isolated: Partitions(
        noted,
        {tp: one for tp, one in own.items() if tp in noted},
        {tp: one for tp, one in positions.items() if tp in noted},
        {},
        listed,
        isolated=isolated,
    ),
    of_few(NOTED, at_least=3),
    of_few(OWN),
    st.dictionaries(TPS, st.sampled_from([4, 5]), max_size=1),
    of_few(LISTED),
    st.booleans(),
)


HINDRANCES = st.builds(
    Hindrance,
    state=st.sampled_from(["failing", "stopped", "out", "unpolled"]),
    since=PAST,
    node=st.sampled_from([None, 1]),
    until=TIMES,
    trouble=st.sampled_from(["", "FENCED"]),
)


FETCHES = st.builds(
    FetchNow,
    hindered=of_few(HINDRANCES),
    late=st.dictionaries(st.sampled_from([1, 2]), PAST),
    failed=st.dictionaries(st.sampled_from([1, 2]), st.tuples(PAST, st.just("it hung up"))),
    refusals=st.dictionaries(st.sampled_from([1, 2]), st.just("REFUSED")),
    replicas=st.dictionaries(TPS, st.sampled_from([1, 2]), max_size=1),
)


POSITIONS = st.builds(
    PositionNow,
    stage=st.sampled_from(["committed", "reset", "validation", "truncated", "failed"]),
    since=PAST,
    node=st.sampled_from([None, 1, 2]),
    asked_at=TIMES,
    trouble=st.sampled_from(["", "it hung up"]),
    retry_at=TIMES,
)


#: What is known of partitions.
OF_PARTITIONS: dict[str, st.SearchStrategy[Any]] = {
    "fetch": FETCHES,
    "positions": st.builds(PositionsNow, waiting=of_few(POSITIONS)),
    "crowded": st.frozensets(TPS),
    "faulty_since": st.dictionaries(TPS, PAST),
    "isolated": st.booleans(),
    "buffered": st.sampled_from([0, 950]),
    "untold": st.sampled_from([0, 950]),
    "cluster": st.sampled_from(
        [
            Cluster(),
            Cluster(version=1),
            cluster(2, 2, 1),
            cluster(2, 2),
            cluster(2, 2),
            cluster(-1, 2),
        ]
    ),
}


PICTURES = st.builds(
    a_picture,
    **OF_PARTITIONS,
    closed=st.booleans(),
    forked=st.booleans(),
    closing=st.booleans(),
    pattern=st.sampled_from(["", "o.*"]),
    topics=st.sampled_from([frozenset(), frozenset({"orders"}), frozenset({"orders", "oders"})]),
    metadata=st.builds(trouble, since=PAST, error=st.sampled_from(["", "REFUSED"])),
    failure=st.sampled_from(["", "an actor crashed"]),
    overdue=st.sampled_from([0.0, 3.0, math.inf]),
    group_id=st.sampled_from([None, "g"]),
    in_group=st.booleans(),
    subscribed=st.booleans(),
    unreachable=st.sampled_from(["", "no server"]),
    session_until=TIMES,
    application=st.builds(
        an_application,
        polled_at=TIMES,
        waits=st.booleans(),
        callback=st.sampled_from(["", "on_partitions_lost"]),
        callback_since=TIMES,
        delivered_at=PAST,
    ),
    network=st.builds(network, BROKERS, BROKERS),
    coordinator=st.one_of(
        st.none(),
        st.builds(a_coordinator, known=st.booleans(), since=TIMES, retry_at=TIMES),
    ),
    member=st.one_of(st.none(), MEMBERS),
    partitions=st.one_of(st.just({}), st.builds(lambda one: {T0: one}, SEEN), PARTITIONS),
)


@settings(max_examples=400, deadline=None)
@given(PICTURES)
def test_whatever_is_known_there_is_a_sentence(p: Picture) -> None:
    said = sentence.why(p)

    assert said[0].isupper()
    assert said.endswith((".", ")"))
    assert "nan" not in said
    assert "inf " not in said
    assert "-0.0 s" not in said
    assert re.search(r"-[0-9.]+ s", said) is None
    waiting = of_partitions(p)
    assert waiting.keys() == p.partitions.keys()
    health.healthy(p, of_consumer(p), waiting.values())


@settings(max_examples=1000, deadline=None)
@given(
    st.builds(
        a_picture,
        partitions=PARTITIONS,
        network=st.builds(network, st.builds(a_broker, fetch_throttle=THROTTLES), BROKERS),
        session_until=st.just(NOW + 3.0),
        **OF_PARTITIONS,
    )
)
def test_partitions_that_are_alike_are_told_what_each_would_be_told_alone(p: Picture) -> None:
    assume(covering(p) is None)

    alone = {tp: of_partition(p, tp, it) for tp, it in p.partitions.items()}

    assert of_partitions(p) == alone


@settings(max_examples=1000, deadline=None)
@given(PICTURES, PICTURES, st.sampled_from([math.inf, NOW - 3.0]))
def test_records_are_still_delivered_only_if_some_were_lately_and_some_can_be_now(
    p: Picture, other: Picture, unanswered: float
) -> None:
    p = changed(p, session_until=NOW + 3.0, in_group=True, group_id="g", subscribed=True)
    p = changed(p, member=a_member(failing_since=unanswered), coordinator=a_coordinator())
    p = changed(p, partitions={**p.partitions, T1: other.partitions.get(T0, seen())})

    said = sentence.why(p)

    kinds = {one.waiting_for for one in of_partitions(p).values()}
    if said.startswith("Records are still delivered"):
        assert p.now - p.application.delivered_at < 3.0
    if said.startswith("Records "):
        assert kinds & {
            WaitingFor.RECORDS,
            WaitingFor.FETCH,
            WaitingFor.TURN,
            WaitingFor.APPLICATION,
        }


@settings(max_examples=200, deadline=None)
@given(PICTURES)
def test_while_no_broker_has_answered_for_a_second_it_never_says_that_all_is_well(
    p: Picture,
) -> None:
    p = changed(p, network=network(a_dead_broker(1), a_dead_broker(2)))

    assert p.closed or wrong(p)
    assert "There is nothing new" not in sentence.why(p)
