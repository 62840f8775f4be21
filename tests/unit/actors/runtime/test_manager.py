"""The base of the managers: duties, and the times that they say they are due."""

from __future__ import annotations

import math
from typing import ClassVar

import pytest
from kafka.protocol.consumer import HeartbeatRequest, LeaveGroupRequest
from kafka.protocol.metadata import MetadataRequest

from aktor.actors.runtime.handlers import answers_to, failure_of
from aktor.actors.runtime.manager import AGAIN, NEVER, Duty, RequestManager
from aktor.events.network import RequestFailed, ResponseReceived
from aktor.settings import Settings


class Alarm(RequestManager):
    """Says at each of its times that it is so late; then waits for a message."""

    name: ClassVar[str] = "alarm"

    def __init__(self, *times: float, stuck: bool = False) -> None:
        super().__init__(Settings())
        self._times = list(times)
        self._stuck = stuck

    def duties(self) -> tuple[Duty, ...]:
        return (self._ring, self._never)

    def _ring(self, now: float, _jitter: float) -> float:
        if not self._times:
            return NEVER
        if now < self._times[0]:
            return self._times[0]
        if not self._stuck:
            self._say(self._times.pop(0))
        return AGAIN

    def _never(self, _now: float, _jitter: float) -> float:
        return NEVER


def test_a_manager_is_asked_again_when_the_first_of_its_duties_is_due() -> None:
    alarm = Alarm(3.0, 5.0)

    early, late = alarm.poll(2.0, 0.5), alarm.poll(3.0, 0.5)

    assert (early.said, early.wake_at) == ((), 3.0)
    assert (late.said, late.wake_at) == ((3.0,), 5.0)


def test_all_that_is_due_is_done_in_one_poll() -> None:
    result = Alarm(3.0, 5.0).poll(6.0, 0.5)

    assert (result.said, result.wake_at) == ((3.0, 5.0), math.inf)


def test_without_a_backoff_the_next_attempt_is_due_at_once_and_that_is_no_crash() -> None:
    class Hasty(Alarm):
        """What it does fails each time, and `retry_backoff_ms` is 0."""

        def _ring(self, now: float, _jitter: float) -> float:
            self._say("failed")
            return now

    result = Hasty().poll(4.0, 0.5)

    assert (result.said, result.wake_at) == (("failed",), 4.0)


def test_a_duty_that_is_due_and_never_done_is_a_crash_and_no_busy_loop() -> None:
    with pytest.raises(RuntimeError, match="alarm has something to do at once, and never does it"):
        Alarm(3.0, stuck=True).poll(4.0, 0.5)


class Asker(RequestManager):
    """Notes which of its handlers got the end of a request."""

    name: ClassVar[str] = "asker"

    @answers_to(MetadataRequest, note=int)
    def on_number(self, _received: ResponseReceived) -> None:
        self._say("a number's answer")

    @failure_of(MetadataRequest, note=int)
    def on_number_failed(self, _failed: RequestFailed) -> None:
        self._say("a number's failure")

    @answers_to(MetadataRequest, note=str)
    def on_word(self, _received: ResponseReceived) -> None:
        self._say("a word's answer")

    @failure_of(MetadataRequest, note=str)
    def on_word_failed(self, _failed: RequestFailed) -> None:
        self._say("a word's failure")

    @answers_to(HeartbeatRequest, LeaveGroupRequest)
    def on_answer(self, _received: ResponseReceived) -> None:
        self._say("any answer")

    @failure_of(HeartbeatRequest, LeaveGroupRequest)
    def on_failed(self, _failed: RequestFailed) -> None:
        self._say("any failure")

    def ends(self, body: object, note: object) -> list[object]:
        """What is said when there is an answer, and when there is none."""
        request = self.request(body, to=1, deadline=9.0, context=note)
        answer = ResponseReceived(request=request, response=None, node=1, now=1.0, jitter=0.5)
        failure = RequestFailed(request=request, error=OSError(), node=1, now=1.0, jitter=0.5)
        return [*self.handle(answer), *self.handle(failure)]


def test_the_type_of_a_request_and_of_its_note_tell_who_handles_its_end() -> None:
    asker = Asker(Settings())

    assert asker.ends(MetadataRequest(), 1) == ["a number's answer", "a number's failure"]
    assert asker.ends(MetadataRequest(), "one") == ["a word's answer", "a word's failure"]
    assert asker.ends(HeartbeatRequest(), None) == ["any answer", "any failure"]
    assert asker.ends(LeaveGroupRequest(), 1) == ["any answer", "any failure"]


def test_a_request_that_nobody_expects_to_end_is_a_bug() -> None:
    with pytest.raises(KeyError):
        Asker(Settings()).ends(MetadataRequest(), None)
