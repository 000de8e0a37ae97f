"""Modules in a real registry: which artifacts are taken, and which versions of them."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from extender.sources.download import Limit
from extender.sources.oci.manifest import INDEX
from extender.sources.oci.source import OciSource
from extender.sources.source import Fetched, SourceError, SourceUnreachableError
from tests.extender.sources.certificates import authority
from tests.extender.sources.oci.registry import Descriptor, File, Registry, running
from tests.patience import join
from wasm_runtime.blob import Blob

WASM, OTHER = b"\0asm\1\0\0\0", b"\0asm\1\0\0\0\0"
PLUGIN = File("plugin.wasm", "application/wasm", WASM)
LIMIT = Limit(1000, "runtime.moduleLimit")
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
KUBEWARDEN = "application/vnd.wasm.content.layer.v1+wasm"
BYTES = "application/octet-stream"
TAR = "application/vnd.oci.image.layer.v1.tar+gzip"
TITLE = "org.opencontainers.image.title"
ACCEPTED = (
    "expected one layer of application/wasm or application/vnd.wasm.content.layer.v1+wasm, or one whose title ends in"
    " .wasm, as `oras push REFERENCE plugin.wasm:application/wasm` makes it"
)


def source(
    reference: str, *, limit: Limit = LIMIT, timeout: float = 20.0, ca_file: Path | None = None, signed: bool = False
) -> OciSource:
    return OciSource(f"oci://{reference}", limit, interval=1.0, timeout=timeout, ca_file=ca_file, signed=signed)


def refusal(refused: OciSource, kind: type[SourceError] = SourceError) -> str:
    """Why nothing can be fetched."""
    with pytest.raises(SourceError) as caught:
        refused.fetch()
    assert type(caught.value) is kind
    return str(caught.value)


# -- artifacts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "config"),
    [
        ([PLUGIN], None),
        ([PLUGIN._replace(kind=KUBEWARDEN)], File("config", "application/vnd.wasm.config.v1+json", b"{}")),
        ([PLUGIN], File("config", "application/vnd.wasm.config.v0+json", b'{"architecture":"wasm","os":"wasip1"}')),
        ([PLUGIN._replace(kind=BYTES)], None),
        ([File("README.md", "text/markdown", b"It spreads."), PLUGIN], None),
        ([File("old.wasm", BYTES, OTHER), PLUGIN], None),
    ],
    ids=["oras", "kwctl and wasm-to-oci", "wkg", "oras without a type", "with a file beside it", "type before title"],
)
def test_what_tools_push_is_taken(files: list[File], config: File | None, registry: Registry, repository: str) -> None:
    digest = registry.push(f"{repository}:v1", *files, config=config)
    reference = f"{registry.address}/{repository}:v1"
    assert source(reference).fetch() == Fetched(Blob(WASM), f"oci://{reference}@{digest}", digest)


def test_a_manifest_of_docker_is_taken(registry: Registry, repository: str) -> None:
    layer = registry.blob(repository, WASM, "application/wasm")
    digest = registry.artifact(repository, "latest", [layer], kind=DOCKER_MANIFEST)["digest"]
    reference = f"{registry.address}/{repository}"
    assert source(reference).fetch() == Fetched(Blob(WASM), f"oci://{reference}:latest@{digest}", digest)


def entry(registry: Registry, repository: str, content: bytes, architecture: str | None) -> Descriptor:
    """A manifest with a module of its own, as an index names it."""
    manifest = registry.artifact(repository, None, [registry.blob(repository, content, "application/wasm")])
    return {**manifest, "platform": {"architecture": architecture, "os": "wasip1"}} if architecture else manifest


@pytest.mark.parametrize(
    "entries", [{"wasm": WASM, "amd64": OTHER}, {"amd64": WASM}, {None: WASM}], ids=["for wasm", "alone", "bare"]
)
@pytest.mark.parametrize("kind", [INDEX, DOCKER_INDEX])
def test_of_an_index_the_entry_for_webassembly_is_taken(
    entries: dict[str | None, bytes], kind: str, registry: Registry, repository: str
) -> None:
    named = [entry(registry, repository, content, architecture) for architecture, content in entries.items()]
    digest = registry.index(repository, "v1", named, kind=kind)["digest"]
    reference = f"{registry.address}/{repository}:v1"
    assert source(reference).fetch() == Fetched(Blob(WASM), f"oci://{reference}@{digest}", digest)


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ([PLUGIN, PLUGIN._replace(content=OTHER)], "has 2 modules in 2 layers, of the types 'application/wasm'"),
        (
            [File("a.wasm", BYTES, WASM), File("b.wasm", BYTES, OTHER)],
            "has 2 modules in 2 layers, of the types 'application/octet-stream'",
        ),
        ([File("plugin", BYTES, WASM)], "has no modules in 1 layers, of the types 'application/octet-stream'"),
        ([], "has no modules in 0 layers, of the types none"),
        (
            [File(f"{at}", f"text/{at}", WASM) for at in range(9)],
            "has no modules in 9 layers, of the types 'text/0', 'text/1', 'text/2', 'text/3', 'text/4', …",
        ),
    ],
    ids=["two modules", "two titles", "no type or title", "nothing", "many"],
)
def test_an_artifact_without_one_module_is_refused(
    files: list[File], problem: str, registry: Registry, repository: str
) -> None:
    digest = registry.push(f"{repository}:v1", *files)
    reference = f"{registry.address}/{repository}:v1"
    assert refusal(source(reference)) == f"oci://{reference}@{digest} {problem}; {ACCEPTED}"


def test_a_container_image_is_refused(registry: Registry, repository: str) -> None:
    layers = [registry.blob(repository, content, TAR) for content in (b"base", b"application")]
    digest = registry.artifact(repository, "v1", layers)["digest"]
    reference = f"{registry.address}/{repository}:v1"
    assert refusal(source(reference)) == (
        f"oci://{reference}@{digest} has no modules in 2 layers, of the types '{TAR}'; {ACCEPTED}"
    )


@pytest.mark.parametrize(
    ("architectures", "found"),
    [(("amd64", "arm64"), "'amd64', 'arm64'"), (("wasm", "wasm"), "'wasm'"), ((None, "arm"), "'', 'arm'")],
    ids=["none", "two", "one without"],
)
def test_an_index_that_leaves_a_choice_is_refused(
    architectures: tuple[str | None, ...], found: str, registry: Registry, repository: str
) -> None:
    entries = [entry(registry, repository, b"%d" % at, each) for at, each in enumerate(architectures)]
    digest = registry.index(repository, "v1", entries)["digest"]
    reference = f"{registry.address}/{repository}:v1"
    assert refusal(source(reference)) == (
        f"oci://{reference}@{digest} is an index of 2 manifests, for the architectures {found}; expected one manifest"
        " alone, or one for wasm"
    )


def test_an_index_of_an_index_is_refused(registry: Registry, repository: str) -> None:
    inner = registry.index(repository, "inner", [entry(registry, repository, WASM, "wasm")])
    digest = registry.index(repository, "v1", [inner])["digest"]
    reference = f"{registry.address}/{repository}:v1"
    assert refusal(source(reference)) == (
        f"oci://{reference}@{digest} is an index of indexes; expected a manifest, or an index of manifests"
    )


def test_a_module_that_is_too_large_is_refused_unread(registry: Registry, repository: str) -> None:
    registry.push(f"{repository}:v1", PLUGIN)
    blob = registry.blob(repository, WASM, "application/wasm")["digest"]
    reference = f"{registry.address}/{repository}"
    assert refusal(source(f"{reference}:v1", limit=Limit(7, "runtime.moduleLimit"))) == (
        f"oci://{reference}@{blob} has more than the 7 bytes that runtime.moduleLimit allows"
    )


# -- versions ----------------------------------------------------------------------------------------


def test_a_tag_is_followed(registry: Registry, repository: str) -> None:
    reference = f"{registry.address}/{repository}:v1"
    followed = source(reference)
    first = registry.push(f"{repository}:v1", PLUGIN)
    assert followed.fetch() == Fetched(Blob(WASM), f"oci://{reference}@{first}", first)
    assert followed.fetch(first) is None
    second = registry.push(f"{repository}:v1", PLUGIN._replace(content=OTHER))
    assert followed.fetch(first) == Fetched(Blob(OTHER), f"oci://{reference}@{second}", second)
    assert followed.fetch(second) is None


@pytest.mark.parametrize("tag", ["", ":v1"])
def test_a_digest_is_pinned(tag: str, registry: Registry, repository: str) -> None:
    first = registry.push(f"{repository}:v1", PLUGIN)
    registry.push(f"{repository}:v1", PLUGIN._replace(content=OTHER))
    pinned = source(f"{registry.address}/{repository}{tag}@{first}")
    assert pinned.fetch() == Fetched(Blob(WASM), f"oci://{registry.address}/{repository}@{first}", first)
    assert pinned.fetch(first) is None
    assert pinned.fetch("sha256:another") == pinned.fetch()


@pytest.mark.parametrize(
    "name", ["{}:v2", "{}@sha256:" + "0" * 64, "another/{}:v1"], ids=["tag", "digest", "repository"]
)
def test_what_is_not_there_is_refused(name: str, registry: Registry, repository: str) -> None:
    registry.push(f"{repository}:v1", PLUGIN)
    reference = f"{registry.address}/{name.format(repository)}"
    missing = source(reference)
    assert refusal(missing) == f"oci://{reference} is not there; push it or mend guestURL"
    with pytest.raises(SourceError, match=r"is not there; push it or mend guestURL$"):
        missing.fetch(known="sha256:known")


# -- TLS ---------------------------------------------------------------------------------------------


def test_a_registry_with_a_ca_of_its_own_is_spoken_to_by_tls(tmp_path: Path, repository: str) -> None:
    ca_file, _ = authority(tmp_path)
    with running(tmp_path, ca_file=ca_file) as registry:
        layer = registry.blob(repository, WASM, "application/wasm")
        digest = registry.artifact(repository, "v1", [layer])["digest"]
        reference = f"{registry.address}/{repository}:v1"
        assert source(reference, ca_file=ca_file).fetch() == Fetched(Blob(WASM), f"oci://{reference}@{digest}", digest)
        (tmp_path / "other").mkdir()
        other, _ = authority(tmp_path / "other")
        assert refusal(source(reference, ca_file=other), SourceUnreachableError) == (
            f"https://{registry.address}/v2/{repository}/manifests/v1 cannot be fetched: its certificate is not"
            " accepted: certificate signature failure; name the CA that signed it in source.caFile"
        )
        assert refusal(source(reference)) == (
            f"http://{registry.address}/v2/{repository}/manifests/v1 answers 400 Bad Request"
        )


# -- registries that go away -------------------------------------------------------------------------


def test_a_registry_that_does_not_run_is_out_of_reach() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    assert refusal(source(f"{address}/spread:v1"), SourceUnreachableError) == (
        f"http://{address}/v2/spread/manifests/v1 cannot be fetched: Connection refused;"
        " see to the server or mend the URL"
    )


@contextmanager
def relay(address: str, most: int, then: Callable[[], Any]) -> Iterator[str]:
    """The address of what passes on connections; once `most` bytes have come back, `then` is called before the rest."""
    host, port = address.split(":")
    threads: list[threading.Thread] = []

    def forward(origin: socket.socket, target: socket.socket, left: float) -> None:
        with suppress(OSError):
            while piece := origin.recv(65536):
                target.sendall(piece)
                left -= len(piece)
                if left < 0:
                    left = float("inf")
                    then()
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def serve(client: socket.socket) -> None:
        with client, socket.create_connection((host, int(port))) as server:
            up = threading.Thread(target=forward, args=[client, server, float("inf")])
            up.start()
            forward(server, client, most)
            join(up)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threads.append(threading.Thread(target=serve, args=[connection]))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        acceptor = threading.Thread(target=accept)
        acceptor.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for thread in (acceptor, *threads):
                join(thread)


def test_a_registry_that_is_killed_within_a_blob_is_out_of_reach(tmp_path: Path, repository: str) -> None:
    content = WASM + bytes(64 << 20)
    with running(tmp_path) as registry:
        registry.push(f"{repository}:v1", PLUGIN._replace(content=content))
        blob = registry.blob(repository, content, "application/wasm")["digest"]

        def kill() -> None:
            os.killpg(registry.process.pid, signal.SIGKILL)
            registry.process.stop()

        with relay(registry.address, 1 << 20, kill) as address:
            limit = Limit(128 << 20, "runtime.moduleLimit")
            problem = refusal(source(f"{address}/{repository}:v1", limit=limit), SourceUnreachableError)
        assert re.sub(r"received \d+", "received some", problem) == (
            f"http://{address}/v2/{repository}/blobs/{blob} cannot be fetched: peer closed connection without sending"
            f" complete message body (received some bytes, expected {len(content)}); see to the server or mend the URL"
        )
