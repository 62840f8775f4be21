"""What administrators may see of groups, and how they delete them."""

from __future__ import annotations

from typing import Any, Final

from kafka.protocol.admin import DeleteGroupsResponse, DescribeGroupsResponse, ListGroupsResponse

from aktor.broker.call import Call
from aktor.broker.codes import Code, Refused
from aktor.broker.groups.classic.group import ClassicGroup
from aktor.broker.groups.directory import Directory, Group, is_empty
from aktor.broker.groups.offsets.committed import GroupOffsets
from aktor.protocol.consumer_group import ConsumerGroupDescribeResponse

__all__ = ["Listing"]

#: The first DescribeGroups that says so if it does not know a group (KIP-1043).
_NOT_FOUND: Final = 6
#: The first ListGroups with the filters.
_STATES: Final = 4
_TYPES: Final = 5

#: What may be done to a group, by AclOperation: read, delete, describe, and describe and alter its
#: configs. Nobody is kept from anything here.
_ALL_OPERATIONS: Final = frozenset((3, 6, 8, 10, 11))
#: "You have not asked", where operations are bits.
_NOT_ASKED: Final = -(2**31)

_Described: Any = DescribeGroupsResponse.DescribedGroup
_Member: Any = _Described.DescribedGroupMember
_Listed: Any = ListGroupsResponse.ListedGroup
_Deleted: Any = DeleteGroupsResponse.DeletableGroupResult
_ConsumerDescribed: Any = ConsumerGroupDescribeResponse.DescribedGroup


class Listing:
    """Answers DescribeGroups, ConsumerGroupDescribe, ListGroups and DeleteGroups."""

    def __init__(self, *, groups: Directory, offsets: GroupOffsets) -> None:
        self._groups = groups
        self._offsets = offsets

    def describe(self, call: Call) -> Any:
        """The answer to a DescribeGroups: classic groups only, others count as dead."""
        operations = set(_ALL_OPERATIONS) if call.request.include_authorized_operations else None
        return DescribeGroupsResponse(
            groups=[
                self._describe(group_id, call.version, operations)
                for group_id in call.request.groups
            ]
        )

    def _describe(self, group_id: str, version: int, operations: set[int] | None) -> Any:
        try:
            group = self._groups.classic(group_id)
        except Refused as refused:
            dead = _Described(
                group_id=group_id,
                group_state="Dead",
                protocol_type="",
                protocol_data="",
                members=[],
                authorized_operations=operations if version < _NOT_FOUND else None,
            )
            if version >= _NOT_FOUND:
                dead.error_code, dead.error_message = refused.code, refused.message
            return dead
        described = group.describe()
        return _Described(
            group_id=group_id,
            group_state=described["state"],
            protocol_type=described["protocol_type"],
            protocol_data=described["protocol_data"],
            members=[_Member(**member) for member in described["members"]],
            authorized_operations=operations,
        )

    def describe_consumer_groups(self, call: Call) -> Any:
        """The answer to a ConsumerGroupDescribe (KIP-848)."""
        asked = call.request.include_authorized_operations
        operations = sum(1 << operation for operation in _ALL_OPERATIONS) if asked else _NOT_ASKED
        return ConsumerGroupDescribeResponse(
            groups=[
                self._describe_consumer_group(group_id, operations)
                for group_id in call.request.group_ids
            ]
        )

    def _describe_consumer_group(self, group_id: str, operations: int) -> Any:
        try:
            if not group_id:
                raise Refused(Code.INVALID_GROUP_ID)
            described = self._groups.consumer(group_id).describe()
        except Refused as refused:
            return _ConsumerDescribed(
                error_code=refused.code,
                error_message=refused.message,
                group_id=group_id,
                group_state="",
                assignor_name="",
                members=[],
            )
        return _ConsumerDescribed(**described, authorized_operations=operations)

    def list(self, call: Call) -> Any:
        """The answer to a ListGroups: all groups that pass the filters, whatever their case."""
        request, version = call.request, call.version
        states = request.states_filter if version >= _STATES else None
        types = request.types_filter if version >= _TYPES else None
        wanted_states = {state.strip().lower() for state in states or ()}
        wanted_types = {kind.lower() for kind in types or ()}
        return ListGroupsResponse(
            groups=[
                _Listed(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type or "",
                    group_state=str(group.state),
                    group_type=_type(group),
                )
                for group in self._groups
                if (not wanted_states or group.state.lower() in wanted_states)
                and (not wanted_types or _type(group) in wanted_types)
            ]
        )

    def delete(self, call: Call) -> Any:
        """The answer to a DeleteGroups. What open transactions have committed goes as well."""
        results = []
        for group_id in dict.fromkeys(call.request.groups_names):
            code = Code.NONE
            try:
                self._delete(group_id, call.now)
            except Refused as refused:
                code = refused.code
            results.append(_Deleted(group_id=group_id, error_code=code))
        return DeleteGroupsResponse(results=results)

    def _delete(self, group_id: str, now: float) -> None:
        group = self._groups[group_id]
        if not is_empty(group):
            raise Refused(Code.NON_EMPTY_GROUP)
        self._offsets.delete_group(group_id)
        self._groups.remove(group, now)


def _type(group: Group) -> str:
    return "classic" if isinstance(group, ClassicGroup) else "consumer"
