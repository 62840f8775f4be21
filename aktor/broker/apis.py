"""Which part handles which API, and which broker may be asked."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, Final

from aktor.broker import access
from aktor.broker.call import CLOSE, Call
from aktor.broker.codes import Code, Refused
from aktor.broker.config_admin import ConfigAdmin
from aktor.broker.faults import error_response
from aktor.broker.fetching import Fetching
from aktor.broker.groups.coordinator import GroupCoordinator
from aktor.broker.list_offsets import ListOffsets
from aktor.broker.metadata import MetadataRequests
from aktor.broker.ports import Ports
from aktor.broker.produce import Producing
from aktor.broker.replica_admin import ReplicaAdmin
from aktor.broker.settings import ClusterSettings
from aktor.broker.topic_admin import TopicAdmin
from aktor.broker.topics import GROUP_OFFSETS, TRANSACTION_STATE
from aktor.broker.topology import Topology
from aktor.broker.transactions import TransactionCoordinator
from aktor.trace import open_trace

__all__ = ["Apis"]

_trace = open_trace(actor="broker")

Handler = Callable[[Call], None]

#: From these versions of TxnOffsetCommit on the group is added by itself (KIP-890), and a client
#: knows TRANSACTION_ABORTABLE.
_IMPLICIT_ADD: Final = 5
_KNOWS_ABORTABLE: Final = 4

#: Which coordinator a request is for: its topic, and the keys that name groups or transactions.
_KEYS: Final[dict[str, tuple[str, Callable[[Any], list[str]]]]] = {
    "JoinGroup": (GROUP_OFFSETS, lambda request: [request.group_id]),
    "SyncGroup": (GROUP_OFFSETS, lambda request: [request.group_id]),
    "Heartbeat": (GROUP_OFFSETS, lambda request: [request.group_id]),
    "LeaveGroup": (GROUP_OFFSETS, lambda request: [request.group_id]),
    "OffsetCommit": (GROUP_OFFSETS, lambda request: [request.group_id]),
    "OffsetFetch": (
        GROUP_OFFSETS,
        lambda request: [group.group_id for group in request.groups] or [request.group_id],
    ),
    "OffsetDelete": (GROUP_OFFSETS, lambda request: [request.group_id]),
    "TxnOffsetCommit": (GROUP_OFFSETS, lambda request: [request.group_id]),
    "ConsumerGroupHeartbeat": (GROUP_OFFSETS, lambda request: [request.group_id]),
    "ConsumerGroupDescribe": (GROUP_OFFSETS, lambda request: list(request.group_ids)),
    "DescribeGroups": (GROUP_OFFSETS, lambda request: list(request.groups)),
    "DeleteGroups": (GROUP_OFFSETS, lambda request: list(request.groups_names)),
    "InitProducerId": (
        TRANSACTION_STATE,
        lambda request: [request.transactional_id] if request.transactional_id else [],
    ),
    "AddPartitionsToTxn": (
        TRANSACTION_STATE,
        lambda request: (
            [transaction.transactional_id for transaction in request.transactions]
            or [request.v3_and_below_transactional_id]
        ),
    ),
    "AddOffsetsToTxn": (TRANSACTION_STATE, lambda request: [request.transactional_id]),
    "EndTxn": (TRANSACTION_STATE, lambda request: [request.transactional_id]),
    "DescribeTransactions": (TRANSACTION_STATE, lambda request: list(request.transactional_ids)),
}


class Apis:
    """The table of handlers, by API name."""

    def __init__(
        self,
        *,
        topology: Topology,
        settings: ClusterSettings,
        groups: GroupCoordinator,
        transactions: TransactionCoordinator,
        fetching: Fetching,
        producing: Producing,
        ports: Ports,
    ) -> None:
        self._groups = groups
        self._transactions = transactions
        self._coordinators = ports
        metadata = MetadataRequests(
            topology,
            auto_create_topics=settings.auto_create_topics,
            changes=ports,
            coordinators=ports,
        )
        admin = TopicAdmin(topology, settings=settings, changes=ports)
        list_offsets = ListOffsets(topology.topics)
        configs = ConfigAdmin(topology, topic_configs=settings.topic_configs)
        replicas = ReplicaAdmin(topology, changes=ports)
        self._handlers: dict[str, Handler] = {
            "Produce": producing.handle,
            "Fetch": fetching.handle,
            "ListOffsets": list_offsets.list_offsets,
            "OffsetForLeaderEpoch": list_offsets.offset_for_leader_epoch,
            "DescribeProducers": list_offsets.describe_producers,
            "Metadata": metadata.metadata,
            "ApiVersions": metadata.api_versions,
            "FindCoordinator": metadata.find_coordinator,
            "DescribeCluster": metadata.describe_cluster,
            "DescribeTopicPartitions": metadata.describe_topic_partitions,
            "CreateTopics": admin.create_topics,
            "DeleteTopics": admin.delete_topics,
            "CreatePartitions": admin.create_partitions,
            "DeleteRecords": admin.delete_records,
            "DescribeConfigs": admin.describe_configs,
            "AlterConfigs": configs.alter_configs,
            "IncrementalAlterConfigs": configs.incremental_alter_configs,
            "ListConfigResources": configs.list_config_resources,
            "DescribeLogDirs": replicas.describe_log_dirs,
            "ElectLeaders": replicas.elect_leaders,
            "AlterPartitionReassignments": replicas.alter_partition_reassignments,
            "ListPartitionReassignments": replicas.list_partition_reassignments,
            "WriteTxnMarkers": replicas.write_txn_markers,
            "DescribeAcls": access.describe_acls,
            "CreateAcls": access.create_acls,
            "DeleteAcls": access.delete_acls,
            "DescribeClientQuotas": access.describe_client_quotas,
            "DescribeUserScramCredentials": access.describe_user_scram_credentials,
            "JoinGroup": groups.handle_join_group,
            "SyncGroup": groups.handle_sync_group,
            "Heartbeat": groups.handle_heartbeat,
            "LeaveGroup": groups.handle_leave_group,
            "OffsetCommit": groups.handle_offset_commit,
            "OffsetFetch": groups.handle_offset_fetch,
            "OffsetDelete": groups.handle_offset_delete,
            "TxnOffsetCommit": self._txn_offset_commit,
            "ConsumerGroupHeartbeat": groups.handle_consumer_group_heartbeat,
            "ConsumerGroupDescribe": groups.handle_consumer_group_describe,
            "DescribeGroups": groups.handle_describe_groups,
            "ListGroups": self._list_groups,
            "DeleteGroups": groups.handle_delete_groups,
            "InitProducerId": transactions.handle_init_producer_id,
            "AddPartitionsToTxn": transactions.handle_add_partitions_to_txn,
            "AddOffsetsToTxn": transactions.handle_add_offsets_to_txn,
            "EndTxn": transactions.handle_end_txn,
            "ListTransactions": transactions.handle_list_transactions,
            "DescribeTransactions": transactions.handle_describe_transactions,
        }

    def handle(self, call: Call, api: str) -> None:
        """Answer the call, now or later; whatever happens inside becomes an answer too."""
        try:
            if call.request is not None and (code := self._not_ours(call, api)):
                call.reply(error_response(call.request, call.version, code))
                return
            handler = self._handlers.get(api)
            if handler is None:
                # SASL, where no login is needed.
                raise Refused(Code.ILLEGAL_SASL_STATE)
            handler(call)
        except Refused as refused:
            self._refuse(call, refused.code)
        except Exception:
            # A bug in us: the client gets Kafka's word for it, the log says what it was.
            _trace.error(
                "broker.request_failed",
                api=api,
                api_version=call.version,
                node=call.node,
                traceback=traceback.format_exc(),
            )
            self._refuse(call, Code.UNKNOWN_SERVER_ERROR)

    def _refuse(self, call: Call, code: Code) -> None:
        if not call.waiting:
            return
        try:
            refused = error_response(call.request, call.version, code) if call.request else CLOSE
        except Exception:
            # The request that made the handler raise may make `error_response` raise, too. Then the
            # connection is closed, as Kafka does when it cannot make an answer.
            refused = CLOSE
        call.reply(refused)

    def _not_ours(self, call: Call, api: str) -> Code | None:
        """Why this broker does not answer for these groups or transactions, None if it does."""
        if api not in _KEYS:
            return None
        topic, keys_of = _KEYS[api]
        for key in keys_of(call.request):
            if not key:
                continue
            coordinator = self._coordinators.coordinator(topic, key)
            if coordinator is None:
                return Code.COORDINATOR_NOT_AVAILABLE
            if coordinator.node_id != call.node:
                return Code.NOT_COORDINATOR
        return None

    def _list_groups(self, call: Call) -> None:
        """Each broker lists the groups it coordinates."""

        def ours(response: Any) -> None:
            response.groups = [
                group
                for group in response.groups
                if self._coordinators.coordinates(call.node, GROUP_OFFSETS, group.group_id)
            ]
            call.reply(response)

        self._groups.handle_list_groups(call.answered_by(ours))

    def _txn_offset_commit(self, call: Call) -> None:
        """From version 5 on a commit adds its group to the transaction by itself (KIP-890)."""
        request = call.request
        transaction = (request.transactional_id, request.producer_id, request.producer_epoch)

        def verify() -> None:
            if call.version >= _IMPLICIT_ADD:
                self._transactions.add_group_implicitly(*transaction, request.group_id, call.now)
            else:
                self._transactions.verify_group(
                    *transaction, request.group_id, abortable=call.version >= _KNOWS_ABORTABLE
                )

        self._groups.handle_txn_offset_commit(call, verify)
