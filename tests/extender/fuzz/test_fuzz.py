from pathlib import Path

import pytest

from tests.extender.fuzz.player import _judge
from tests.extender.fuzz.run import MAX_GROWN_MIB, run
from tests.extender.fuzz.streams import Streams


def test_mutated_requests_are_answered_as_they_may_be(tmp_path: Path) -> None:
    report = run(tmp_path, seed=1, requests=2_000)
    assert report.findings == []
    assert report.requests >= 2_000
    assert report.grown_mib < MAX_GROWN_MIB


@pytest.mark.nightly
@pytest.mark.timeout(3600)  # Each of 300,000 requests is answered before it is judged.
def test_so_are_many(tmp_path: Path) -> None:
    report = run(tmp_path, seed=2, requests=300_000)
    print(f"{report.requests} requests in {report.seconds:.0f} s, {report.grown_mib:+.0f} MiB")
    assert report.findings == []
    assert report.grown_mib < MAX_GROWN_MIB


def test_the_same_seed_makes_the_same_streams() -> None:
    assert [Streams(3)[number] for number in range(20)] == [Streams(3)[number] for number in range(20)]
    assert Streams(3)[0] != Streams(4)[0]


def answer(status: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body)


@pytest.mark.parametrize(
    ("answered", "found"),
    [
        (answer(b"200 OK", b'{"NodeNames":["a"]}') + answer(b"400 Bad Request", b'{"error":"x"}'), []),
        (answer(b"200 OK", b'{"NodeNames":["b"]}'), ["names that were not asked: ['b']"]),
        (answer(b"200 OK", b'[{"Host":"b","Score":1}]'), ["names that were not asked: ['b']"]),
        (answer(b"500 Internal Server Error", b"{}"), ["status 500: b'{}'"]),
        (answer(b"200 OK", b"{"), ["no JSON: b'{'"]),
        (answer(b"200 OK", b"{}")[:-1], ["an answer that ends early: b'{'"]),
        (b"HTTP/1.1 200 OK", ["no head of an answer: b'HTTP/1.1 200 OK'"]),
    ],
)
def test_what_may_not_be_answered_is_found(answered: bytes, found: list[str]) -> None:
    assert _judge(b'POST /filter HTTP/1.1\r\n\r\n{"NodeNames":["a"]}', answered, 1) == found
