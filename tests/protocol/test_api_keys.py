"""The tables of api_keys are those of the message classes."""

from __future__ import annotations

import pytest

from kafka_wire.api_keys import DEFAULT_VERSION, KAFKA_VERSIONS, OTHERS, ApiKey, advertised, is_flexible, release
from tests.protocol.generate import MESSAGES, versions

REQUESTS = {cls.__spec__.api_key: cls for cls in MESSAGES if cls.__name__.endswith("Request")}  # type: ignore[attr-defined]
RESPONSES = {cls.__spec__.api_key: cls for cls in MESSAGES if cls.__name__.endswith("Response")}  # type: ignore[attr-defined]


def test_every_api_has_a_request_and_a_response_of_the_same_versions() -> None:
    assert REQUESTS.keys() == RESPONSES.keys() == set(ApiKey)
    for key in ApiKey:
        assert versions(REQUESTS[key]) == versions(RESPONSES[key]), key


def test_headers_are_flexible_where_the_messages_are() -> None:
    for key, cls in REQUESTS.items():
        for version in versions(cls):
            assert is_flexible(key, version) == (version in cls.__spec__.flexible), (key, version)


def test_an_api_of_kafkas_that_is_here_now_has_the_name_that_it_was_missed_by() -> None:
    here = {key: name for key, (name, _) in OTHERS.items() if key in set(ApiKey)}
    assert here == {key: ApiKey(key).kafka_name for key in here}


@pytest.mark.parametrize("kafka", KAFKA_VERSIONS)
def test_nothing_is_advertised_that_the_codec_does_not_speak(kafka: str) -> None:
    for key, (low, high) in advertised(kafka).items():
        assert low <= high
        assert high in versions(REQUESTS[key])
        assert low in versions(REQUESTS[key])


def test_a_release_is_found_by_its_patch_versions_too() -> None:
    assert release("3.4.1") == release("3.4") == (3, 4)
    assert advertised("4.1.0") == advertised(DEFAULT_VERSION)


@pytest.mark.parametrize("text", ["", "2.8", "3", "5.0", "abc", "4.1x"])
def test_an_unknown_release_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="can't be emulated"):
        release(text)
