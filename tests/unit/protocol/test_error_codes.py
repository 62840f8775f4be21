"""The table of error codes: it is whole, and its rows make sense."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from kafka import errors as kafka_errors
from kafka.errors import (
    IncompatibleBrokerVersion,
    KafkaConnectionError,
    KafkaTimeoutError,
    MemberIdRequiredError,
    NoError,
    UnknownError,
    UnsupportedVersionError,
)

import aktor.errors
from aktor.errors import (
    AuthenticationError,
    BrokersUnreachableError,
    CorruptBatchError,
    InvalidRegularExpressionError,
    RebootstrapRequired,
)
from aktor.protocol.error_codes import (
    ROWS,
    Answer,
    Do,
    error_of,
    forbids_topic,
    is_corrupt,
    means,
    name_of,
)
from tests.error_table import DOCUMENT, actions, document
from tests.sources import forget, tree_of

CODES = [*sorted(code for code in kafka_errors.kafka_errors if code), 128, 129, 150]

#: Who looks at the class of an error only for the words, or the class, of the error that is raised.
WORDS = {
    ("actors/network/links", "failed"),
    ("managers/commits/errors", "_member_refused"),
    ("managers/membership/errors", "refusal"),
    ("managers/fetch/answer", "_refusal"),
    ("managers/metadata/manager", "_refuse"),
    ("actors/sockets/conversation", "_log_in_again"),
    ("actors/sockets/diagnosis", "reason_of"),
}

#: Who treats errors that arise on our side.
OUR_SIDE = {
    ("actors/network/unreachable", "due"),
    ("actors/network/bootstrap", "is_nobody_there"),
    ("actors/sockets/diagnosis", "explain"),
    ("actors/network/actor", "on_connection_failed"),
    ("managers/commits/errors", "no_answer"),
    ("managers/fetch/manager", "on_fetch_failed"),
    ("managers/membership/classic/manager", "_failed_for_good"),
    ("consumer/core/partition", "reaches"),
    ("consumer/core/questions", "reach_cluster"),
    ("consumer/present/seen", "_own"),
}

#: The classes of errors, of Kafka and our own.
ERROR_CLASSES = {
    name
    for module in (kafka_errors, aktor.errors)
    for name in vars(module)
    if name.endswith("Error")
} - {"NoError"}

#: Where a code may be treated as no error.
TREATMENTS = [(answer, code) for answer in Answer for code in CODES]


@pytest.fixture(scope="module", autouse=True)
def _trees() -> Iterator[None]:
    yield
    forget()


def test_every_answer_has_its_rows() -> None:
    assert ROWS.keys() == set(Answer)


@pytest.mark.parametrize("answer", Answer)
def test_every_code_of_every_answer_means_something(answer: Answer) -> None:
    assert all(means(answer, error_of(code)) for code in CODES)
    assert means(answer, NoError) is Do.DONE


@pytest.mark.parametrize("answer", Answer)
def test_a_code_that_nobody_knows_is_the_brokers_unknown_error(answer: Answer) -> None:
    assert means(answer, error_of(999)) is means(answer, UnknownError)


def test_whoever_finds_the_coordinator_asks_again() -> None:
    for answer, code in TREATMENTS:
        meaning = means(answer, error_of(code))
        if Do.FIND_COORDINATOR in meaning:
            assert Do.RETRY in meaning, (answer, code)


def test_a_request_without_an_answer_has_its_rows() -> None:
    for error in (KafkaConnectionError, KafkaTimeoutError, BrokersUnreachableError):
        assert means(Answer.OFFSET_FETCH, error) is Do.RETRY | Do.FIND_COORDINATOR
    assert means(Answer.HEARTBEAT, AuthenticationError) is Do.RETRY
    for error in (UnsupportedVersionError, IncompatibleBrokerVersion):
        assert means(Answer.LEAVE_GROUP, error) is Do.DONE


def test_codes_that_kafka_python_lacks_have_their_names() -> None:
    assert error_of(128) is InvalidRegularExpressionError
    assert error_of(129) is RebootstrapRequired
    assert name_of(error_of(128)) == "INVALID_REGULAR_EXPRESSION"
    assert name_of(error_of(25)) == "UNKNOWN_MEMBER_ID"


def test_a_code_that_is_not_known_is_named_by_its_number() -> None:
    assert name_of(error_of(999)) == "error code 999"
    assert name_of(UnknownError) == "UNKNOWN"


def test_nobody_else_decides_by_sets_of_codes() -> None:
    """The meaning of a code is looked up in the table: nobody calls `for_code` besides."""
    package = Path(aktor.__file__).parent
    callers = {
        str(path.relative_to(package))
        for folder in ("managers", "actors", "consumer", "events", "protocol")
        for path in (package / folder).rglob("*.py")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Name) and node.id == "for_code"
    }
    assert callers == {"protocol/error_codes.py"}


def test_every_kind_of_answer_is_looked_up_by_somebody() -> None:
    """A row that nobody asks for would be changed in vain."""
    package = Path(aktor.__file__).parent
    asked = {
        node.attr
        for folder in ("managers", "actors")
        for path in (package / folder).rglob("*.py")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "Answer"
    }
    assert asked == {answer.name for answer in Answer}


def error_classes(nodes: Iterable[ast.expr]) -> set[str]:
    """The classes of errors, of Kafka or our own, that these expressions name."""
    names = {one.id for node in nodes for one in ast.walk(node) if isinstance(one, ast.Name)}
    return names & ERROR_CLASSES


def compared_with(node: ast.AST) -> list[ast.expr]:
    """What a comparison, a call of `isinstance` or a pattern compares with."""
    match node:
        case ast.Compare(comparators=compared):
            return compared
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kinds]):
            return [kinds]
        case ast.MatchClass(cls=kind):
            return [kind]
    return []


def test_nobody_else_decides_by_the_class_of_an_error() -> None:
    """What a broker's error leads to is looked up in the table."""
    package = Path(aktor.__file__).parent
    deciders = {
        (str(path.relative_to(package).with_suffix("")), function.name)
        for folder in ("managers", "actors", "consumer")
        for path in (package / folder).rglob("*.py")
        for function in ast.walk(tree_of(path))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if error_classes(compared_with(node))
    }
    assert deciders == WORDS | OUR_SIDE


def test_the_architecture_names_who_treats_errors_of_our_own_side() -> None:
    architecture = DOCUMENT.with_name("architecture.md").read_text()
    rows = "".join(re.findall(r"^\| an error on our side: .*", architecture, re.MULTILINE))
    assert [module for module, _ in OUR_SIDE if f"`{module}`" not in rows] == []


def test_a_corrupt_batch_is_corrupt_whoever_says_so() -> None:
    ours = CorruptBatchError(topic="t", partition=0, offset=1, reason="its CRC is wrong")
    assert is_corrupt(ours)
    assert is_corrupt(error_of(2)())
    assert not is_corrupt(None)


def test_only_one_code_forbids_a_topic() -> None:
    assert [code for code in CODES if forbids_topic(error_of(code))] == [29]


def test_every_action_is_one_row_of_the_documents_table() -> None:
    """A line break inside of a row would end the Markdown table."""
    _, _, *rows = actions()
    assert len(rows) == len(Do)
    assert [row for row in rows if "\n" in row or "  " in row] == []


def test_only_an_answer_that_names_a_member_id_says_to_take_it() -> None:
    taken = {
        (answer, error)
        for answer, rows in ROWS.items()
        for error, meaning in rows.codes.items()
        if Do.TAKE_MEMBER_ID in meaning
    }
    assert taken == {(Answer.JOIN_GROUP, MemberIdRequiredError)}


def test_the_document_has_the_table() -> None:
    assert DOCUMENT.read_text() == document(), "python -m tests.error_table writes it anew"
