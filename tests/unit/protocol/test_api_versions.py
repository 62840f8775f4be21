"""Rules of the answer to ApiVersions, read without kafka-python."""

from __future__ import annotations

import struct

import pytest
from kafka.protocol.metadata import ApiVersionsResponse

from aktor.protocol.api_versions import parse_api_versions

SPOKEN = {1: (4, 17), 3: (0, 13), 18: (0, 4)}


def encoded(version: int, error_code: int = 0) -> bytes:
    """As a broker sends it, with features in the tagged fields."""
    response = ApiVersionsResponse(
        version=version,
        error_code=error_code,
        api_keys=[
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in SPOKEN.items()
        ],
        throttle_time_ms=7,
        supported_features=[
            ApiVersionsResponse.SupportedFeatureKey(
                name="metadata.version", min_version=7, max_version=30
            )
        ],
        finalized_features_epoch=5,
    )
    return bytes(response.encode(version))


@pytest.mark.parametrize("version", range(5))
def test_the_versions_are_read_in_every_version(version: int) -> None:
    answer = parse_api_versions(encoded(version), version)

    assert (answer.error_code, answer.spoken) == (0, SPOKEN)


def test_a_broker_that_does_not_know_the_version_answers_in_version_0() -> None:
    answer = parse_api_versions(encoded(0, error_code=35), 4)

    assert (answer.error_code, answer.spoken) == (35, SPOKEN)


@pytest.mark.parametrize("version", range(5))
def test_another_error_says_nothing_about_versions(version: int) -> None:
    answer = parse_api_versions(encoded(version, error_code=42), version)

    assert (answer.error_code, answer.spoken) == (42, {})


def test_tagged_fields_that_are_not_known_are_skipped() -> None:
    api = struct.pack(">hhh", 3, 0, 13) + b"\x01\x4d\x02ab"  # one tag, 77, of two bytes
    body = b"\0\0" + b"\x02" + api + struct.pack(">i", 0) + b"\x01\x4e\x01z"

    assert parse_api_versions(body, 4).spoken == {3: (0, 13)}


@pytest.mark.parametrize("version", range(5))
def test_an_answer_without_all_its_versions_is_refused(version: int) -> None:
    whole = encoded(version)
    needed = 2 + (1 if version >= 3 else 4) + len(SPOKEN) * (7 if version >= 3 else 6)
    for size in range(needed):
        with pytest.raises(ValueError, match="cut off"):
            parse_api_versions(whole[:size], version)
