"""Modules on their way into OCI registries, in the CNCF's layout.

https://tag-runtime.cncf.io/wgs/wasm/deliverables/wasm-oci-artifact/
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from extender.config.urls import Reference
from extender.sources.download import DownloadSession
from extender.sources.oci import signatures
from extender.sources.oci.auth import RegistryAuth
from extender.sources.oci.manifest import ARCHITECTURE, MANIFEST, MODULES, TITLE, Descriptor, write
from extender.sources.oci.repository import Repository
from extender.sources.oci.source import scheme_of
from extender.sources.private_key import PrivateKey
from extender.sources.source import SourceError
from wasm_runtime.blob import Blob
from wasm_runtime.blob import digest as digest_of

_CONFIG: Final = "application/vnd.wasm.config.v0+json"
_CREATED: Final = "1970-01-01T00:00:00Z"
"""Always the same, so that the same module makes the same artifact, and its signatures stay."""


def publish(
    reference: Reference,
    title: str,
    module: Blob,
    annotations: Mapping[str, str],
    *,
    key: PrivateKey | None,
    timeout: float,
    ca_file: Path | None,
) -> str:
    """Pushes a module under the reference's tag, and signs it if there is a key; the manifest's digest.

    The tag is moved last, after the signature: who follows it finds the artifact signed. Raises SourceError.
    """
    session = DownloadSession(timeout, ca_file)
    access = RegistryAuth(reference, "pull,push")
    repository = Repository(reference, session, access, scheme_of(reference, ca_file))
    layer = Descriptor(module.digest, len(module.content), MODULES[0], annotations={TITLE: title})
    config = msgspec.json.encode(
        {"created": _CREATED, "architecture": ARCHITECTURE, "os": "wasip1", "layerDigests": [module.digest]}
    )
    manifest = write(Descriptor(digest_of(config), len(config), _CONFIG), [layer], annotations)
    digest = digest_of(manifest)
    repository.put_blob(config)
    repository.put_blob(module.content)
    if key:
        repository.put_manifest(digest, manifest, MANIFEST)
        signatures.attach(repository, manifest, key)
    repository.put_manifest(reference.tag, manifest, MANIFEST)
    if repository.resolve(reference.tag) not in {digest, None}:
        raise SourceError(f"{repository.name}:{reference.tag} is another artifact than was pushed; push it anew")
    return digest
