"""A provider of OAUTHBEARER tokens whose `token` is a coroutine function, as aiokafka's have it.

A login asks for a token on a thread that may block, and not on the one that sends the heartbeats.
The coroutine runs in the consumer's event loop, where the application's HTTP client is at home.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Final

__all__ = ["LoopTokens"]

#: So long a login waits for a token, in seconds.
TOKEN_WAIT: Final = 30.0


class LoopTokens:
    """The provider, as a login calls it: from a thread, for a `str`."""

    def __init__(self, provider: Any) -> None:
        self.provider = provider
        #: The consumer's event loop, once it is started.
        self.loop: asyncio.AbstractEventLoop | None = None
        self.extensions: Callable[[], Any] = getattr(provider, "extensions", dict)

    @classmethod
    def of(cls, provider: Any) -> LoopTokens | None:
        """None if there is no provider, or if its `token` is a function."""
        asks = getattr(provider, "token", None)
        return cls(provider) if inspect.iscoroutinefunction(asks) else None

    def token(self) -> Any:
        """Run the provider's coroutine in the event loop, and wait for its token.

        Raises what it raises, TimeoutError after `TOKEN_WAIT`, and RuntimeError if the event loop
        is closed.
        """
        coroutine: Coroutine[Any, Any, Any] = self.provider.token()
        assert self.loop is not None, "a login before the start"
        try:
            running = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        except RuntimeError:
            coroutine.close()
            raise
        try:
            return running.result(TOKEN_WAIT)
        except concurrent.futures.TimeoutError:
            if running.done():
                raise  # it is the coroutine's own
            running.cancel()
            raise TimeoutError(
                f"token() of the provider has not returned within {TOKEN_WAIT:.0f} s; it runs in"
                " the consumer's event loop, which may be blocked"
            ) from None
