"""The bytes of a Fetch request, against those that kafka-python writes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer.fetch import FetchRequest

from aktor.protocol.fetch_request import write_fetch_request

Topic = FetchRequest.FetchTopic
Partition = Topic.FetchPartition
Forgotten = FetchRequest.ForgottenTopic

int64s = st.integers(-(2**63), 2**63 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)

partitions = st.builds(
    lambda **fields: Partition(**fields),
    partition=int32s,
    current_leader_epoch=int32s,
    fetch_offset=int64s,
    last_fetched_epoch=int32s,
    log_start_offset=int64s,
    partition_max_bytes=int32s,
)
requests = st.builds(
    lambda **fields: FetchRequest(**fields),
    replica_id=int32s,
    max_wait_ms=int32s,
    min_bytes=int32s,
    max_bytes=int32s,
    isolation_level=st.integers(0, 1),
    session_id=int32s,
    session_epoch=int32s,
    topics=st.lists(
        st.builds(
            lambda topic, topic_id, partitions: Topic(
                topic=topic, topic_id=topic_id, partitions=partitions
            ),
            st.text(max_size=20) | st.just("t" * 249),
            st.uuids(),
            st.lists(partitions, max_size=3),
        ),
        max_size=3,
    ),
    forgotten_topics_data=st.lists(
        st.builds(
            lambda topic, topic_id, partitions: Forgotten(
                topic=topic, topic_id=topic_id, partitions=partitions
            ),
            st.text(max_size=20),
            st.uuids(),
            st.lists(int32s, max_size=3) | st.just(list(range(200))),
        ),
        max_size=3,
    ),
    rack_id=st.text(max_size=20),
)


@pytest.mark.few_cases
@pytest.mark.parametrize("version", range(4, 19))
@settings(deadline=None, max_examples=40)
@given(request=requests)
def test_the_bytes_are_those_that_kafka_python_writes(version: int, request: Any) -> None:
    # Where a version lacks a field, kafka-python refuses values other than the default.
    if version < 7:
        request.session_id, request.session_epoch, request.forgotten_topics_data = 0, -1, []
    if version >= 15:
        request.replica_id = -1

    assert write_fetch_request(request, version) == bytes(request.encode(version=version))


@pytest.mark.parametrize("version", [3, 19])
def test_other_versions_are_refused(version: int) -> None:
    with pytest.raises(ValueError, match=f"Fetch v{version} is not one of v4 to v18"):
        write_fetch_request(FetchRequest(topics=[]), version)
