"""Each actor is given the settings that it declares, and no others."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from aktor.actors.runtime.dispatcher import Dispatcher
from aktor.consumer.kind import kind_of
from aktor.consumer.system import Host, composition
from aktor.events.routes import ROUTES
from aktor.managers.membership.auto import AutoMembershipManager
from aktor.managers.membership.classic.manager import ClassicMembershipManager
from aktor.managers.membership.consumer.manager import ConsumerMembershipManager, ProtocolChoice
from aktor.settings import Settings
from aktor.trace import silent
from aktor.values import replace

WHOLE = Settings(
    group_id="billing",
    client_id="c",
    connection={"sasl_plain_password": "secret"},
    group_protocol="auto",
)


def test_a_slice_has_the_settings_that_are_named() -> None:
    slice_ = WHOLE.only("fetch", ["group_id", "client_rack"])

    assert isinstance(slice_, Settings)
    assert (slice_.group_id, slice_.client_rack) == ("billing", "")


def test_to_read_another_setting_raises_a_sentence_that_names_actor_and_setting() -> None:
    slice_ = WHOLE.only("fetch", ["group_id"])

    with pytest.raises(
        AttributeError, match="the actor 'fetch' reads the setting 'client_id', whi"
    ):
        _ = slice_.client_id


def test_what_is_no_setting_cannot_be_declared() -> None:
    with pytest.raises(ValueError, match="fetch reads what is no setting: gruop_id"):
        WHOLE.only("fetch", ["gruop_id"])


def test_a_slice_of_a_slice_has_no_more_than_that() -> None:
    slice_ = WHOLE.only("membership", ["group_id", "client_id"])

    assert slice_.only("membership", ["group_id"]) == WHOLE.only("membership", ["group_id"])
    with pytest.raises(AttributeError, match="'client_rack'"):
        slice_.only("membership", ["client_rack"])


def test_a_slice_is_a_value_of_its_own_settings() -> None:
    slice_ = WHOLE.only("fetch", ["group_id", "client_rack"])
    same = Settings(group_id="billing").only("fetch", ("client_rack", "group_id"))

    assert slice_ == same
    assert hash(slice_) == hash(same)
    assert slice_ != WHOLE.only("metadata", ["group_id", "client_rack"])
    assert slice_ != WHOLE.only("fetch", ["group_id"])
    assert slice_ != WHOLE
    assert replace(slice_, group_id="x") == replace(WHOLE, group_id="x").only(
        "fetch", ["group_id", "client_rack"]
    )
    with pytest.raises(FrozenInstanceError):
        slice_.group_id = "x"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        slice_.client_id = "x"  # type: ignore[misc]


def test_the_repr_of_a_slice_shows_its_own_settings_and_no_secret() -> None:
    slice_ = WHOLE.only("network", ["connection", "client_id"])

    assert repr(slice_) == "Settings[network](client_id='c')"


def test_a_slice_can_be_copied_and_pickled() -> None:
    slice_ = WHOLE.only("network", ["connection", "client_id"])

    for again in (copy.copy(slice_), copy.deepcopy(slice_), pickle.loads(pickle.dumps(slice_))):
        assert again == slice_
        assert again.connection == WHOLE.connection
        with pytest.raises(AttributeError, match="'network'"):
            _ = again.group_id


class Sockets(Host):
    """Notes what settings the sockets are given."""

    def make_net(self, settings: Settings, tell: Any, clock: Any) -> Any:
        self.given = settings


@pytest.mark.parametrize("protocol", ["classic", "consumer", "auto"])
def test_each_actor_of_a_consumer_is_given_what_it_declares(protocol: str) -> None:
    settings, host = replace(WHOLE, group_protocol=protocol), Sockets()
    reads = {kind.name: {*kind.READS} for kind in kind_of(protocol).actors}

    children = composition(kind_of(protocol), settings, host, Dispatcher(ROUTES), silent())

    given = {child.name: {*child.make(1).settings.FIELDS} for child in children}  # type: ignore[attr-defined]
    assert given == reads
    assert {*host.given.FIELDS} == reads["network"]


@pytest.mark.parametrize("spoken", ["classic", "consumer"])
def test_with_auto_each_protocols_manager_is_given_its_own_part(spoken: str) -> None:
    kind = ClassicMembershipManager if spoken == "classic" else ConsumerMembershipManager

    manager = AutoMembershipManager(WHOLE, choice=ProtocolChoice(protocol=spoken))

    assert isinstance(manager._chosen, kind)
    assert {*manager._chosen.settings.FIELDS} == {*kind.READS}
