"""The error for a record that a deserializer refuses is caught as kafka-python's programs do it."""

from __future__ import annotations

import ast
import copy
import dataclasses
import json
import os
import pickle
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

import pytest
from kafka.errors import CorruptRecordError, KafkaError, KafkaTimeoutError

from aktor.errors import RecordDeserializationError, WakeupError
from aktor.records.refused import refused

SECRET = "hunter2"
FIELDS: dict[str, Any] = {
    "topic": "orders",
    "partition": 3,
    "offset": 12,
    "key": b"k",
    "value": SECRET.encode(),
    "headers": [("h", b"1")],
}


class Slotted(ValueError):
    __slots__ = ("line",)

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line}")
        self.line = line


class WithOddInit(ValueError):
    def __init__(self, one: int, two: int, *, three: int) -> None:
        super().__init__(one, two, three)
        self.three = three
        self.many = [one, two, three]


class WithOddNew(KeyError):
    def __new__(cls, one: int) -> WithOddNew:
        return super().__new__(cls, one)


class Talkative(ValueError):
    """Shows the document in every text."""

    def __init__(self, document: str) -> None:
        super().__init__(document)
        self.document = document

    def __str__(self) -> str:
        return self.document

    def __repr__(self) -> str:
        return f"Talkative({self.document})"

    def __bool__(self) -> bool:
        return False

    def __eq__(self, other: object) -> NoReturn:
        raise AssertionError("nobody may compare it")


@dataclasses.dataclass(frozen=True)
class Frozen(ValueError):
    line: int


class Sealed(ValueError):
    """Nothing about it can be set."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(name)


class Own(KafkaError):
    """A user's own, below kafka-python's base class."""


def raised(act: Callable[[], object]) -> Exception:
    try:
        act()
    except Exception as error:
        return error
    raise AssertionError("it raises")


MIXED = {
    "json": (lambda: json.loads("{]"), ("msg", "doc", "pos", "lineno", "colno")),
    "text": (lambda: b"\xff".decode(), ("encoding", "object", "start", "end", "reason")),
    "key": (lambda: {}["id"], ()),
    "system": (lambda: os.stat("/no/such/schema"), ("errno", "strerror", "filename")),
    "attribute": (lambda: None.id, ("name",)),  # type: ignore[attr-defined]
    "import": (lambda: __import__("no_such_codec"), ("name", "path", "msg")),
    "slots": (lambda: _raise(Slotted(7)), ("line",)),
    "odd init": (lambda: _raise(WithOddInit(1, 2, three=3)), ("three", "many")),
    "odd new": (lambda: _raise(WithOddNew(1)), ()),
    "frozen": (lambda: _raise(Frozen(7)), ("line",)),
    "sealed": (lambda: _raise(Sealed()), ()),
    "talkative": (lambda: _raise(Talkative(SECRET)), ("document",)),
    "syntax": (lambda: ast.literal_eval("{1, 'id'"), ()),
    "indentation": (lambda: compile(" id", "schema", "exec"), ()),
    "memory": (lambda: _raise(MemoryError()), ()),
    "assertion": (lambda: _raise(AssertionError(SECRET)), ()),
    "a user's KafkaError": (lambda: _raise(Own(SECRET)), ()),
}


def _raise(error: Exception) -> NoReturn:
    raise error


@pytest.fixture(params=list(MIXED))
def case(request: pytest.FixtureRequest) -> tuple[Exception, tuple[str, ...]]:
    act, names = MIXED[request.param]
    return raised(act), names


@pytest.mark.few_cases
def test_it_is_caught_by_the_class_of_the_deserializers_error_and_by_ours(
    case: tuple[Exception, tuple[str, ...]],
) -> None:
    cause, names = case

    for kind in (type(cause), RecordDeserializationError, KafkaError):
        with pytest.raises(kind) as caught:
            raise refused(cause, FIELDS)
        error = caught.value
        assert error.__cause__ is cause
        assert {name: getattr(error, name) for name in FIELDS} == FIELDS
        assert {name: getattr(error, name) for name in names} == {
            name: getattr(cause, name) for name in names
        }


@pytest.mark.few_cases
def test_it_says_the_same_for_each_class_and_no_content(
    case: tuple[Exception, tuple[str, ...]],
) -> None:
    error, plain = refused(case[0], FIELDS), RecordDeserializationError(**FIELDS)
    error.__cause__ = None

    assert str(error) == str(plain)
    assert repr(error) == repr(plain)
    assert error.args == plain.args
    assert error
    assert SECRET not in "".join(traceback.format_exception(error)) + str(error.args)


@pytest.mark.few_cases
def test_a_copy_is_of_both_classes_and_has_what_the_error_has(
    case: tuple[Exception, tuple[str, ...]],
) -> None:
    cause, names = case
    again = copy.copy(copy.copy(refused(cause, FIELDS)))

    assert isinstance(again, type(cause))
    assert {name: getattr(again, name) for name in FIELDS} == FIELDS
    assert {name: getattr(again, name) for name in names} == {
        name: getattr(cause, name) for name in names
    }


@pytest.mark.few_cases
def test_a_pickled_one_is_of_both_classes_again(case: tuple[Exception, tuple[str, ...]]) -> None:
    cause, names = case
    again = pickle.loads(pickle.dumps(refused(cause, FIELDS)))

    assert isinstance(again, type(cause))
    assert {name: getattr(again, name) for name in FIELDS} == FIELDS
    plain = [name for name in names if isinstance(getattr(cause, name), str | int | bytes)]
    assert [getattr(again, name) for name in plain] == [getattr(cause, name) for name in plain]


def test_one_of_a_class_that_pickle_does_not_find_is_pickled_as_ours() -> None:
    class Local(ValueError):
        pass

    error = refused(Local(), FIELDS)
    again = pickle.loads(pickle.dumps(error))

    assert isinstance(error, Local)
    assert type(again) is RecordDeserializationError
    assert again.offset == 12


def test_its_traceback_shows_the_deserializers_error_first() -> None:
    cause = raised(lambda: json.loads("{]"))
    try:
        raise refused(cause, FIELDS)
    except ValueError:
        text = traceback.format_exc()

    assert text.index("json.decoder.JSONDecodeError: Expecting") < text.index(
        "The above exception was the direct cause"
    )
    assert "\naktor.errors.RecordDeserializationError: RecordDeserializationError: the rec" in text


# -- classes that cannot be mixed with ours


class _Refuses(type):
    """Of classes that nobody may derive from."""

    def __new__(cls, name: str, bases: Any, body: dict[str, Any]) -> Any:
        if any(isinstance(base, _Refuses) for base in bases):
            raise TypeError("it is final")
        return super().__new__(cls, name, bases, body)


class Final(ValueError, metaclass=_Refuses):
    pass


class WithOurName(ValueError):
    @property
    def offset(self) -> int:
        return -1


class WithoutNew(ValueError):
    def __getattribute__(self, name: str) -> Any:
        raise AttributeError(name)


@pytest.mark.parametrize(
    "cause",
    [
        Final(),
        WithOurName(),
        WithoutNew(),
        ExceptionGroup("several", [ValueError()]),
        StopIteration(1),
        StopAsyncIteration(),
        CorruptRecordError(),
        KafkaTimeoutError(),
        WakeupError(),
        Exception("odd"),
        KafkaError("odd"),
    ],
    ids=lambda cause: type(cause).__name__,
)
def test_where_one_error_cannot_be_of_both_classes_it_is_of_ours(cause: Exception) -> None:
    """A StopIteration would end a loop in silence; kafka-python's classes tell the consumer what to
    do about an error."""
    error = refused(cause, FIELDS)

    assert type(error) is RecordDeserializationError
    assert error.__cause__ is cause
    assert copy.copy(error).offset == 12


def test_a_traceback_of_a_syntax_error_shows_our_text_and_not_the_line_of_the_original() -> None:
    cause = SyntaxError(SECRET, ("schema", 1, 2, SECRET))

    shown = traceback.format_exception_only(refused(cause, FIELDS))

    assert len(shown) == 1
    assert "the record in orders-3 at offset 12" in shown[0]


def test_the_class_is_made_once_for_each_class_of_errors() -> None:
    one, other = refused(ValueError(1), FIELDS), refused(ValueError(2), FIELDS)

    assert type(one) is type(other)
    assert type(refused(KeyError(1), FIELDS)) is not type(one)
