"""A real registry, that of Debian's docker-registry, and how artifacts get there."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import oras.provider
import pytest
import yaml

from bench.controlplane.ports import LOOPBACK, free_port
from bench.controlplane.process import Process, answers
from extender.sources.oci.manifest import INDEX, MANIFEST
from tests.extender.sources.signer import digest

USER, PASSWORD = "reader", "open sesame"
HTPASSWD = f"{USER}:$2b$04$abcdefghijklmnopqrstuu/LVz6MZlItEy42I2juLihZ66HnQx/cy\n"
"""The line of an htpasswd file with USER and PASSWORD, as `htpasswd -B` writes it."""

EMPTY = "application/vnd.oci.empty.v1+json"
START_TIMEOUT_S = 20.0

Descriptor = dict[str, Any]


class File(NamedTuple):
    """A file that is pushed."""

    name: str
    kind: str
    content: bytes


class Registry:
    """A registry that runs, and a client that writes to it."""

    def __init__(self, process: Process, address: str, scheme: str, login: tuple[str, str] | None) -> None:
        self.process = process
        self.address = address
        self._login = login
        url = f"{scheme}://{address}/v2/"
        self._client = httpx.Client(base_url=url, verify=False, auth=login, trust_env=False)

    def close(self) -> None:
        self._client.close()
        self.process.stop()

    def push(self, reference: str, *files: File, config: File | None = None) -> str:
        """Pushes an artifact with oras, as its users do. Returns the digest of its manifest."""
        folder = self.process.log.parent / "pushed"
        folder.mkdir(exist_ok=True)
        for file in (*files, *([config] if config else [])):
            (folder / file.name).write_bytes(file.content)
        client = oras.provider.Registry(self.address, insecure=True, auth_backend="basic" if self._login else "token")
        with client.session:
            client.session.trust_env = False
            if self._login:
                client.auth.set_basic_auth(*self._login)
            answer = client.push(
                f"{self.address}/{reference}",
                files=[f"{folder / file.name}:{file.kind}" for file in files],
                manifest_config=f"{folder / config.name}:{config.kind}" if config else None,
                disable_path_validation=True,
                quiet=True,
            )
            digest: str = answer.headers["Docker-Content-Digest"]
            return digest

    def requests(self, repository: str) -> list[str]:
        """The requests about a repository until now, in order: methods, and the paths behind its name."""
        asked = re.findall(rf'"(GET|HEAD) /v2/{repository}/(\S+) HTTP', self.process.log.read_text())
        return [" ".join(each) for each in asked]

    def blob(self, repository: str, content: bytes, kind: str) -> Descriptor:
        """Uploads a blob, and returns its descriptor."""
        begun = self._client.post(f"{repository}/blobs/uploads/")
        assert begun.status_code == 202, begun.text
        location = httpx.URL(begun.headers["Location"]).copy_merge_params({"digest": digest(content)})
        put = self._client.put(location, content=content, headers={"Content-Type": "application/octet-stream"})
        assert put.status_code == 201, put.text
        return descriptor(content, kind)

    def manifest(self, repository: str, tag: str | None, content: Mapping[str, Any]) -> Descriptor:
        """Uploads a manifest or an index, byte for byte, and returns its descriptor."""
        kind, text = content["mediaType"], json.dumps(content).encode()
        put = self._client.put(
            f"{repository}/manifests/{tag or digest(text)}", content=text, headers={"Content-Type": kind}
        )
        assert put.status_code == 201, put.text
        return descriptor(text, kind)

    def read(self, repository: str, reference: str) -> bytes:
        """The bytes of a manifest."""
        answer = self._client.get(f"{repository}/manifests/{reference}", headers={"Accept": MANIFEST})
        assert answer.status_code == 200, answer.text
        return answer.content

    def artifact(
        self, repository: str, tag: str | None, layers: Sequence[Descriptor], kind: str = MANIFEST, **more: Any
    ) -> Descriptor:
        """Uploads a manifest with layers and the empty configuration, and returns its descriptor."""
        config = self.blob(repository, b"{}", EMPTY)
        return self.manifest(
            repository, tag, {"schemaVersion": 2, "mediaType": kind, "config": config, "layers": [*layers], **more}
        )

    def index(self, repository: str, tag: str, entries: Sequence[Descriptor], kind: str = INDEX) -> Descriptor:
        """Uploads an index, and returns its descriptor."""
        return self.manifest(repository, tag, {"schemaVersion": 2, "mediaType": kind, "manifests": [*entries]})


def descriptor(content: bytes, kind: str) -> Descriptor:
    """The descriptor of bytes."""
    return {"mediaType": kind, "size": len(content), "digest": digest(content)}


@contextmanager
def running(
    folder: Path,
    *,
    auth: Mapping[str, Any] | None = None,
    login: tuple[str, str] | None = None,
    ca_file: Path | None = None,
) -> Iterator[Registry]:
    """A registry with its blobs in a folder, with TLS if there is a CA. Skips the test where there is none.

    `auth` is that of its configuration, `login` what its client shows it.
    """
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("there is no docker-registry: apt-get install docker-registry")
    address = f"{LOOPBACK}:{free_port()}"
    chain = str(folder / "server.pem")
    config = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "blobs")}},
        "http": {"addr": address, **({"tls": {"certificate": chain, "key": chain}} if ca_file else {})},
        **({"auth": auth} if auth else {}),
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    process = Process("docker-registry", [program, "serve", folder / "config.yaml"], folder)
    scheme = "https" if ca_file else "http"
    registry = Registry(process, address, scheme, login)
    try:
        process.wait_until(lambda: answers(f"{scheme}://{address}/"), START_TIMEOUT_S)
        yield registry
    finally:
        registry.close()
