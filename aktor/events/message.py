"""The base class of all messages between actors."""

from __future__ import annotations

from aktor.values import Value

__all__ = ["Message"]


class Message(Value):
    """Base of all messages: plain data, frozen, told from one actor to another.

    `aktor/events/` has a module for each conversation. `events/routes.py` says who hears what.
    """
