"""Modules in OCI registries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

from extender.config.urls import Reference, is_loopback
from extender.sources.download import DownloadSession, Limit
from extender.sources.oci import signatures
from extender.sources.oci.auth import RegistryAuth
from extender.sources.oci.manifest import Descriptor, module, only, read
from extender.sources.oci.repository import Repository
from extender.sources.source import Fetched, SourceError
from wasm_runtime.blob import digest as digest_of


class OciSource:
    """The module in an artifact: the one that has a tag, or the one with a digest.

    A version is the manifest's digest. Where signatures are required one over theirs comes after it, for artifacts are
    signed after they were pushed.
    """

    is_remote: Final = True

    def __init__(
        self, url: str, limit: Limit, *, interval: float, timeout: float, ca_file: Path | None, signed: bool
    ) -> None:
        self.interval = interval
        self._reference = Reference.parse(url)
        self._limit = limit
        self._timeout = timeout
        self._ca_file = ca_file
        self._signed = signed
        self._access = RegistryAuth(self._reference)
        self._scheme = scheme_of(self._reference, ca_file)

    def has_changed(self, known: str) -> bool:  # noqa: ARG002
        """Not to be told without asking the server."""
        return False

    def fetch(self, known: str | None = None) -> Fetched | None:
        """The module as it is now; None if it is still of the `known` version."""
        session = DownloadSession(self._timeout, self._ca_file)
        repository = Repository(self._reference, session, self._access, self._scheme)
        if known and self._is_still(known, repository):
            return None
        pinned, tag = self._reference.digest, self._reference.tag
        content = repository.manifest(pinned or tag)
        digest = digest_of(content)
        name = f"{repository.name}{'' if pinned else f':{tag}'}@{digest}"
        found = self._find(repository, digest)
        version = _version(digest, found)
        if version == known:  # The registry has not told its digest.
            return None
        signed = signatures.fetch(repository, content, found)
        layer = _layer(repository, name, content)
        return Fetched(repository.blob(layer, self._limit), name, version, signed)

    def _is_still(self, known: str, repository: Repository) -> bool:
        """Whether nothing is new; asks for no more than it must."""
        digest = self._reference.digest or repository.resolve(self._reference.tag)
        return known.partition(" ")[0] == digest and known == _version(digest, self._find(repository, digest))

    def _find(self, repository: Repository, digest: str) -> Sequence[Descriptor]:
        return signatures.find(repository, digest) if self._signed else ()


def scheme_of(reference: Reference, ca_file: Path | None) -> Literal["http", "https"]:
    """What a registry is spoken to by: on this machine without TLS, unless there are certificates for it."""
    is_here = is_loopback(urlsplit(f"//{reference.registry}").hostname or "")
    return "http" if ca_file is None and is_here else "https"


def _layer(repository: Repository, name: str, content: bytes) -> Descriptor:
    """The layer that is the module, by a manifest, or an index of manifests."""
    manifest = read(name, content)
    if manifest.manifests is not None:
        manifest = read(name, repository.manifest(only(name, manifest.manifests).digest))
    if manifest.layers is None:
        raise SourceError(f"{name} is an index of indexes; expected a manifest, or an index of manifests")
    return module(name, manifest.layers)


def _version(digest: str, found: Sequence[Descriptor]) -> str:
    return f"{digest} {digest_of(msgspec.json.encode(found, order='sorted'))}" if found else digest
