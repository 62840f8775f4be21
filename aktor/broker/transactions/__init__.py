"""Transactions as their coordinator sees them: the producer of each id, and what is open."""

from __future__ import annotations

from aktor.broker.transactions.coordinator import TransactionCoordinator
from aktor.broker.transactions.ports import Ports
from aktor.broker.transactions.settings import TransactionSettings
from aktor.broker.transactions.transaction import State

__all__ = ["Ports", "State", "TransactionCoordinator", "TransactionSettings"]
