"""Private keys that modules are signed with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

from extender.sources.signing import HASHES, PublicKey, read_key
from extender.sources.source import SourceError

PASSWORD: Final = "KWX_KEY_PASSWORD"
"""The variable with the password of a key that is encrypted."""

_COSIGNS: Final = b"-----BEGIN ENCRYPTED"
_COSIGNS_NAMES: Final = (b"SIGSTORE", b"COSIGN")


class PrivateKey:
    """A key in PEM, of a kind that `PublicKey` knows. `repr()` and errors tell nothing of it."""

    def __init__(self, path: Path, pem: bytes, password: str | None) -> None:
        """Raises SourceError."""
        if any(_COSIGNS + b" " + name in pem for name in _COSIGNS_NAMES):
            raise SourceError(
                f"{path} is a key in cosign's own format: push without a key, and then sign by `cosign sign --key`,"
                " or take a key in PEM such as openssl writes"
            )
        try:
            key = serialization.load_pem_private_key(pem, password.encode() if password else None)
        except TypeError:  # Encrypted without a password, or the reverse.
            mend = (
                f"is not encrypted: unset {PASSWORD}" if password else f"is encrypted: set {PASSWORD} to its password"
            )
            raise SourceError(f"{path} {mend}") from None
        except (ValueError, UnsupportedAlgorithm):
            hint = f", and its password in {PASSWORD}" if password else ""
            raise SourceError(f"{path}: expected a private key in PEM (-----BEGIN PRIVATE KEY-----){hint}") from None
        pem = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        self._key = key
        self.public = PublicKey(path, pem)
        """Says which kinds of keys there are, too."""

    @classmethod
    def read(cls, path: Path) -> PrivateKey:
        """Reads a key. Raises SourceError."""
        return cls(path, read_key("private", path), os.environ.get(PASSWORD))

    def sign(self, payload: bytes) -> bytes:
        """A signature, not encoded."""
        key = self._key
        if isinstance(key, ec.EllipticCurvePrivateKey):
            return key.sign(payload, ec.ECDSA(HASHES[key.curve.name][0]))
        if isinstance(key, rsa.RSAPrivateKey):
            return key.sign(payload, padding.PKCS1v15(), hashes.SHA256())
        assert isinstance(key, ed25519.Ed25519PrivateKey), "PublicKey knows no other kind"
        return key.sign(payload)
