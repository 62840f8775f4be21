"""The latest errors of connections: brokers that cannot be reached, or that refuse us."""

from __future__ import annotations

from collections.abc import Mapping

from aktor.events.network import (
    BootstrapFailed,
    BrokerRefused,
    BrokersLost,
    BrokersUnreachable,
)

__all__ = ["ConnectionView"]


class ConnectionView:
    """Owns the latest errors of connections.

    The background thread writes all fields but `_taken`: the error that the application has taken.
    """

    __slots__ = ("_error", "_taken", "_unreachable", "lost")

    def __init__(self) -> None:
        #: Brokers that are needed and have not been reached for long, by node, with the reason.
        self.lost: Mapping[int, str] = {}
        self._error: BrokerRefused | BootstrapFailed | BrokersUnreachable | None = None
        self._taken: BrokerRefused | BootstrapFailed | BrokersUnreachable | None = None
        self._unreachable: BootstrapFailed | BrokersUnreachable | None = None

    # -- the background's side

    def on_refused(self, report: BrokerRefused) -> None:
        """A broker has refused us."""
        self._error = report

    def on_unreachable(self, report: BootstrapFailed | BrokersUnreachable) -> None:
        """No broker can be reached."""
        self._unreachable = self._error = report

    def on_reached(self) -> None:
        """A broker can be reached after all."""
        if self._error is self._unreachable:
            self._error = None
        self._unreachable = None

    def on_lost(self, report: BrokersLost) -> None:
        """These brokers have not been reached for long."""
        self.lost = report.brokers

    def on_answer(self) -> None:
        """A broker has answered: the last error is over."""
        self._error = None

    def on_restarted(self) -> None:
        """The network actor was restarted: the new one finds out for itself."""
        self.lost = {}
        self._unreachable = None

    # -- the application's side

    def take_error(self) -> Exception | None:
        """The latest error, once."""
        report = self._error
        if report is None or report is self._taken:
            return None
        self._taken = report
        return report.error

    @property
    def unreachable(self) -> Exception | None:
        """Why no broker can be reached, while that lasts. From any thread."""
        report = self._unreachable
        return None if report is None else report.error
