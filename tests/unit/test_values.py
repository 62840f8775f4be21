"""Values behave as frozen, slotted, keyword-only dataclasses do, and `Mutable` as one that is not
frozen."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import MISSING, FrozenInstanceError, dataclass, field
from typing import Any, ClassVar

import pytest

from aktor.values import SLOWLY, Mutable, Value, made_quickly, replace


class Offset(Value):
    """An offset in a partition."""

    UNIT: ClassVar[str] = "records"

    partition: int
    offset: int = 0
    tags: dict[str, str] = field(default_factory=dict)
    secret: str = field(default="", repr=False, compare=False)


class Tagged(Offset):
    """One with other defaults and a field more."""

    offset: int = 7
    owner: str


class Pair(Value, kw_only=False):
    """Given by position."""

    left: int
    right: int = 2


class Nothing(Value):
    """Without fields."""


class Attempts(Mutable):
    """What its own methods change."""

    limit: int
    made: int = 0
    errors: list[str] = field(init=False, default_factory=list)
    state: str = field(init=False, default="new")
    left: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.left = self.limit - self.made

    def failed(self, error: str) -> None:
        """One more."""
        self.made += 1
        self.errors.append(error)


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """A dataclass that is made as a value is."""

    records: int
    text: str = ""
    tags: list[str] = field(default_factory=list)


def test_a_dataclass_that_is_made_quickly_is_one_as_before() -> None:
    lag = Lag(records=3)

    assert lag == Lag(records=3, text="", tags=[])
    assert lag.tags is not Lag(records=3).tags
    assert repr(lag) == "Lag(records=3, text='', tags=[])"
    assert dataclasses.asdict(dataclasses.replace(lag, text="x"))["text"] == "x"
    assert pickle.loads(pickle.dumps(lag)) == lag
    with pytest.raises(FrozenInstanceError):
        lag.records = 4  # type: ignore[misc]
    with pytest.raises(TypeError, match="records"):
        Lag()  # type: ignore[call-arg]


def test_fields_are_given_by_name_and_have_defaults() -> None:
    value = Offset(partition=3)

    assert (value.partition, value.offset, value.tags, value.secret) == (3, 0, {}, "")
    assert Offset(partition=3, offset=5, tags={"a": "b"}).offset == 5


def test_a_default_factory_makes_an_object_for_each_value() -> None:
    assert Offset(partition=1).tags is not Offset(partition=1).tags


def test_a_field_that_is_missing_or_unknown_or_given_by_position_is_refused() -> None:
    with pytest.raises(TypeError, match="partition"):
        Offset()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="size"):
        Offset(partition=1, size=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        Offset(1)  # type: ignore[misc]


def test_fields_may_be_given_and_matched_by_position_where_the_class_says_so() -> None:
    match Pair(1):
        case Pair(left, right):
            assert (left, right) == (1, 2)
        case _:
            pytest.fail("it does not match")


def test_a_value_does_not_change() -> None:
    value = Offset(partition=3)

    with pytest.raises(FrozenInstanceError, match="offset"):
        value.offset = 4  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="offset"):
        del value.offset
    with pytest.raises(FrozenInstanceError, match="other"):
        value.other = 4  # type: ignore[attr-defined]
    assert not hasattr(value, "__dict__")


def test_values_are_equal_if_class_and_compared_fields_are() -> None:
    assert Offset(partition=1) == Offset(partition=1, secret="x")
    assert Offset(partition=1) != Offset(partition=2)
    assert Offset(partition=1, offset=7) != Tagged(partition=1, owner="me")
    assert Nothing() == Nothing()
    assert Nothing() != Pair(1)


def test_equal_values_have_one_hash() -> None:
    assert {Pair(1), Pair(1, 2), Pair(2)} == {Pair(1), Pair(2)}
    assert hash(Nothing()) == hash(Nothing())


def test_the_text_has_every_field_but_those_kept_out() -> None:
    assert repr(Offset(partition=1, secret="x")) == "Offset(partition=1, offset=0, tags={})"
    assert repr(Nothing()) == "Nothing()"


def test_a_subclass_adds_fields_and_changes_defaults() -> None:
    value = Tagged(partition=1, owner="me")

    assert (value.offset, value.owner) == (7, "me")
    assert list(Tagged.FIELDS) == ["partition", "offset", "tags", "secret", "owner"]
    with pytest.raises(FrozenInstanceError):
        value.offset = 8  # type: ignore[misc]


def test_a_class_variable_is_no_field() -> None:
    assert Offset.UNIT == "records"
    assert "UNIT" not in Offset.FIELDS


def test_replace_makes_another_value() -> None:
    value = Offset(partition=1, secret="x")
    other = replace(value, offset=9)

    assert (other.partition, other.offset, other.secret) == (1, 9, "x")
    assert value.offset == 0
    with pytest.raises(TypeError, match="size"):
        replace(value, size=1)


def test_a_value_can_be_copied_and_pickled() -> None:
    value = Offset(partition=1, offset=2, tags={"a": "b"}, secret="x")

    for again in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert again == value
        assert again.secret == "x"


def test_a_mutable_record_is_changed_by_its_methods_and_has_no_other_attributes() -> None:
    attempts = Attempts(limit=3, made=1)
    attempts.failed("timeout")

    assert (attempts.made, attempts.errors, attempts.state) == (2, ["timeout"], "new")
    with pytest.raises(AttributeError):
        attempts.other = 4  # type: ignore[attr-defined]


def test_a_field_that_is_no_argument_has_its_default_when_the_post_init_begins() -> None:
    assert Attempts(limit=3, made=1).left == 2
    with pytest.raises(TypeError, match="errors"):
        Attempts(limit=3, errors=[])  # type: ignore[call-arg]
    assert Attempts(limit=3).errors is not Attempts(limit=3).errors


def test_two_mutable_records_are_never_equal() -> None:
    attempts = Attempts(limit=3)

    assert attempts != Attempts(limit=3)
    assert len({attempts, Attempts(limit=3)}) == 2
    assert repr(attempts) == "Attempts(limit=3, made=0, errors=[], state='new', left=3)"


def test_a_class_inherits_the_post_init() -> None:
    class Named(Attempts):
        name: str

    assert Named(limit=3, name="x").left == 3


@pytest.mark.parametrize("base", [Offset, Tagged, Pair, Attempts])
def test_the_first_objects_of_a_class_are_as_the_many_after_them(base: type[Any]) -> None:
    """Those are made without a compiled `__init__`."""
    fresh: type[Any] = type(base)("Fresh", (base,), {"__module__": __name__})
    needed = dict.fromkeys(
        (key for key, spec in base.FIELDS.items() if spec.default is spec.default_factory), 3
    )
    other = next(key for key, spec in base.FIELDS.items() if spec.default is not MISSING)

    made = [fresh(**needed) for _ in range(SLOWLY + 2)]
    others = [
        type(base)("Fresh", (base,), {"__module__": __name__})(**needed, **{other: 9}),
        fresh(**needed, **{other: 9}),
    ]

    assert {repr(one) for one in made} == {repr(base(**needed)).replace(base.__name__, "Fresh", 1)}
    assert len({repr(one) for one in others}) == 1


@pytest.mark.parametrize(
    "wrong", [{}, {"limit": 1, "size": 2}, {"limit": 1, "errors": []}, {"made": 1}]
)
@pytest.mark.parametrize("made_before", [0, SLOWLY])
def test_wrong_arguments_are_refused_for_the_first_object_and_for_later_ones(
    wrong: dict[str, Any], made_before: int
) -> None:
    class Fresh(Attempts):
        """One that was never made."""

    for _ in range(made_before):
        Fresh(limit=3)
    with pytest.raises(TypeError, match="argument"):
        Fresh(**wrong)
    with pytest.raises(TypeError, match="positional"):
        Fresh(3)  # type: ignore[misc]
    assert Fresh(limit=3).left == 3
