"""Configs changed at run time: AlterConfigs, its incremental successor, and what has configs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final

from kafka.protocol.admin import (
    AlterConfigsResponse,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesResponse,
)

from aktor.broker.call import Call
from aktor.broker.codes import Code, Refused
from aktor.broker.topic_configs import TOPIC_CONFIGS, ConfigType, check_topic_configs
from aktor.broker.topics import Topic
from aktor.broker.topology import Topology

__all__ = ["ConfigAdmin"]

_Resource: Final = ListConfigResourcesResponse.ConfigResource

#: Of a request about one resource: names and values, and what to do with them if that is said.
Changes = Sequence[Any]
#: What a topic's configs are after changes, given those before and the cluster's; raises Refused.
Change = Callable[[Mapping[str, str], Changes, Mapping[str, str]], Mapping[str, str]]


class _ResourceType(IntEnum):
    """Numbers of org.apache.kafka.common.config.ConfigResource.Type."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class _Operation(IntEnum):
    """Numbers of org.apache.kafka.clients.admin.AlterConfigOp.OpType."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigAdmin:
    """Any broker answers these. Topics' configs can be changed, brokers' are set at the start."""

    def __init__(self, topology: Topology, *, topic_configs: Mapping[str, str]) -> None:
        self._topology = topology
        self._topics = topology.topics
        self._defaults = topic_configs

    def incremental_alter_configs(self, call: Call) -> None:
        """IncrementalAlterConfigs: single configs, and single items of lists (KIP-339)."""
        self._alter(call, IncrementalAlterConfigsResponse, _changed)

    def alter_configs(self, call: Call) -> None:
        """AlterConfigs: what is not mentioned goes back to its default."""
        self._alter(call, AlterConfigsResponse, _replaced)

    def _alter(self, call: Call, response: Any, change: Change) -> None:
        asked = call.request.resources
        times = Counter((resource.resource_type, resource.resource_name) for resource in asked)
        results = []
        for resource in asked:
            code, why = Code.NONE, None
            try:
                if times[resource.resource_type, resource.resource_name] > 1:
                    raise Refused(Code.INVALID_REQUEST, "Each resource must appear at most once.")
                self._alter_one(resource, change, node=call.node, dry=call.request.validate_only)
            except Refused as refused:
                code, why = refused.code, refused.message
            results.append(
                response.AlterConfigsResourceResponse(
                    error_code=code,
                    error_message=why,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
            )
        call.reply(response(responses=results))

    def _alter_one(self, wanted: Any, change: Change, *, node: int, dry: bool) -> None:
        """Raises Refused."""
        if len({config.name for config in wanted.configs}) < len(wanted.configs):
            raise Refused(Code.INVALID_REQUEST, "Error due to duplicate config keys")
        _refuse_nulls(wanted.configs)
        if wanted.resource_type == _ResourceType.BROKER:
            _refuse_broker(wanted, node)
            return
        if wanted.resource_type != _ResourceType.TOPIC:
            raise Refused(Code.INVALID_REQUEST, _unalterable(wanted.resource_type))
        topic = self._topic(wanted.resource_name)
        configs = change(topic.configs, wanted.configs, self._defaults)
        checked = check_topic_configs(configs, defaults=self._defaults)
        if not dry:
            self._topics.configure(topic, checked)

    def _topic(self, name: str) -> Topic:
        if not name:
            raise Refused(Code.INVALID_REQUEST, "Default topic resources are not allowed.")
        topic = self._topics.get(name)
        if topic is None:
            text = f"The topic '{name}' does not exist."
            raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, text)
        return topic

    def list_config_resources(self, call: Call) -> None:
        """ListConfigResources (KIP-1142); version 0 knows client metrics only."""
        known = frozenset(_ResourceType)
        asked = [_ResourceType.CLIENT_METRICS]
        if call.version > 0:
            asked = list(dict.fromkeys(call.request.resource_types)) or sorted(known, reverse=True)
        if not known.issuperset(asked):
            refusal = ListConfigResourcesResponse(
                error_code=Code.UNSUPPORTED_VERSION, config_resources=[]
            )
            call.reply(refusal)
            return
        call.reply(
            ListConfigResourcesResponse(
                error_code=Code.NONE,
                config_resources=[
                    _Resource(resource_name=name, resource_type=int(kind))
                    for kind in asked
                    for name in self._resources(kind)
                ],
            )
        )

    def _resources(self, kind: int) -> Sequence[str]:
        """Names of what has configs of this kind; here groups and client metrics never do."""
        if kind == _ResourceType.TOPIC:
            return self._topics.names()
        if kind in (_ResourceType.BROKER, _ResourceType.BROKER_LOGGER):
            return [str(node.node_id) for node in self._topology.up()]
        return ()


def _unalterable(kind: int) -> str:
    if kind in frozenset(_ResourceType):
        name = _ResourceType(kind).name
        return f"The embedded cluster cannot alter configs of resources of type {name}."
    return f"Unknown resource type {kind}"


def _refuse_nulls(configs: Changes) -> None:
    nulls = [
        config.name
        for config in configs
        if config.value is None and getattr(config, "config_operation", None) != _Operation.DELETE
    ]
    if nulls:
        text = f"Null value not supported for : {','.join(nulls)}"
        raise Refused(Code.INVALID_REQUEST, text)


def _refuse_broker(wanted: Any, node: int) -> None:
    """Refuse to change a broker's config, with Kafka's message for configs that need a restart. A
    request that only resets configs (null values) succeeds: none was ever set at run time."""
    name = wanted.resource_name
    if name and not name.lstrip("-").isdigit():
        raise Refused(Code.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if name and int(name) != node:
        text = f"Unexpected broker id, expected {node}, but received {name}"
        raise Refused(Code.INVALID_REQUEST, text)
    names = [config.name for config in wanted.configs if config.value is not None]
    if names:
        text = f"Cannot update these configs dynamically: [{', '.join(names)}]"
        raise Refused(Code.INVALID_REQUEST, text)


def _replaced(
    _before: Mapping[str, str], configs: Changes, _defaults: Mapping[str, str]
) -> Mapping[str, str]:
    return {config.name: config.value for config in configs}


def _changed(
    before: Mapping[str, str], configs: Changes, defaults: Mapping[str, str]
) -> Mapping[str, str]:
    after = dict(before)
    for config in configs:
        if config.config_operation == _Operation.SET:
            after[config.name] = config.value
        elif config.config_operation == _Operation.DELETE:
            after.pop(config.name, None)
        else:
            after[config.name] = _changed_list(config, {**defaults, **after})
    return after


def _changed_list(change: Any, configs: Mapping[str, str]) -> str:
    """A list with items added or taken away. Raises Refused."""
    if change.config_operation not in (_Operation.APPEND, _Operation.SUBTRACT):
        raise Refused(Code.UNKNOWN_SERVER_ERROR)
    operation = _Operation(change.config_operation)
    key = TOPIC_CONFIGS.get(change.name)
    if key is None or key.type is not ConfigType.LIST:
        raise Refused(
            Code.INVALID_CONFIG,
            f"Can't {operation.name} to key {change.name} because its type is not LIST.",
        )
    items = dict.fromkeys(_items(configs.get(change.name, key.default or "")))
    for item in _items(change.value):
        if operation is _Operation.APPEND:
            items[item] = None
        else:
            items.pop(item, None)
    return ",".join(items)


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")] if text.strip() else []
