"""Signatures as cosign 3 and those before it write them, made without it."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any, Protocol

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

SIGNED = "https://sigstore.dev/cosign/sign/v1"


class Sign(Protocol):
    """Signs bytes."""

    def __call__(self, content: bytes, /) -> bytes: ...


class Signer:
    """A key pair, such as `cosign generate-key-pair` makes."""

    def __init__(self, folder: Path) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.public_key = write(folder / "cosign.pub", self._key.public_key())

    def __call__(self, content: bytes, /) -> bytes:
        return self._key.sign(content, ec.ECDSA(hashes.SHA256()))


def write(path: Path, key: Any) -> Path:
    """A public key in a file."""
    path.write_bytes(
        key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
    )
    return path


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def message_bundle(sign: Sign, content: bytes, **hint: str) -> bytes:
    """What `cosign sign-blob --bundle` writes."""
    hint = hint or {"algorithm": "SHA2_256", "digest": _text(hashlib.sha256(content).digest())}
    return _bundle({"messageSignature": {"messageDigest": hint, "signature": _text(sign(content))}})


def statement(subject: str, predicate: str = SIGNED) -> bytes:
    """What `cosign sign` says of a manifest."""
    return json.dumps(
        {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"digest": {"sha256": subject.removeprefix("sha256:")}, "annotations": {}}],
            "predicateType": predicate,
            "predicate": {},
        }
    ).encode()


def statement_bundle(sign: Sign, content: bytes, kind: str = "application/vnd.in-toto+json", count: int = 1) -> bytes:
    """A bundle of a statement, signed as https://github.com/secure-systems-lab/dsse/blob/master/protocol.md says."""
    signed = f"DSSEv1 {len(kind)} {kind} {len(content)} ".encode() + content
    signatures = [{"sig": _text(sign(signed))}] * count
    return _bundle({"dsseEnvelope": {"payload": _text(content), "payloadType": kind, "signatures": signatures}})


def simple_signing(subject: str, kind: str = "cosign container image signature") -> bytes:
    """What cosign before 3 signs for a manifest."""
    image = {"docker-manifest-digest": subject}
    critical = {"identity": {"docker-reference": "registry.example/spread"}, "image": image, "type": kind}
    return json.dumps({"critical": critical, "optional": None}).encode()


def _bundle(content: dict[str, Any]) -> bytes:
    material = {"publicKey": {"hint": "EC6v2fhhN/0iv2903B3h8+2Z9SNSXkp30dxTXbwLGr4="}}
    kind = "application/vnd.dev.sigstore.bundle.v0.3+json"
    return json.dumps({"mediaType": kind, "verificationMaterial": material, **content}).encode()


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
