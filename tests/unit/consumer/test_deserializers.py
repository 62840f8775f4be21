"""What may be a deserializer, and what it is called with."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
from kafka.serializer import DefaultSerializer, Deserializer, JsonSerializer

from aktor.consumer.deserializers import close, wrap
from aktor.errors import ConfigurationError
from aktor.records import Deserialize


class Remembering(Deserializer):
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.closed = 0

    def deserialize(self, topic: str, headers: list[Any], data: bytes) -> str:
        self.calls.append((topic, headers, data))
        return "seen"

    def close(self) -> None:
        self.closed += 1


class WithoutHeaders:
    def deserialize(self, topic: str, data: bytes | None) -> tuple[str, bytes | None]:
        return topic, data


class OldStyle(WithoutHeaders, Deserializer):
    pass


def wrapped(deserializer: Any) -> Deserialize:
    function = wrap(deserializer, "value_deserializer")
    assert function is not None
    return function


def wrapped_quietly(deserializer: Any) -> Deserialize:
    with pytest.warns(DeprecationWarning, match="does not implement"):
        return wrapped(deserializer)


def test_without_a_deserializer_there_is_nothing_to_call() -> None:
    assert wrap(None, "value_deserializer") is None


def test_a_deserializer_gets_topic_headers_and_data() -> None:
    remembering = Remembering()

    assert wrapped(remembering)("orders", [("h", b"1")], b"data") == "seen"

    assert remembering.calls == [("orders", [("h", b"1")], b"data")]


def test_a_deserializer_of_todays_shape_is_called_directly_and_without_a_warning() -> None:
    remembering = Remembering()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        function = wrapped(remembering)

    assert function == remembering.deserialize


@pytest.mark.parametrize(
    ("deserializer", "data", "value"),
    [
        (DefaultSerializer(), b"text", "text"),
        (DefaultSerializer(), None, None),
        (JsonSerializer(), b'{"a": 1}', {"a": 1}),
        (JsonSerializer(), None, None),
    ],
)
def test_kafka_pythons_own_deserializers_work(deserializer: Any, data: Any, value: Any) -> None:
    assert wrapped(deserializer)("orders", [], data) == value


def test_a_plain_callable_gets_only_the_bytes_and_a_deprecation_warning() -> None:
    with pytest.warns(DeprecationWarning, match="value_deserializer does not implement"):
        function = wrapped(lambda data: data.decode())

    assert function("orders", [("h", b"1")], b"text") == "text"


def test_the_warning_points_at_the_line_that_makes_the_consumer() -> None:
    def constructor() -> None:
        wrap(bytes.decode, "value_deserializer")

    with pytest.warns(DeprecationWarning, match="does not implement") as warned:
        constructor()

    assert warned[0].filename == __file__
    assert warned[0].lineno == constructor.__code__.co_firstlineno + 4


@pytest.mark.parametrize("builtin", [int, float, bytes.decode, json.loads, memoryview])
def test_a_callable_written_in_c_is_taken(builtin: Any) -> None:
    assert wrapped_quietly(builtin)("orders", [], b"1") == builtin(b"1")


def test_a_missing_key_or_value_reaches_the_deserializer_as_none() -> None:
    remembering = Remembering()
    wrapped(remembering)("orders", [], None)

    assert remembering.calls == [("orders", [], None)]
    assert wrapped_quietly(lambda data: data is None)("orders", [], None) is True


@pytest.mark.parametrize("old", [OldStyle(), WithoutHeaders()])
def test_an_object_of_the_old_shape_gets_topic_and_data_and_one_warning(old: Any) -> None:
    with pytest.warns(DeprecationWarning, match="does not implement") as warned:
        function = wrapped(old)

    assert function("orders", [("h", b"1")], b"data") == ("orders", b"data")
    assert len(warned) == 1


def test_a_type_error_inside_a_deserializer_is_not_taken_for_the_old_shape() -> None:
    class Failing(Deserializer):
        calls = 0

        def deserialize(self, topic: str, headers: list[Any], data: bytes) -> Any:
            self.calls += 1
            raise TypeError("the user's own")

    failing = Failing()
    with pytest.raises(TypeError, match="the user's own"):
        wrapped(failing)("orders", [], b"")

    assert failing.calls == 1


def test_a_class_in_the_place_of_its_instance_is_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigurationError, match=r"pass JsonSerializer\(\)"):
        wrap(JsonSerializer, "value_deserializer")


@pytest.mark.parametrize("unusable", ["json", 7, object()])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_cannot_be_called_is_refused_by_name(unusable: Any) -> None:
    with pytest.raises(ConfigurationError, match="key_deserializer is of type"):
        wrap(unusable, "key_deserializer")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_function_of_two_arguments_is_refused_before_the_first_record() -> None:
    with pytest.raises(ConfigurationError, match=r"takes \(topic, data\)"):
        wrap(lambda topic, data: data, "value_deserializer")


def test_a_deserialize_method_of_any_other_shape_is_refused_before_the_first_record() -> None:
    class Odd(Deserializer):
        def deserialize(self, data: bytes) -> Any:
            return data

    with (
        pytest.warns(DeprecationWarning, match="does not implement"),
        pytest.raises(ConfigurationError, match=r"must take \(topic, headers, data\)"),
    ):
        wrap(Odd(), "value_deserializer")


def test_close_reaches_the_users_object() -> None:
    remembering = Remembering()

    close(remembering)

    assert remembering.closed == 1


@pytest.mark.parametrize("without", [None, bytes.decode, WithoutHeaders(), Remembering])
def test_close_passes_over_what_has_nothing_to_close(without: Any) -> None:
    close(without)


def test_an_attribute_error_inside_close_is_not_swallowed() -> None:
    class Broken(Remembering):
        def close(self) -> None:
            raise AttributeError("the user's own")

    with pytest.raises(AttributeError, match="the user's own"):
        close(Broken())
