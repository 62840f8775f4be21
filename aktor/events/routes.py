"""Who hears what: the table that routes every message by its type.

Messages addressed by their content (a response goes to its request's sender, a `Tick` to one
manager at a time) are delivered by name and stand in `BY_NAME`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from aktor.events import (
    answers,
    commits,
    coordinator,
    fetching,
    lifecycle,
    membership,
    metadata,
    network,
    polling,
    positions,
    sockets,
)

__all__ = [
    "APPLICATION",
    "BY_NAME",
    "COMMITS",
    "COORDINATOR",
    "FACTS",
    "FETCH",
    "KEPT",
    "MEMBERSHIP",
    "METADATA",
    "NETWORK",
    "POSITIONS",
    "ROUTES",
    "Routes",
    "SUPERVISOR",
]

APPLICATION: Final = "application"
SUPERVISOR: Final = "supervisor"
#: Where the supervisor keeps the last fact of each actor that tells facts, see `FACTS`.
KEPT: Final = "facts"
NETWORK: Final = "network"
COORDINATOR: Final = "coordinator"
MEMBERSHIP: Final = "membership"
COMMITS: Final = "commits"
METADATA: Final = "metadata"
POSITIONS: Final = "positions"
FETCH: Final = "fetch"

#: Message type -> the names of its receivers. No names: nobody listens yet.
Routes: TypeAlias = Mapping[type, tuple[str, ...]]

#: Those of a `KafkaConsumer`. Another kind of consumer has routes of its own.
ROUTES: Final[Routes] = {
    lifecycle.TickDue: (SUPERVISOR,),
    lifecycle.Ticked: (SUPERVISOR,),
    lifecycle.ActorCrashed: (SUPERVISOR,),
    lifecycle.ConsumerFailed: (APPLICATION,),
    lifecycle.ReportStatus: (SUPERVISOR,),
    network.SendRequests: (NETWORK,),
    network.BrokerRefused: (APPLICATION,),
    network.BootstrapFailed: (APPLICATION,),
    network.BrokersUnreachable: (APPLICATION,),
    network.BrokersReached: (APPLICATION,),
    network.ExpectFetches: (NETWORK,),
    network.ReportBootstrap: (NETWORK,),
    network.Rebootstrap: (NETWORK, COORDINATOR),
    network.BrokersLost: (APPLICATION,),
    sockets.ConnectionOpened: (NETWORK,),
    sockets.ConnectionFailed: (NETWORK,),
    sockets.ConnectionClosed: (NETWORK,),
    sockets.RequestAnswered: (NETWORK,),
    sockets.RequestBroken: (NETWORK,),
    answers.Answered: (APPLICATION,),
    answers.Failed: (APPLICATION,),
    metadata.TrackTopics: (METADATA,),
    metadata.RefreshMetadata: (METADATA,),
    metadata.LeadersMoved: (METADATA,),
    metadata.LeaderEpochsUnknown: (METADATA,),
    metadata.DescribeTopics: (METADATA,),
    metadata.NameTopics: (METADATA,),
    metadata.TopicsNamed: (MEMBERSHIP,),
    metadata.ClusterChanged: (KEPT, NETWORK, MEMBERSHIP, COMMITS, POSITIONS, FETCH, APPLICATION),
    metadata.TopicsRefused: (APPLICATION,),
    coordinator.CoordinatorFound: (KEPT, NETWORK, MEMBERSHIP, COMMITS),
    coordinator.CoordinatorLost: (KEPT, NETWORK, MEMBERSHIP, COMMITS),
    coordinator.SuspectCoordinator: (COORDINATOR,),
    coordinator.CoordinatorMissing: (COMMITS,),
    coordinator.CoordinatorRefused: (MEMBERSHIP, COMMITS, APPLICATION),
    polling.Poll: (COMMITS, MEMBERSHIP, FETCH),
    membership.SubscriptionChanged: (MEMBERSHIP,),
    membership.RevokePartitions: (APPLICATION,),
    membership.PartitionsReleased: (MEMBERSHIP,),
    membership.RunRevokedCallback: (APPLICATION,),
    membership.AssignPartitions: (APPLICATION,),
    membership.CallbackFinished: (MEMBERSHIP,),
    membership.LeaveGroup: (MEMBERSHIP,),
    membership.MemberChanged: (KEPT, COMMITS, APPLICATION),
    membership.SessionExtended: (APPLICATION,),
    membership.ConfirmSession: (MEMBERSHIP,),
    membership.GroupFailed: (APPLICATION,),
    commits.CommitOffsets: (COMMITS,),
    commits.CommitBeforeRevocation: (COMMITS,),
    commits.RevocationCommitted: (MEMBERSHIP,),
    #: A listener of stored offsets is to be named here.
    commits.OffsetsCommitted: (),
    commits.FetchCommittedOffsets: (COMMITS,),
    commits.FindStartingOffsets: (COMMITS,),
    commits.ExplainStartingOffset: (COMMITS,),
    commits.StartingOffsetsFound: (POSITIONS,),
    commits.StartingOffsetsFailed: (POSITIONS,),
    commits.AutoCommitFinished: (APPLICATION,),
    positions.AssignmentChanged: (POSITIONS, FETCH, COMMITS),
    positions.SeekPartitions: (POSITIONS, FETCH),
    positions.ResetPositions: (POSITIONS, FETCH),
    positions.PositionsResolved: (FETCH, APPLICATION),
    positions.PositionsFailed: (APPLICATION,),
    positions.ValidatePositions: (POSITIONS,),
    positions.PositionsValidated: (FETCH,),
    positions.PositionsDiverged: (POSITIONS,),
    positions.TruncationFound: (COMMITS,),
    positions.LogsTruncated: (APPLICATION,),
    positions.ListOffsets: (POSITIONS,),
    positions.FollowEnds: (POSITIONS,),
    positions.EndsListed: (APPLICATION,),
    positions.ExplainPosition: (POSITIONS,),
    fetching.RecordsFetched: (APPLICATION,),
    fetching.PausePartitions: (FETCH,),
}

#: Facts: messages that hold until the same actor tells the next one; and which actor that is. An
#: actor that starts afresh is told the last one, if the routes name it as a receiver.
FACTS: Final[Mapping[type, str]] = {
    metadata.ClusterChanged: METADATA,
    coordinator.CoordinatorFound: COORDINATOR,
    coordinator.CoordinatorLost: COORDINATOR,
    membership.MemberChanged: MEMBERSHIP,
}

#: Delivered to the actor they name, never by type.
BY_NAME: Final[frozenset[type]] = frozenset(
    {
        lifecycle.Tick,
        lifecycle.ActorsRestarted,
        network.ResponseReceived,
        network.RequestFailed,
    }
)
