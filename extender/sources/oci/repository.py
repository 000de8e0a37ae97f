"""A repository of a registry, as the OCI distribution specification lets it be read and written.

https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, Literal

import httpx

from extender.config.urls import Reference, quoted
from extender.sources.download import DownloadSession, Limit, Method, Response
from extender.sources.oci.auth import RegistryAuth
from extender.sources.oci.credentials import DOCKER_HUB
from extender.sources.oci.manifest import ACCEPTED, INDEX, Descriptor
from extender.sources.source import SourceError
from wasm_runtime.blob import Blob
from wasm_runtime.blob import digest as digest_of
from wasm_runtime.engine import MEBIBYTE

MANIFEST_LIMIT: Final = Limit(4 * MEBIBYTE)

_HOSTS: Final[Mapping[str, str]] = {DOCKER_HUB: "registry-1.docker.io"}
"""Where a registry is whose name is not its host's."""

_SHA256: Final = "sha256:"
_DIGEST: Final = "Docker-Content-Digest"
_DENIALS: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_OCTETS: Final = "application/octet-stream"
_BEGUN: Final = frozenset({HTTPStatus.ACCEPTED, HTTPStatus.NOT_FOUND})
_CREATED: Final = frozenset({HTTPStatus.CREATED})
_NO_REFERRERS: Final = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED})
"""What registries answer who have no list of what refers to a manifest."""


class Repository:
    """What one fetch reads of a repository, or one push writes. What it gets by a digest has that digest."""

    def __init__(
        self, reference: Reference, session: DownloadSession, access: RegistryAuth, scheme: Literal["http", "https"]
    ) -> None:
        self.name = f"oci://{reference.registry}/{reference.repository}"
        self._session = session
        self._access = access
        self._scheme = scheme
        host = _HOSTS.get(reference.registry, reference.registry)
        self._url = f"{scheme}://{host}/v2/{reference.repository}"

    def resolve(self, tag: str) -> str | None:
        """The digest of the manifest that has a tag; None if the registry does not tell. Raises SourceError."""
        answer = self._request(f"manifests/{tag}", MANIFEST_LIMIT, ACCEPTED, method="HEAD")
        if answer.status == HTTPStatus.NOT_FOUND:
            raise self._missing(f":{tag}")
        digest: str | None = answer.headers.get(_DIGEST)
        return digest

    def manifest(self, reference: str) -> bytes:
        """A manifest by its tag or digest. Raises SourceError."""
        name = f"@{reference}" if _is_digest(reference) else f":{reference}"
        content = self._manifest(reference, name)
        if content is None:
            raise self._missing(name)
        return content

    def manifest_if_any(self, tag: str) -> bytes | None:
        """A manifest by its tag, None if there is none. Raises SourceError."""
        return self._manifest(tag, f":{tag}")

    def referrers(self, digest: str, kind: str) -> bytes | None:
        """The index of those of a kind (artifact type) that refer to a manifest; None if there is none."""
        query = httpx.QueryParams({"artifactType": kind})
        answer = self._request(f"referrers/{digest}?{query}", MANIFEST_LIMIT, INDEX, also=_NO_REFERRERS)
        return answer.body if answer.status == HTTPStatus.OK else self.manifest_if_any(digest.replace(":", "-"))

    def blob(self, descriptor: Descriptor, limit: Limit) -> Blob:
        """What a descriptor points to. Raises SourceError."""
        name = f"{self.name}@{descriptor.digest}"
        if descriptor.size > limit.size:
            raise SourceError(f"{name} has more than the {limit.size} bytes that {limit.by} allows")
        answer = self._request(f"blobs/{descriptor.digest}", limit)
        if answer.status == HTTPStatus.NOT_FOUND:
            raise self._missing(f"@{descriptor.digest}")
        if len(answer.body) != descriptor.size:
            raise SourceError(f"{name} has {len(answer.body)} bytes where its manifest says {descriptor.size}")
        blob = Blob(answer.body)
        _check(name, descriptor.digest, blob)
        return blob

    def put_blob(self, content: bytes) -> None:
        """Writes a blob, unless it is there already. Raises SourceError."""
        digest = digest_of(content)
        if self._request(f"blobs/{digest}", MANIFEST_LIMIT, method="HEAD").status == HTTPStatus.OK:
            return
        begun = self._request("blobs/uploads/", MANIFEST_LIMIT, method="POST", also=_BEGUN)
        if begun.status == HTTPStatus.NOT_FOUND:
            raise SourceError(f"{self.name} is not there, and its registry makes none by a push; create it there")
        target = self._upload(begun.headers.get("Location", "")).copy_merge_params({"digest": digest})
        self._request(str(target), MANIFEST_LIMIT, method="PUT", also=_CREATED, content=content, kind=_OCTETS)

    def put_manifest(self, reference: str, content: bytes, kind: str) -> None:
        """Writes a manifest of a media type under its tag or digest. Raises SourceError."""
        self._request(f"manifests/{reference}", MANIFEST_LIMIT, method="PUT", also=_CREATED, content=content, kind=kind)

    def _upload(self, location: str) -> httpx.URL:
        """Where a registry takes an upload: a login is sent there, so it must be itself. Raises SourceError."""
        here = httpx.URL(self._url)
        try:
            target = here.join(location)
        except httpx.InvalidURL:
            target = httpx.URL()
        if not location or (target.scheme, target.netloc) != (here.scheme, here.netloc):
            raise SourceError(
                f"{self.name} has uploads go to {quoted(location)[:100]!r}, which is not the registry itself and is not"
                f" followed; have it name itself {here.scheme}://{here.netloc.decode()}"
            )
        return target

    def _manifest(self, reference: str, name: str) -> bytes | None:
        answer = self._request(f"manifests/{reference}", MANIFEST_LIMIT, ACCEPTED)
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        expected = reference if _is_digest(reference) else answer.headers.get(_DIGEST, "")
        if expected.startswith(_SHA256):
            _check(f"{self.name}{name}", expected, Blob(answer.body))
        return answer.body

    def _request(
        self,
        path: str,
        limit: Limit,
        accept: str = "*/*",
        *,
        method: Method = "GET",
        also: frozenset[HTTPStatus] = frozenset({HTTPStatus.NOT_FOUND}),
        content: bytes | None = None,
        kind: str = "",
    ) -> Response:
        """The answer, which may be `also` another than OK, once the registry lets us in. Raises SourceError.

        `path` is one in the repository or a URL of the registry's. `kind` is the media type of `content`.
        """
        url = path if "://" in path else f"{self._url}/{path}"

        def ask() -> Response:
            headers = {"Accept": accept, **({"Content-Type": kind} if kind else {}), **self._access.headers()}
            expected = _DENIALS | also | {HTTPStatus.OK}
            return self._session.request(url, limit, headers=headers, expected=expected, method=method, content=content)

        answer = ask()
        if answer.status in _DENIALS and self._access.forget():  # It may have expired.
            answer = ask()
        if answer.status == HTTPStatus.UNAUTHORIZED:
            self._access.grant(answer, self._session, self._scheme)
            answer = ask()
        if answer.status in _DENIALS:
            raise self._access.refused()
        return answer

    def _missing(self, name: str) -> SourceError:
        return SourceError(f"{self.name}{name} is not there; push it or mend guestURL")


def _is_digest(reference: str) -> bool:
    return reference.startswith(_SHA256)  # No tag has a colon.


def _check(name: str, expected: str, blob: Blob) -> None:
    if blob.digest != expected:
        raise SourceError(
            f"{name} has come with other bytes: expected the digest {expected[:100]}, found {blob.digest}; push it anew"
        )
