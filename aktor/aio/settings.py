"""aiokafka's constructor arguments, as the settings of `aktor.KafkaConsumer`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aktor.consumer.configuration.configuration import DEFAULT_CONFIG
from aktor.errors import ConfigurationError

__all__ = ["translated"]

#: A value of aiokafka's that means that nothing is set.
_UNSET: Final[Mapping[str, Any]] = {
    "max_poll_records": None,
    "sasl_mechanism": "PLAIN",  # its default, also without SASL
    "api_version": "auto",
}


def translated(configs: Mapping[str, Any]) -> dict[str, Any]:
    """The settings; `ConfigurationError` if one has no meaning here.

    `loop` must be left out, or None: the consumer belongs to the loop in which it is started.
    `rebalance_timeout_ms` is accepted up to `max_poll_interval_ms`, which is what counts here: as
    in the Java client, a member takes part in a rebalance inside `getmany` and its like.
    """
    given = dict(configs)
    if given.pop("loop", None) is not None:
        raise ConfigurationError(
            "loop is not taken: a consumer belongs to the event loop in which start() is awaited"
        )
    longest = given.get("max_poll_interval_ms", DEFAULT_CONFIG["max_poll_interval_ms"])
    rebalance = given.pop("rebalance_timeout_ms", None)
    if rebalance is not None and rebalance > longest:
        raise ConfigurationError(
            f"rebalance_timeout_ms is {rebalance}, but max_poll_interval_ms is {longest}: a member"
            " takes part in a rebalance as it polls. Set max_poll_interval_ms to the larger one"
        )
    for name, unset in _UNSET.items():
        if name in given and given[name] == unset:
            if name == "sasl_mechanism" and "SASL" in str(given.get("security_protocol")):
                continue
            del given[name]
    assignors = given.get("partition_assignment_strategy")
    if isinstance(assignors, list | tuple):
        given["partition_assignment_strategy"] = [_assignor(one) for one in assignors]
    return given


def _assignor(given: Any) -> Any:
    """aiokafka's own assignors are ours of the same names."""
    kind = given if isinstance(given, type) else type(given)
    return kind.name if kind.__module__.startswith("aiokafka.") else given  # type: ignore[attr-defined]
