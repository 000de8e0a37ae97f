"""Manifests and indexes of artifacts: what they say, and where the module is in them.

https://github.com/opencontainers/image-spec/blob/v1.1.1/manifest.md and image-index.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec

from extender.sources.source import SourceError

MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
INDEX: Final = "application/vnd.oci.image.index.v1+json"
ACCEPTED: Final = ", ".join(
    (
        MANIFEST,
        INDEX,
        "application/vnd.docker.distribution.manifest.v2+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
    )
)
"""What registries are asked for."""

MODULES: Final = ("application/wasm", "application/vnd.wasm.content.layer.v1+wasm")
"""Media types of modules: of the CNCF's layout, which `wkg` pushes, and of what `kwctl` and `wasm-to-oci` push.

https://tag-runtime.cncf.io/wgs/wasm/deliverables/wasm-oci-artifact/
"""

TITLE: Final = "org.opencontainers.image.title"
ARCHITECTURE: Final = "wasm"

_MAX_QUOTED: Final = 5
"""Media types that a message names."""


class Platform(msgspec.Struct):
    """What an entry of an index is for."""

    architecture: str = ""


class Descriptor(msgspec.Struct, rename="camel", omit_defaults=True):
    """Points to a blob or a manifest, by its digest."""

    digest: Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}$")]
    size: Annotated[int, msgspec.Meta(ge=0)]
    media_type: str = ""
    artifact_type: str = ""
    annotations: dict[str, str] | None = None
    platform: Platform | None = None

    def annotation(self, name: str) -> str:
        """The value of an annotation; empty if it has none."""
        return (self.annotations or {}).get(name, "")


class Manifest(msgspec.Struct, rename="camel"):
    """A manifest, which has layers, or an index, which has manifests."""

    schema_version: int
    layers: list[Descriptor] | None = None
    manifests: list[Descriptor] | None = None


_DECODER: Final = msgspec.json.Decoder(Manifest)


def read(name: str, content: bytes) -> Manifest:
    """Reads a manifest or an index of that name. Raises SourceError."""
    try:
        manifest = _DECODER.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SourceError(f"{name} has a manifest that cannot be read: {error}") from error
    if manifest.schema_version != 2 or (manifest.layers is None) == (manifest.manifests is None):
        raise SourceError(f"{name} is neither a manifest with layers nor an index with manifests; push it anew")
    return manifest


def write(
    config: Descriptor,
    layers: Sequence[Descriptor],
    annotations: Mapping[str, str] | None = None,
    artifact_type: str | None = None,
) -> bytes:
    """A manifest of these; equal ones are equal bytes."""
    fields = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": artifact_type,
        "config": config,
        "layers": layers,
        "annotations": annotations,
    }
    return msgspec.json.encode({name: value for name, value in fields.items() if value is not None}, order="sorted")


def only(name: str, entries: Sequence[Descriptor]) -> Descriptor:
    """The entry of an index that is for WebAssembly, or its only one. Raises SourceError."""
    fitting = [entry for entry in entries if entry.platform and entry.platform.architecture == ARCHITECTURE]
    choice = fitting or entries
    if len(choice) == 1:
        return choice[0]
    architectures = _quoted([entry.platform.architecture if entry.platform else "" for entry in entries])
    raise SourceError(
        f"{name} is an index of {len(entries)} manifests, for the architectures {architectures}; expected one manifest"
        f" alone, or one for {ARCHITECTURE}"
    )


def module(name: str, layers: Sequence[Descriptor]) -> Descriptor:
    """The layer that is the module: the one of such a type, else the one with such a title. Raises SourceError."""
    typed = [layer for layer in layers if layer.media_type in MODULES]
    choice = typed or [layer for layer in layers if layer.annotation(TITLE).endswith(".wasm")]
    if len(choice) == 1:
        return choice[0]
    raise SourceError(
        f"{name} has {len(choice) or 'no'} modules in {len(layers)} layers, of the types"
        f" {_quoted([layer.media_type for layer in layers])}; expected one layer of {' or '.join(MODULES)}, or one"
        f" whose title ends in .wasm, as `oras push REFERENCE plugin.wasm:{MODULES[0]}` makes it"
    )


def _quoted(texts: Sequence[str]) -> str:
    """Some of the texts, each once, for a message."""
    found = sorted({repr(text[:100]) for text in texts})
    return ", ".join(found[:_MAX_QUOTED]) + (", …" if len(found) > _MAX_QUOTED else "") or "none"
