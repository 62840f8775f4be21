"""Why a rebalance begins, in words: `because` of `rebalance.triggered` in the trace.

The managers write these, and `aktor.trace.rebalances.causes` reads the cause of a rebalance from
them, so that both must have the same words. JoinGroup carries them to the brokers, too (KIP-800).
"""

from __future__ import annotations

from typing import Final

#: What a reason is, or begins with if more follows.
FIRST_JOIN: Final = "first join"
#: KIP-848: the heartbeat that joins was answered.
TAKEN_IN: Final = "the group has taken this member in"
SUBSCRIPTION_CHANGED: Final = "the subscription changed"
#: The leader of a classic group saw that topics have other partitions; the topics and "changed"
#: follow.
PARTITIONS_OF: Final = "the partitions of "
#: A topic has another id; of a classic group the topics follow that have other partitions.
TOPIC_RECREATED: Final = "a topic was deleted and created anew"
#: The application polled too late; the seconds follow.
NO_POLL_FOR: Final = "no poll for "
#: The same, because nothing in the process ran: it was stopped, or its machine slept; the seconds
#: follow.
STOOD_STILL: Final = "the process stood still for "
#: KIP-848: a member comes back that had left because the application polled too late.
POLLS_AGAIN: Final = "the application polls again"
#: The coordinator does not know the member or its generation any more; its error follows.
FENCED: Final = "fenced: "
#: The coordinator refused the member, and the application was told; the name of the error follows.
AFTER: Final = "after "
#: SyncGroup was sent to a broker that is not the coordinator (any more); why, follows.
COORDINATOR_LOST: Final = "the coordinator was lost: "
#: SyncGroup was refused for the moment, or got no response; why, follows.
SYNC_FAILED: Final = "SyncGroup failed: "
#: The cooperative protocol (KIP-429): what this member has revoked is given to others.
SECOND_ROUND: Final = "partitions were handed over: second round"
GROUP_REBALANCES: Final = "the coordinator said that the group rebalances"
#: SyncGroup was answered with REBALANCE_IN_PROGRESS.
REBALANCES_AGAIN: Final = "the group rebalances again"
#: KIP-848: a heartbeat was answered with another target.
ASSIGNED_ANEW: Final = "the coordinator assigned other partitions"
#: KIP-848: a part of the target is acknowledged, and the rest can be had now.
TARGET_NOT_REACHED: Final = "the target is not reached yet"


def stood_still(seconds: float) -> str:
    """Nothing of the process ran for so long at least."""
    return f"{STOOD_STILL}at least {seconds:.1f} s, or its clock jumped"
