"""What actors run on: the dispatcher, handlers of messages, ticks, and supervision."""

from aktor.actors.runtime.dispatcher import CooperativeActor

__all__ = ["CooperativeActor"]
