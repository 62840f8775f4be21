"""Whether an EndTxn may end a transaction: retries, fenced producers, states that forbid it."""

from __future__ import annotations

from aktor.broker.codes import Code, Refused
from aktor.broker.transactions.transaction import LAST_EPOCH, State, Transaction

__all__ = ["is_retry", "may_end"]

_COMMITS = (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)
_ABORTS = (State.PREPARE_ABORT, State.COMPLETE_ABORT)
_COMPLETE = (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


def is_retry(transaction: Transaction, producer_id: int, producer_epoch: int) -> bool:
    """Whether a client of KIP-890 asks again for the end it was given, or else for the next one.

    Each end takes an epoch, so the epoch tells. Raises INVALID_PRODUCER_ID_MAPPING or
    PRODUCER_FENCED where it is the epoch of neither.
    """
    bumped = producer_epoch + 1 == transaction.producer_epoch
    rotated = (
        producer_id == transaction.previous_producer_id
        and producer_epoch == LAST_EPOCH
        and transaction.producer_epoch == 0
    )
    if producer_id != transaction.producer_id and not rotated:
        raise Refused(Code.INVALID_PRODUCER_ID_MAPPING)

    current = producer_epoch == transaction.producer_epoch
    if transaction.prepared:
        known = bumped
    elif transaction.state in _COMPLETE:
        known = bumped or rotated or current
    else:
        known = current
    if not known:
        raise Refused(Code.PRODUCER_FENCED)
    return bumped or rotated


def may_end(transaction: Transaction, *, commit: bool, retry: bool) -> bool:
    """Whether there is something to end; False: it ended so before, which is as good.

    Raises CONCURRENT_TRANSACTIONS while markers are written for this very end, INVALID_TXN_STATE
    if it ended the other way, or if there is nothing to end. An abort of nothing is allowed to
    clients of KIP-890, who may not know whether a leader added their partition.
    """
    if transaction.state is State.ONGOING:
        return True
    same = transaction.state in (_COMMITS if commit else _ABORTS)
    if transaction.prepared:
        raise Refused(Code.CONCURRENT_TRANSACTIONS if same else Code.INVALID_TXN_STATE)
    if retry and same:
        return False
    if not retry and not commit:
        return True
    raise Refused(Code.INVALID_TXN_STATE)
