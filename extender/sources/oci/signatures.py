"""Signatures beside an artifact in its repository, where `cosign sign` puts them.

Since cosign 3 each is a bundle in an artifact of its own that refers to the signed manifest; before that they were the
layers of one artifact, whose tag is made of the manifest's digest. Registries that cannot be asked for what refers to a
manifest have the list of that under another such tag. BUNDLE_SPEC.md and SIGNATURE_SPEC.md in
https://github.com/sigstore/cosign/tree/main/specs have the details.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec

from extender.sources.download import Limit
from extender.sources.oci.manifest import MANIFEST, Descriptor, read, write
from extender.sources.oci.repository import Repository
from extender.sources.private_key import PrivateKey
from extender.sources.signing import MAX_SIGNATURE_BYTES, bundled, simple, simple_payload
from extender.sources.source import Signature, SourceError, SourceUnreachableError
from wasm_runtime.blob import digest as digest_of

MAX_SIGNATURES: Final = 32
"""Signatures of either kind that are looked at: the last ones, which are the newest."""

_BUNDLE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
_SIMPLE: Final = "application/vnd.dev.cosign.simplesigning.v1+json"
_IMAGE_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_SIGNATURE: Final = "dev.cosignproject.cosign/signature"
_LIMIT: Final = Limit(MAX_SIGNATURE_BYTES)


def find(repository: Repository, digest: str) -> Sequence[Descriptor]:
    """What may hold a signature of a manifest: artifacts with bundles, and layers. Raises SourceError."""
    index = repository.referrers(digest, _BUNDLE)
    bundles = (read(f"the list of what refers to {digest}", index).manifests or []) if index else []
    return [
        *[entry for entry in bundles if entry.artifact_type == _BUNDLE][-MAX_SIGNATURES:],
        *_layers(repository, digest)[-MAX_SIGNATURES:],
    ]


def _layers(repository: Repository, digest: str) -> list[Descriptor]:
    """The signatures of a manifest that are layers. Raises SourceError."""
    manifest = repository.manifest_if_any(_tag(digest))
    layers = (read(f"{repository.name}:{_tag(digest)}", manifest).layers or []) if manifest else []
    return [layer for layer in layers if layer.media_type == _SIMPLE]


def _tag(digest: str) -> str:
    return f"{digest.replace(':', '-')}.sig"


def attach(repository: Repository, manifest: bytes, key: PrivateKey) -> None:
    """Signs a manifest beside those signatures that it has, unless one is by that key. Raises SourceError.

    As cosign before 3 does: every version of it, and every registry, knows that.
    """
    digest = digest_of(manifest)
    layers = _layers(repository, digest)
    with suppress(SourceError):  # Those that are of no use stay as they are.
        if any(key.public.has_made(each) for each in fetch(repository, manifest, layers)):
            return
    payload = simple_payload(repository.name.removeprefix("oci://"), digest)
    annotations = {_SIGNATURE: base64.b64encode(key.sign(payload)).decode()}
    layers = [*layers, Descriptor(digest_of(payload), len(payload), _SIMPLE, annotations=annotations)][-MAX_SIGNATURES:]
    config = msgspec.json.encode(
        {"architecture": "", "os": "", "rootfs": {"type": "layers", "diff_ids": [each.digest for each in layers]}}
    )
    repository.put_blob(payload)
    repository.put_blob(config)
    content = write(Descriptor(digest_of(config), len(config), _IMAGE_CONFIG), layers)
    repository.put_manifest(_tag(digest), content, MANIFEST)


def fetch(repository: Repository, manifest: bytes, found: Sequence[Descriptor]) -> Sequence[Signature]:
    """The signatures of a manifest among those found. Raises SourceError if all are of something else, or unusable."""
    signatures: list[Signature] = []
    problem = ""
    for descriptor in found:
        try:
            signatures.append(_fetch(repository, manifest, descriptor))
        except SourceUnreachableError:
            raise
        except SourceError as error:
            problem = str(error)
    if problem and not signatures:
        raise SourceError(
            f"{repository.name}@{digest_of(manifest)} has signatures, of which none can be used; the last: {problem}"
        )
    return tuple(signatures)


def _fetch(repository: Repository, manifest: bytes, descriptor: Descriptor) -> Signature:
    if descriptor.media_type == _SIMPLE:
        return simple(manifest, repository.blob(descriptor, _LIMIT).content, descriptor.annotation(_SIGNATURE))
    name = f"{repository.name}@{descriptor.digest}"
    layers = read(name, repository.manifest(descriptor.digest)).layers or []
    if len(layers) != 1:
        raise SourceError(f"{name} has {len(layers)} layers; expected a bundle")
    return bundled(manifest, repository.blob(layers[0], _LIMIT).content)
