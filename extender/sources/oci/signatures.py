"""Signatures beside an artifact in its repository, where `cosign sign` puts them.

Since cosign 3 each is a bundle in an artifact of its own that refers to the signed manifest; before that they were the
layers of one artifact, whose tag is made of the manifest's digest. Registries that cannot be asked for what refers to a
manifest have the list of that under another such tag. BUNDLE_SPEC.md and SIGNATURE_SPEC.md in
https://github.com/sigstore/cosign/tree/main/specs have the details.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from extender.sources.download import Limit
from extender.sources.oci.manifest import Descriptor, read
from extender.sources.oci.repository import Repository
from extender.sources.signing import MAX_SIGNATURE_BYTES, bundled, simple
from extender.sources.source import Signature, SourceError, SourceUnreachableError
from wasm_runtime.blob import digest as digest_of

MAX_SIGNATURES: Final = 32
"""Signatures of either kind that are looked at: the last ones, which are the newest."""

_BUNDLE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
_SIMPLE: Final = "application/vnd.dev.cosign.simplesigning.v1+json"
_SIGNATURE: Final = "dev.cosignproject.cosign/signature"
_LIMIT: Final = Limit(MAX_SIGNATURE_BYTES)


def find(repository: Repository, digest: str) -> Sequence[Descriptor]:
    """What may hold a signature of a manifest: artifacts with bundles, and layers. Raises SourceError."""
    index = repository.referrers(digest, _BUNDLE)
    bundles = (read(f"the list of what refers to {digest}", index).manifests or []) if index else []
    tag = f"{digest.replace(':', '-')}.sig"
    manifest = repository.manifest_if_any(tag)
    layers = (read(f"{repository.name}:{tag}", manifest).layers or []) if manifest else []
    return [
        *[entry for entry in bundles if entry.artifact_type == _BUNDLE][-MAX_SIGNATURES:],
        *[layer for layer in layers if layer.media_type == _SIMPLE][-MAX_SIGNATURES:],
    ]


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
