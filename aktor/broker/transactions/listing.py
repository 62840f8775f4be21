"""What ListTransactions and DescribeTransactions show."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kafka.protocol.admin import DescribeTransactionsResponse, ListTransactionsResponse

from aktor.broker.codes import Code
from aktor.broker.transactions.transaction import State, Transaction

__all__ = ["describe", "matching"]

_OFFSETS_TOPIC: Final = "__consumer_offsets"


def matching(transactions: Iterable[Transaction], request: Any, now: float) -> Any:
    """A ListTransactionsResponse with those that pass every filter that is set."""
    try:
        pattern = re.compile(request.transactional_id_pattern or ".*", re.DOTALL)
    except re.error:
        return ListTransactionsResponse(error_code=Code.INVALID_REGULAR_EXPRESSION)
    names = {state.value for state in State}
    return ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in names],
        transaction_states=[
            ListTransactionsResponse.TransactionState(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.value,
            )
            for transaction in transactions
            if pattern.fullmatch(transaction.transactional_id)
            and _passes(transaction, request, now)
        ],
    )


def _passes(transaction: Transaction, request: Any, now: float) -> bool:
    if request.producer_id_filters and transaction.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and transaction.state.value not in request.state_filters:
        return False
    if request.duration_filter < 0 or transaction.started is None:
        return True
    return bool((now - transaction.started) * 1000 > request.duration_filter)


def describe(
    transactions: Mapping[str, Transaction], wanted: Iterable[str], offsets_partitions: int
) -> Any:
    """A DescribeTransactionsResponse with one entry for each id that is wanted."""
    return DescribeTransactionsResponse(
        transaction_states=[
            _description(transactional_id, transactions.get(transactional_id), offsets_partitions)
            for transactional_id in wanted
        ]
    )


def _description(
    transactional_id: str, transaction: Transaction | None, offsets_partitions: int
) -> Any:
    if transaction is None:
        code = Code.TRANSACTIONAL_ID_NOT_FOUND if transactional_id else Code.INVALID_REQUEST
        return DescribeTransactionsResponse.TransactionState(
            error_code=code, transactional_id=transactional_id
        )
    by_topic: dict[str, list[int]] = {}
    for topic, partition in _all_partitions(transaction, offsets_partitions):
        by_topic.setdefault(topic, []).append(partition)
    started = transaction.started
    return DescribeTransactionsResponse.TransactionState(
        transactional_id=transactional_id,
        transaction_state=transaction.state.value,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=-1 if started is None else int(started * 1000),
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[
            DescribeTransactionsResponse.TransactionState.TopicData(topic=topic, partitions=found)
            for topic, found in by_topic.items()
        ],
    )


def _all_partitions(transaction: Transaction, offsets_partitions: int) -> Iterable[tuple[str, int]]:
    """Groups show as their partitions of the offsets topic, which is what Kafka keeps."""
    groups = (
        (_OFFSETS_TOPIC, _offsets_partition(g, offsets_partitions)) for g in transaction.groups
    )
    return dict.fromkeys((*transaction.partitions, *groups))


def _offsets_partition(group_id: str, partitions: int) -> int:
    """By the absolute value of Java's String.hashCode."""
    code = 0
    units = group_id.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    # The least int has no absolute value: Kafka takes 0.
    return (code if code < 2**31 else (2**32 - code) & 0x7FFFFFFF) % partitions
