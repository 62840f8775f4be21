"""Rules of the conversation on one connection, without a socket: bytes in, bytes out, what next."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.errors import UnsupportedVersionError
from kafka.protocol.consumer import JoinGroupRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

from aktor.actors.sockets.conversation import (
    TRANSITIONS,
    Broken,
    Conversation,
    ConversationEvent,
    ConversationState,
    Opened,
    RenewAfter,
    ResponseRead,
    Work,
)
from aktor.actors.sockets.diagnosis import Diagnosis, Phase
from aktor.actors.sockets.frames import SCRATCH_SIZE, BadLength
from aktor.actors.sockets.handshake import mechanism_of
from aktor.errors import AuthenticationError, FrameError
from aktor.settings import Settings
from aktor.simulation.world.connections import VERSIONS
from aktor.state_table import IllegalTransitionError
from tests.unit.actors.sockets.scripted_broker import (
    SPOKEN,
    Request,
    api_versions,
    framed,
    metadata,
)

BEGUN, LOGIN_WANTED, OPENED, LOGIN_ENDS = ConversationEvent
State = ConversationState


class Talk:
    """A conversation, and the broker's side of it by hand."""

    def __init__(self, *, jitter: float = 0.5, **settings: Any) -> None:
        given = Settings(**settings)
        self.diagnosis = Diagnosis(
            "a:9092",
            security_protocol=given.security_protocol,
            mechanism=mechanism_of(given),
            config=given.connection,
        )
        self.own = Conversation(
            given, self.diagnosis, scratch=bytearray(SCRATCH_SIZE), jitter=jitter
        )

    def sent(self) -> list[Request]:
        """What has gone out since this was last asked."""
        data = b"".join(self.own.unsent)
        self.own.unsent.clear()
        return list(_cut(data))

    def news(self) -> list[Any]:
        """What it has wanted since this was last asked."""
        news = list(self.own.news)
        self.own.news.clear()
        return news

    def answer(self, response: Any) -> None:
        """Answer the one request that has gone out."""
        (request,) = self.sent()
        self.own.take(framed(request, response(request)))

    def greet(self) -> Talk:
        self.own.begin("a")
        while self.own.state is State.VERSIONING:
            self.answer(lambda request: api_versions(request.version))
        return self

    def work(self) -> None:
        """Do the work that it wants done."""
        (work,) = self.news()
        assert isinstance(work, Work)
        self.own.worked(work.work(), None)

    def log_in(self, lifetime_ms: int = 0, error_code: int = 0) -> None:
        """Let it in, from SaslHandshake on."""
        self.answer(shaken)
        self.work()  # make the mechanism
        self.work()  # its token
        self.answer(
            lambda request: SaslAuthenticateResponse(
                version=request.version,
                error_code=error_code,
                error_message="no" if error_code else None,
                auth_bytes=b"",
                session_lifetime_ms=lifetime_ms,
            )
        )
        self.work()  # it reads the answer


def shaken(request: Request) -> Any:
    return SaslHandshakeResponse(version=request.version, error_code=0, mechanisms=["PLAIN"])


def _cut(data: bytes) -> Iterator[Request]:
    while data:
        (length,) = struct.unpack_from(">i", data)
        yield Request(data[4 : 4 + length])
        data = data[4 + length :]


def plain(**more: Any) -> Talk:
    login = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "u", "sasl_plain_password": "p"}
    return Talk(security_protocol="SASL_PLAINTEXT", connection=login, **more)


def logged_in(lifetime_ms: int, jitter: float = 0.5) -> Talk:
    talk = plain(jitter=jitter).greet()
    talk.log_in(lifetime_ms)
    return talk


# -- the table


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", ConversationEvent)
def test_it_moves_as_its_table_says_or_refuses(state: State, event: ConversationEvent) -> None:
    own = Talk().own
    own.state = state
    if event in TRANSITIONS[state]:
        own._move(event)
        assert own.state is TRANSITIONS[state][event]
    else:
        with pytest.raises(IllegalTransitionError):
            own._move(event)


def test_every_state_can_be_reached_and_left() -> None:
    reached = {after for moves in TRANSITIONS.values() for after in moves.values()}
    assert reached | {State.SILENT} == set(State) == set(TRANSITIONS)
    assert all(TRANSITIONS.values())


# -- the beginning


def test_it_begins_with_api_versions_and_is_open_when_they_are_known() -> None:
    talk = Talk()
    talk.own.begin("a")
    assert (talk.own.state, talk.diagnosis.phase) == (State.VERSIONING, Phase.VERSIONING)
    assert talk.news() == []

    talk.answer(lambda request: api_versions(request.version, SPOKEN | {18: 4}))
    (opened,) = talk.news()
    assert isinstance(opened, Opened)
    assert opened.versions.api_version(MetadataRequest(topics=None)) == SPOKEN[3]
    assert (talk.own.state, talk.diagnosis.phase) == (State.OPEN, Phase.UNPROVEN)


def test_a_broker_that_does_not_know_our_api_versions_is_asked_in_its_own() -> None:
    talk = Talk()
    talk.own.begin("a")
    talk.answer(lambda request: api_versions(request.version, SPOKEN | {18: 0}))
    assert talk.own.state is State.VERSIONING
    talk.answer(lambda request: api_versions(request.version, SPOKEN | {18: 0}))
    assert talk.own.state is State.OPEN


def test_a_broker_from_before_api_versions_is_asked_nothing() -> None:
    talk = Talk(connection={"api_version": (0, 9)})
    talk.own.begin("a")
    assert talk.own.state is State.OPEN
    assert talk.sent() == []


def test_where_versions_are_known_nothing_is_said_first() -> None:
    talk = Talk()
    talk.own.begin_with(VERSIONS)
    assert talk.news() == [Opened(VERSIONS)]
    assert talk.sent() == []


def test_a_login_follows_the_versions_and_its_work_is_done_elsewhere() -> None:
    talk = plain().greet()
    assert (talk.own.state, talk.diagnosis.phase) == (State.LOGGING_IN, Phase.LOGGING_IN)
    assert talk.news() == []
    talk.log_in()
    (opened,) = talk.news()
    assert isinstance(opened, Opened), "a login that does not end is not renewed"
    assert talk.own.state is State.OPEN


def test_wrong_credentials_end_it() -> None:
    talk = plain().greet()
    with pytest.raises(AuthenticationError, match="no"):
        talk.log_in(error_code=58)


def test_work_that_fails_ends_it_with_its_cause() -> None:
    talk = plain().greet()
    talk.answer(shaken)
    talk.news()
    failure = LookupError("no token today")
    with pytest.raises(AuthenticationError, match="no token today") as caught:
        talk.own.worked(None, failure)
    assert caught.value.__cause__ is failure


# -- the end of a login (KIP-368)


@pytest.mark.parametrize(("jitter", "after"), [(0.0, 51.0), (0.5, 54.0), (1.0, 57.0)])
def test_a_login_is_renewed_in_its_last_part_lest_all_renew_at_once(
    jitter: float, after: float
) -> None:
    opened, renew = logged_in(60_000, jitter).news()
    assert isinstance(opened, Opened)
    assert renew == RenewAfter(pytest.approx(after))


def test_a_login_that_ends_at_once_is_renewed_after_a_second_at_most() -> None:
    assert logged_in(1, 1.0).news()[1] == RenewAfter(pytest.approx(0.95))


def test_requests_wait_while_the_login_is_renewed_and_are_sent_in_their_order() -> None:
    talk = logged_in(60_000)
    talk.news()
    talk.own.renew()
    talk.own.send(1, MetadataRequest(topics=None))
    talk.own.send(2, MetadataRequest(topics=None))
    assert talk.own.state is State.RENEWING
    assert len(talk.own.unsent) == 1, "SaslHandshake and nothing else"

    talk.log_in(60_000)
    assert talk.own.state is State.OPEN
    assert talk.news() == [RenewAfter(pytest.approx(54.0))]
    assert [one.api_key for one in talk.sent()] == [3, 3]
    assert [one.request_id for one in talk.own.in_flight] == [1, 2]


def test_an_answer_that_was_due_before_the_renewal_comes_before_it() -> None:
    talk = logged_in(60_000)
    talk.news()
    talk.own.send(1, MetadataRequest(topics=None))
    (request,) = talk.sent()
    talk.own.renew()
    (handshake,) = talk.sent()
    talk.own.take(framed(request, metadata(request.version)))
    talk.own.take(framed(handshake, shaken(handshake)))
    answer, work = talk.news()
    assert (answer.request_id, type(work)) == (1, Work)


def test_a_login_that_cannot_be_renewed_ends_it_and_carries_no_secret() -> None:
    talk = logged_in(60_000)
    talk.news()
    talk.own.renew()
    with pytest.raises(Exception, match="could not be renewed: no") as caught:
        talk.log_in(error_code=58)
    assert caught.value.__cause__ is caught.value.__context__ is None


# -- requests and answers


def test_an_answer_comes_with_its_request_and_proves_the_listener() -> None:
    talk = Talk().greet()
    talk.news()
    talk.own.send(7, MetadataRequest(topics=None))
    asked = sum(map(len, talk.own.unsent))
    talk.answer(lambda request: metadata(request.version))
    (answer,) = talk.news()
    assert isinstance(answer, ResponseRead)
    assert answer.sizes[0] == asked > 0
    assert answer.sizes[1] > 4
    assert (answer.request_id, answer.version, answer.throttle) == (7, SPOKEN[3], 0.0)
    assert talk.diagnosis.phase is Phase.PROVEN
    assert not talk.own.in_flight


def test_an_answer_may_come_in_any_pieces_and_is_heard_while_it_comes() -> None:
    talk = Talk().greet()
    talk.news()
    talk.own.send(7, MetadataRequest(topics=None))
    (request,) = talk.sent()
    data = framed(request, metadata(request.version))
    for byte in data[:-1]:
        talk.own.take(bytes([byte]))
    assert (talk.news(), talk.own.has_heard(), talk.own.has_heard()) == ([], True, False)
    talk.own.take(data[-1:])
    assert [one.request_id for one in talk.news()] == [7]


def test_requests_that_cannot_be_sent_break_alone() -> None:
    talk = Talk().greet()
    talk.news()
    talk.own.send(1, JoinGroupRequest(group_id="g"))
    talk.own.send(2, MetadataRequest(topics=5))
    old, odd = talk.news()
    assert isinstance(old, Broken)
    assert isinstance(old.error, UnsupportedVersionError)
    assert "a:9092" in str(old.error)
    assert (odd.request_id, "MetadataRequest" in str(odd.error)) == (2, True)
    assert not talk.own.unsent
    assert not talk.own.in_flight


def test_bytes_that_are_not_kafkas_end_it() -> None:
    talk = Talk().greet()
    with pytest.raises(BadLength):
        talk.own.take(b"HTTP/1.1 400 Bad Request")


def test_an_answer_to_no_request_ends_it() -> None:
    talk = Talk().greet()
    with pytest.raises(FrameError, match="to no request"):
        talk.own.take(struct.pack(">ii", 4, 1))


def test_what_precedes_the_bytes_that_end_it_is_news() -> None:
    talk = Talk().greet()
    talk.news()
    talk.own.send(7, MetadataRequest(topics=None))
    (request,) = talk.sent()
    with pytest.raises(BadLength):
        talk.own.take(framed(request, metadata(request.version)) + b"HTTP/1.1")
    assert [one.request_id for one in talk.news()] == [7]
