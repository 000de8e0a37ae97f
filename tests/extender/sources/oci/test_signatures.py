"""Signatures beside artifacts, where cosign puts them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from extender.sources.oci.manifest import INDEX, MANIFEST
from extender.sources.oci.signatures import MAX_SIGNATURES
from extender.sources.signing import PublicKey
from extender.sources.source import Fetched, Signature, SourceError
from tests.extender.sources.oci.registry import Descriptor, Registry
from tests.extender.sources.oci.test_source import OTHER, PLUGIN, WASM, refusal, source
from tests.extender.sources.signer import (
    Sign,
    Signer,
    digest,
    message_bundle,
    simple_signing,
    statement,
    statement_bundle,
)
from tests.extender.sources.web import Web, answer
from wasm_runtime.blob import Blob

BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
SIMPLE = "application/vnd.dev.cosign.simplesigning.v1+json"
SIGNATURE = "dev.cosignproject.cosign/signature"


class Repository:
    """A repository with a module in it, and those who sign it."""

    def __init__(self, registry: Registry, name: str, tag: str = "v1", wasm: bytes = WASM) -> None:
        self.registry = registry
        self.name = name
        self.subject = registry.push(f"{name}:{tag}", PLUGIN._replace(content=wasm))
        self.reference = f"{registry.address}/{name}:{tag}"
        self.url = f"oci://{registry.address}/{name}"
        self._referrers: list[Descriptor] = []
        self._layers: list[Descriptor] = []

    @property
    def manifest(self) -> bytes:
        """What is signed."""
        content = self.registry.read(self.name, self.subject)
        assert digest(content) == self.subject
        return content

    def attach(self, bundle: bytes) -> str:
        """What cosign 3 does: an artifact of its own, and an entry in the list; the digest of the artifact."""
        layer = self.registry.blob(self.name, bundle, BUNDLE)
        subject = {"mediaType": MANIFEST, "digest": self.subject, "size": 1}
        artifact = self.registry.artifact(self.name, None, [layer], artifactType=BUNDLE, subject=subject)
        self._referrers.append({**artifact, "artifactType": BUNDLE})
        self.registry.index(self.name, self.subject.replace(":", "-"), self._referrers)
        return str(artifact["digest"])

    def append(self, payload: bytes, *signatures: bytes) -> None:
        """What cosign before 3 does: more layers in the artifact for signatures."""
        layer = self.registry.blob(self.name, payload, SIMPLE)
        texts = (base64.b64encode(signature).decode() for signature in signatures)
        self._layers += [{**layer, "annotations": {SIGNATURE: text}} for text in texts]
        self.registry.artifact(self.name, f"{self.subject.replace(':', '-')}.sig", self._layers)

    def replace(self, payload: bytes, signature: bytes) -> None:
        """The same with `--replace`."""
        self._layers.clear()
        self.append(payload, signature)

    @property
    def unsigned(self) -> Fetched:
        """The module without signatures."""
        return Fetched(Blob(WASM), f"oci://{self.reference}@{self.subject}", self.subject)


@pytest.fixture
def artifact(registry: Registry, repository: str) -> Repository:
    return Repository(registry, repository)


@pytest.fixture
def signer(tmp_path: Path) -> Signer:
    return Signer(tmp_path)


def checked(artifact: Repository, signer: Signer) -> Fetched:
    """The module, whose signature is by the key."""
    fetched = source(artifact.reference, signed=True).fetch()
    assert fetched is not None
    PublicKey.read(signer.public_key).check(fetched)
    return fetched


def payload_of(content: bytes) -> bytes:
    """What is signed of a statement."""
    return b"DSSEv1 28 application/vnd.in-toto+json %d %b" % (len(content), content)


# -- where they are ----------------------------------------------------------------------------------


def test_signatures_are_fetched_only_where_they_are_required(artifact: Repository, signer: Signer) -> None:
    artifact.attach(statement_bundle(signer, statement(artifact.subject)))
    assert source(artifact.reference).fetch() == artifact.unsigned


def test_a_signature_of_cosign_3_is_found(artifact: Repository, signer: Signer) -> None:
    said = statement(artifact.subject)
    values: list[bytes] = []

    def sign(content: bytes) -> bytes:
        values.append(signer(content))
        return values[-1]

    artifact.attach(statement_bundle(sign, said))
    assert checked(artifact, signer).signatures == (Signature(payload_of(said), values[0]),)


def test_a_signature_of_the_manifest_itself_is_found(artifact: Repository, signer: Signer) -> None:
    artifact.attach(message_bundle(signer, artifact.manifest))
    assert [each.payload for each in checked(artifact, signer).signatures] == [artifact.manifest]


def test_a_signature_of_cosign_before_3_is_found(artifact: Repository, signer: Signer) -> None:
    payload = simple_signing(artifact.subject)
    value = signer(payload)
    artifact.append(payload, value)
    fetched = checked(artifact, signer)
    assert fetched == replace(artifact.unsigned, version=fetched.version, signatures=(Signature(payload, value),))
    assert re.fullmatch(rf"{artifact.subject} sha256:[0-9a-f]{{64}}", fetched.version)


def test_a_registry_that_lists_what_refers_to_a_manifest_is_asked_for_it(
    artifact: Repository, signer: Signer, web: Web
) -> None:
    """As those do that know version 1.1 of the specification."""
    subject, bundle = artifact.subject, statement_bundle(signer, statement(artifact.subject))
    referrer = artifact.attach(bundle)
    index = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": INDEX,
            "manifests": [
                {"digest": digest(b"sbom"), "size": 4, "artifactType": "application/spdx+json"},
                {"digest": referrer, "size": 4, "artifactType": BUNDLE},
            ],
        }
    ).encode()
    prefix = f"/v2/{artifact.name}"
    web.pages[f"{prefix}/referrers/{subject}?artifactType=application%2Fvnd.dev.sigstore.bundle.v0.3%2Bjson"] = answer(
        200, index
    )
    web.pages[f"{prefix}/manifests/v1"] = answer(200, artifact.manifest)
    web.pages[f"{prefix}/manifests/{referrer}"] = answer(200, artifact.registry.read(artifact.name, referrer))
    for content in (WASM, bundle):
        web.pages[f"{prefix}/blobs/{digest(content)}"] = answer(200, content)
    fetched = source(f"{web.url('').removeprefix('http://')}/{artifact.name}:v1", signed=True).fetch()
    assert fetched is not None
    PublicKey.read(signer.public_key).check(fetched)
    assert f"{prefix}/manifests/{digest(b'sbom')}" not in [request.target for request in web.requests]


def test_a_signature_that_comes_later_is_news(artifact: Repository, signer: Signer) -> None:
    followed = source(artifact.reference, signed=True)
    version: str | None = None

    def news() -> int:
        """How many signatures the next version has; there is only one such version."""
        nonlocal version
        fetched = followed.fetch(version)
        assert fetched is not None
        version = fetched.version
        assert followed.fetch(version) is None
        return len(fetched.signatures)

    assert news() == 0
    payload = simple_signing(artifact.subject)
    artifact.append(payload, b"by somebody else")
    assert news() == 1
    artifact.replace(payload, signer(payload))
    assert news() == 1
    artifact.attach(statement_bundle(signer, statement(artifact.subject)))
    assert news() == 2


def test_the_newest_signatures_are_looked_at(artifact: Repository, signer: Signer) -> None:
    payload = simple_signing(artifact.subject)
    artifact.append(payload, *(b"by somebody else %d" % at for at in range(MAX_SIGNATURES)), signer(payload))
    assert len(checked(artifact, signer).signatures) == MAX_SIGNATURES


def test_an_index_is_what_is_signed(registry: Registry, repository: str, signer: Signer) -> None:
    inner = registry.artifact(repository, None, [registry.blob(repository, WASM, "application/wasm")])
    artifact = Repository(registry, repository)
    artifact.subject = registry.index(repository, "v1", [inner])["digest"]
    payload = simple_signing(artifact.subject)
    artifact.append(payload, signer(payload))
    assert checked(artifact, signer).origin == f"oci://{artifact.reference}@{artifact.subject}"


# -- what is no signature ----------------------------------------------------------------------------


def test_an_artifact_without_a_signature_is_refused(artifact: Repository, signer: Signer) -> None:
    with pytest.raises(SourceError, match=r"@sha256:[0-9a-f]{64} is not signed; expected a signature by"):
        checked(artifact, signer)


def by_bundle(artifact: Repository, sign: Sign) -> None:
    artifact.attach(statement_bundle(sign, statement(artifact.subject)))


def by_message(artifact: Repository, sign: Sign) -> None:
    artifact.attach(message_bundle(sign, artifact.manifest))


def by_layer(artifact: Repository, sign: Sign) -> None:
    payload = simple_signing(artifact.subject)
    artifact.append(payload, sign(payload))


@pytest.mark.parametrize("put", [by_bundle, by_message, by_layer])
def test_a_signature_that_is_not_by_the_key_is_refused(
    put: Callable[[Repository, Sign], None], artifact: Repository, signer: Signer, tmp_path: Path
) -> None:
    (tmp_path / "another").mkdir()
    put(artifact, Signer(tmp_path / "another"))
    with pytest.raises(SourceError, match=r" is signed, but its signature is not by this key; expected a signature by"):
        checked(artifact, signer)
    put(artifact, lambda content: signer(content + b"\n"))
    with pytest.raises(SourceError, match=r" is signed, but none of its 2 signatures is by this key; expected"):
        checked(artifact, signer)
    put(artifact, signer)
    assert checked(artifact, signer).module.content == WASM


class Fraud(NamedTuple):
    """What is there to make something up of."""

    artifact: Repository
    another: Repository
    """Another version of the module."""
    signer: Signer
    """By the key that is required."""


def copied_statement(fraud: Fraud) -> str:
    fraud.artifact.attach(statement_bundle(fraud.signer, statement(fraud.another.subject)))
    return f"expected a statement on {fraud.artifact.subject}, found one on something else"


def copied_message(fraud: Fraud) -> str:
    fraud.artifact.attach(message_bundle(fraud.signer, fraud.another.manifest))
    return f"expected a signature of {fraud.artifact.subject}, found one of {fraud.another.subject}"


def copied_layer(fraud: Fraud) -> str:
    payload = simple_signing(fraud.another.subject)
    fraud.artifact.append(payload, fraud.signer(payload))
    return f"expected a signature of {fraud.artifact.subject}, found one of '{fraud.another.subject}'"


def report(fraud: Fraud) -> str:
    said = statement(fraud.artifact.subject, "https://cosign.sigstore.dev/attestation/vuln/v1")
    fraud.artifact.attach(statement_bundle(fraud.signer, said))
    return (
        "expected the predicate https://sigstore.dev/cosign/sign/v1, found"
        " 'https://cosign.sigstore.dev/attestation/vuln/v1'"
    )


def text(fraud: Fraud) -> str:
    fraud.artifact.attach(b"signed, honestly")
    return "expected a bundle of sigstore: JSON is malformed: invalid character (byte 0)"


def long_text(fraud: Fraud) -> str:
    bundle = b" " * 16384 + b"{}"
    fraud.artifact.attach(bundle)
    return f"{fraud.artifact.url}@{digest(bundle)} has more than the 16384 bytes that kwx allows"


def two_layers(fraud: Fraud) -> str:
    artifact = fraud.artifact
    bundle = artifact.registry.blob(artifact.name, b"{}", BUNDLE)
    referrer = artifact.registry.artifact(artifact.name, None, [bundle, bundle])
    artifact.registry.index(artifact.name, artifact.subject.replace(":", "-"), [{**referrer, "artifactType": BUNDLE}])
    return f"{artifact.url}@{referrer['digest']} has 2 layers; expected a bundle"


@pytest.mark.parametrize("put", [copied_statement, copied_message, copied_layer, report, text, long_text, two_layers])
def test_a_signature_of_something_else_is_refused(
    put: Callable[[Fraud], str], artifact: Repository, signer: Signer
) -> None:
    another = Repository(artifact.registry, artifact.name, "other", OTHER)
    problem = put(Fraud(artifact, another, signer))
    assert refusal(source(artifact.reference, signed=True)) == (
        f"{artifact.url}@{artifact.subject} has signatures, of which none can be used; the last: {problem}"
    )
    by_layer(artifact, signer)
    assert len(checked(artifact, signer).signatures) == 1
