"""What brokers may say, by API, to a request that succeeds a little later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aktor.broker.codes import Code

__all__ = [
    "ALL_REFUSALS",
    "CONSUMER_REFUSALS",
    "OF_COORDINATORS",
    "OF_LEADERS",
    "OF_TOPIC_IDS",
    "REFUSALS",
]

OF_COORDINATORS: Final = (
    Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_COORDINATOR,
)


OF_LEADERS: Final = (
    Code.KAFKA_STORAGE_ERROR,
    Code.NOT_LEADER_OR_FOLLOWER,
    Code.OFFSET_NOT_AVAILABLE,
)


#: A broker has not heard yet that a topic was created, or has it by another id (KIP-516).
OF_TOPIC_IDS: Final = (Code.UNKNOWN_TOPIC_ID, Code.INCONSISTENT_TOPIC_ID)

#: What brokers may say, by API, to a request that succeeds a little later.
REFUSALS: Final[Mapping[str, tuple[Code, ...]]] = {
    "Fetch": (*OF_LEADERS, *OF_TOPIC_IDS, Code.FETCH_SESSION_TOPIC_ID_ERROR),
    "FindCoordinator": (Code.COORDINATOR_NOT_AVAILABLE,),
    "Heartbeat": OF_COORDINATORS,
    "JoinGroup": OF_COORDINATORS,
    "LeaveGroup": OF_COORDINATORS,
    "ListOffsets": OF_LEADERS,
    "OffsetCommit": OF_COORDINATORS,
    "OffsetFetch": (*OF_COORDINATORS, Code.UNSTABLE_OFFSET_COMMIT),
    "SyncGroup": OF_COORDINATORS,
}


#: The same where the members speak the consumer protocol (KIP-848). Two tables, so that storms of
#: the classic protocol remain those that they were.
CONSUMER_REFUSALS: Final[Mapping[str, tuple[Code, ...]]] = {
    **{
        api: codes
        for api, codes in REFUSALS.items()
        if api not in ("Heartbeat", "JoinGroup", "LeaveGroup", "SyncGroup")
    },
    "ConsumerGroupHeartbeat": OF_COORDINATORS,
}


#: What brokers may say to members of either protocol.
ALL_REFUSALS: Final[Mapping[str, tuple[Code, ...]]] = {**REFUSALS, **CONSUMER_REFUSALS}
