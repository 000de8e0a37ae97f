"""Registries that answer what none should."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extender.sources.oci.manifest import ACCEPTED, MANIFEST
from extender.sources.source import Fetched, SourceUnreachableError
from tests.extender.sources.oci.registry import descriptor
from tests.extender.sources.oci.test_source import LIMIT, OTHER, WASM, refusal, source
from tests.extender.sources.signer import digest
from tests.extender.sources.web import Conversation, Script, Web, answer, head
from wasm_runtime.blob import Blob

BLOB = f"/v2/spread/blobs/{digest(WASM)}"
QUICK = 0.3
"""Seconds; the deadline where it is to pass."""


def manifest(**more: Any) -> bytes:
    """That of an artifact with the module."""
    layer = descriptor(WASM, "application/wasm")
    return json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "layers": [layer], **more}).encode()


@pytest.fixture
def address(web: Web) -> str:
    """A registry's that has the module as `spread:v1`."""
    web.pages["/v2/spread/manifests/v1"] = answer(200, manifest())
    web.pages[BLOB] = answer(200, WASM)
    return web.url("").removeprefix("http://")


# -- what is asked for -------------------------------------------------------------------------------


def test_a_look_at_what_is_known_asks_for_no_body(web: Web, address: str) -> None:
    version = digest(manifest())
    web.pages["/v2/spread/manifests/v1"] = lambda conversation: conversation.send(
        head(200, Docker_Content_Digest=version)
        if conversation.request.method == "HEAD"
        else head(200, Content_Length=str(len(manifest()))) + manifest()
    )
    followed = source(f"{address}/spread:v1")
    assert followed.fetch() == Fetched(Blob(WASM), f"oci://{address}/spread:v1@{version}", version)
    asked = [(request.method, request.target, request.headers["accept"]) for request in web.requests]
    assert asked == [("GET", "/v2/spread/manifests/v1", ACCEPTED), ("GET", BLOB, "*/*")]
    web.requests.clear()
    assert followed.fetch(version) is None
    asked = [(request.method, request.target, request.headers["accept"]) for request in web.requests]
    assert asked == [("HEAD", "/v2/spread/manifests/v1", ACCEPTED)]


def test_what_is_pinned_and_known_is_not_asked_for(web: Web, address: str) -> None:
    version = digest(manifest())
    assert source(f"{address}/spread@{version}").fetch(version) is None
    assert web.requests == []


@pytest.mark.parametrize("told", ["", "../../secret", "sha256:" + "0" * 64])
def test_what_signs_another_version_is_not_looked_for(told: str, web: Web, address: str) -> None:
    page = "/v2/spread/manifests/v1"
    web.pages[page] = lambda conversation: (
        conversation.send(head(200, Docker_Content_Digest=told))
        if conversation.request.method == "HEAD"
        else answer(200, manifest())(conversation)
    )
    version = digest(manifest())
    fetched = source(f"{address}/spread:v1", signed=True).fetch(f"{version} {version}")
    assert fetched == Fetched(Blob(WASM), f"oci://{address}/spread:v1@{version}", version)
    tag = version.replace(":", "-")
    assert [request.target.partition("?")[0] for request in web.requests] == [
        page,
        page,
        f"/v2/spread/referrers/{version}",
        f"/v2/spread/manifests/{tag}",
        f"/v2/spread/manifests/{tag}.sig",
        BLOB,
    ]


def test_a_registry_that_tells_no_digest_is_asked_for_the_manifest_only(web: Web, address: str) -> None:
    page = "/v2/spread/manifests/v1"
    assert source(f"{address}/spread:v1").fetch(digest(manifest())) is None
    assert [(request.method, request.target) for request in web.requests] == [("HEAD", page), ("GET", page)]


# -- wrong answers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        (WASM[:-1], "has 7 bytes where its manifest says 8"),
        (OTHER, "has 9 bytes where its manifest says 8"),
        (
            OTHER[1:],
            f"has come with other bytes: expected the digest {digest(WASM)}, found {digest(OTHER[1:])}; push it anew",
        ),
    ],
    ids=["shorter", "longer", "as long"],
)
def test_other_bytes_than_the_manifest_says_are_refused(sent: bytes, problem: str, web: Web, address: str) -> None:
    web.pages[BLOB] = answer(200, sent)
    assert refusal(source(f"{address}/spread:v1")) == f"oci://{address}/spread@{digest(WASM)} {problem}"


@pytest.mark.parametrize("name", ["spread:v1", f"spread@{digest(manifest())}"])
def test_another_manifest_than_the_digest_says_is_refused(name: str, web: Web, address: str) -> None:
    other = manifest(annotations={"by": "somebody else"})
    pinned = digest(manifest())
    for reference in ("v1", pinned):
        web.pages[f"/v2/spread/manifests/{reference}"] = answer(200, other, Docker_Content_Digest=pinned)
    assert refusal(source(f"{address}/{name}")) == (
        f"oci://{address}/{name} has come with other bytes: expected the digest {pinned}, found {digest(other)};"
        " push it anew"
    )


def test_another_manifest_than_the_index_says_is_refused(web: Web, address: str) -> None:
    pinned = digest(manifest())
    index = json.dumps({"schemaVersion": 2, "manifests": [descriptor(manifest(), MANIFEST)]}).encode()
    web.pages["/v2/spread/manifests/v1"] = answer(200, index)
    web.pages[f"/v2/spread/manifests/{pinned}"] = answer(200, manifest(annotations={}))
    assert refusal(source(f"{address}/spread:v1")) == (
        f"oci://{address}/spread@{pinned} has come with other bytes: expected the digest {pinned}, found"
        f" {digest(manifest(annotations={}))}; push it anew"
    )


LAYER = descriptor(WASM, "application/wasm")
NEITHER = "is neither a manifest with layers nor an index with manifests; push it anew"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"<html>", "has a manifest that cannot be read: JSON is malformed: invalid character (byte 0)"),
        (b"[]", "has a manifest that cannot be read: Expected `object`, got `array`"),
        (b"{}", "has a manifest that cannot be read: Object missing required field `schemaVersion`"),
        (manifest(schemaVersion=1), NEITHER),
        (b'{"schemaVersion": 2}', NEITHER),
        (manifest(manifests=[]), NEITHER),
        (
            manifest(layers=[{**LAYER, "digest": "sha256:../../../secret"}]),
            "has a manifest that cannot be read: Expected `str` matching regex '^sha256:[0-9a-f]{64}$'"
            " - at `$.layers[0].digest`",
        ),
        (
            manifest(layers=[{**LAYER, "size": -1}]),
            "has a manifest that cannot be read: Expected `int` >= 0 - at `$.layers[0].size`",
        ),
        (
            manifest(layers=[{**LAYER, "size": 1 << 40}]),
            None,
        ),
    ],
    ids=["HTML", "list", "nothing", "schema 1", "no content", "both", "path", "negative", "huge"],
)
def test_a_manifest_that_is_none_is_refused(content: bytes, problem: str | None, web: Web, address: str) -> None:
    web.pages["/v2/spread/manifests/v1"] = answer(200, content)
    expected = f"oci://{address}/spread:v1@{digest(content)} {problem}"
    if problem is None:
        expected = f"oci://{address}/spread@{digest(WASM)} has more than the 1000 bytes that {LIMIT.by} allows"
    assert refusal(source(f"{address}/spread:v1")) == expected
    assert len(web.requests) == 1


# -- without end -------------------------------------------------------------------------------------


def endless(conversation: Conversation) -> None:
    """Sends bytes until nobody wants more."""
    conversation.send(head(200))
    while True:
        conversation.send(bytes(65536))


def test_a_giant_manifest_is_not_read_to_its_end(web: Web, address: str) -> None:
    page = "/v2/spread/manifests/v1"
    for script in (endless, answer(200, bytes(4194305))):
        web.pages[page] = script
        problem = refusal(source(f"{address}/spread:v1"))
        assert problem == f"http://{address}{page} has more than the 4194304 bytes that kwx allows"


def test_a_giant_blob_is_not_read_to_its_end(web: Web, address: str) -> None:
    web.pages[BLOB] = endless
    problem = refusal(source(f"{address}/spread:v1"))
    assert problem == f"http://{address}{BLOB} has more than the 1000 bytes that runtime.moduleLimit allows"


@pytest.mark.parametrize("page", ["/v2/spread/manifests/v1", BLOB])
def test_a_registry_that_stalls_is_out_of_reach(page: str, web: Web, address: str) -> None:
    web.pages[page] = Conversation.stall
    assert refusal(source(f"{address}/spread:v1", timeout=QUICK), SourceUnreachableError) == (
        f"http://{address}{page} does not answer in time; see to the server or raise source.timeout (0.3 s)"
    )


@pytest.mark.parametrize(("status", "reason"), [(429, "Too Many Requests"), (500, "Internal Server Error")])
@pytest.mark.parametrize("page", ["/v2/spread/manifests/v1", BLOB])
def test_a_registry_that_cannot_answer_now_is_out_of_reach(
    page: str, status: int, reason: str, web: Web, address: str
) -> None:
    web.pages[page] = answer(status)
    assert refusal(source(f"{address}/spread:v1"), SourceUnreachableError) == (
        f"http://{address}{page} answers {status} {reason}; see to the server"
    )


def test_a_blob_that_is_gone_is_refused(web: Web, address: str) -> None:
    del web.pages[BLOB]
    assert refusal(source(f"{address}/spread:v1")) == (
        f"oci://{address}/spread@{digest(WASM)} is not there; push it or mend guestURL"
    )


# -- redirects ---------------------------------------------------------------------------------------


def redirected(target: str) -> Script:
    return answer(307, Location=target)


def test_a_blob_may_be_elsewhere(web: Web, address: str) -> None:
    web.pages[BLOB] = redirected("/bucket?signature=secret")
    web.pages["/bucket?signature=secret"] = answer(200, WASM)
    version = digest(manifest())
    assert source(f"{address}/spread:v1").fetch() == Fetched(
        Blob(WASM), f"oci://{address}/spread:v1@{version}", version
    )


def test_a_blob_is_not_taken_by_another_scheme(web: Web, address: str) -> None:
    web.pages[BLOB] = redirected("https://bucket.example/blob?signature=secret")
    assert refusal(source(f"{address}/spread:v1")) == (
        f"http://{address}{BLOB} redirects to https://bucket.example/blob, which has another scheme and is not"
        " followed; name the URL that is meant"
    )
