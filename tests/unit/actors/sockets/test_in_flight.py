"""Frames of requests."""

from __future__ import annotations

import pytest

from aktor.actors.sockets.in_flight import write_request
from aktor.broker.wire import APIS, Api

EVERY_VERSION = [
    (api, version)
    for api in APIS.values()
    for version in range(api.min_version, api.max_version + 1)
]


@pytest.mark.few_cases
@pytest.mark.parametrize(
    ("api", "version"), EVERY_VERSION, ids=lambda one: getattr(one, "name", one)
)
@pytest.mark.parametrize("client_id", ["", "app", "größer"])
def test_a_frame_is_the_one_that_kafka_python_writes(
    api: Api, version: int, client_id: str
) -> None:
    message = api.request()
    message.API_VERSION = version
    message.with_header(correlation_id=7, client_id=client_id)
    expected = bytes(message.encode(header=True, framed=True))

    frame, due = write_request(api.request(version=version), None, 7, client_id)

    assert frame == expected
    assert (due.api_key, due.version, due.correlation_id) == (api.key, version, 7)
