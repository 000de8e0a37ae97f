"""Signatures of modules by a public key, in the formats of cosign.

Only the key is looked at: neither a transparency log nor when something was signed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

from extender.sources.download import Limit
from extender.sources.source import Fetched, Signature, SourceError
from wasm_runtime.blob import digest as digest_of
from wasm_runtime.engine import KIBIBYTE

MAX_KEY_BYTES: Final = 64 * KIBIBYTE
MAX_SIGNATURE_BYTES: Final = 16 * KIBIBYTE
"""Bytes of a `.sig` document or a bundle."""
SIGNATURE_LIMIT: Final = Limit(MAX_SIGNATURE_BYTES)

SIGNATURE_SUFFIX: Final = ".sig"
"""Of the name of a document with a signature, which begins with the module's."""

MIN_RSA_BITS: Final = 2048
"""Bits; shorter keys are no longer safe (NIST SP 800-131A)."""

HASHES: Final[Mapping[str, Sequence[hashes.HashAlgorithm]]] = {
    "secp256r1": (hashes.SHA256(),),
    "secp384r1": (hashes.SHA384(), hashes.SHA256()),
    "secp521r1": (hashes.SHA512(), hashes.SHA256()),
}
"""What is hashed with for keys of a curve: as cosign 3 does, and as those before it did."""

_PADDINGS: Final[Sequence[padding.AsymmetricPadding]] = (
    padding.PKCS1v15(),
    padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.AUTO),
)

_Verify = Callable[[bytes, bytes], None]
"""Takes a signature and what was signed. Raises InvalidSignature."""


class PublicKey:
    """A key that modules have to be signed by.

    Ed25519 is the pure one (RFC 8032): with such a key `cosign sign-blob` makes that, `cosign sign` the prehashed one.
    """

    fingerprint: str
    """`sha256:` and the digest of the key's SubjectPublicKeyInfo (DER)."""

    def __init__(self, path: Path, pem: bytes) -> None:
        self._path = path
        try:
            key = serialization.load_pem_public_key(pem)
        except (ValueError, UnsupportedAlgorithm):
            raise SourceError(
                f"{path}: expected a public key in PEM (-----BEGIN PUBLIC KEY-----), such as the cosign.pub that"
                " `cosign generate-key-pair` writes"
            ) from None
        self._verifiers = tuple(_verifiers(key))
        if not self._verifiers:
            raise SourceError(
                f"{path}: expected a key of ECDSA (P-256, P-384, P-521), of Ed25519, or of RSA with at least"
                f" {MIN_RSA_BITS} bits"
            )
        der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.fingerprint = digest_of(der)

    @classmethod
    def read(cls, path: Path) -> PublicKey:
        """Reads a key in PEM. Raises SourceError."""
        return cls(path, read_key("public", path))

    def check(self, fetched: Fetched) -> None:
        """Raises SourceError unless one of the module's signatures is by this key."""
        if any(self.has_made(signature) for signature in fetched.signatures):
            return
        count = len(fetched.signatures)
        found = f"none of its {count} signatures is" if count > 1 else "its signature is not"
        raise self._missed(fetched.origin, f"is signed, but {found} by this key" if count else "is not signed")

    def check_signer(self, origin: str, signer: str | None) -> None:
        """Raises SourceError unless a signature of the module from there was verified by this key: its fingerprint."""
        if signer != self.fingerprint:
            raise self._missed(origin, f"is signed by another key ({signer})" if signer else "is not signed")

    def _missed(self, origin: str, found: str) -> SourceError:
        return SourceError(f"{origin} {found}; expected a signature by {self._path} ({self.fingerprint})")

    def has_made(self, signature: Signature) -> bool:
        """Whether a signature is by this key."""
        for verify in self._verifiers:
            try:
                verify(signature.value, signature.payload)
            except InvalidSignature:
                continue
            return True
        return False


def read_key(kind: str, path: Path) -> bytes:
    """What a file with a "public" or "private" key holds, up to `MAX_KEY_BYTES`. Raises SourceError."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_KEY_BYTES)
    except ValueError as error:
        raise SourceError(f"the {kind} key {str(path)!r} is no path: it holds a NUL") from error
    except OSError as error:
        raise SourceError(f"the {kind} key {path} cannot be read: {error.strerror}") from error


def _verifiers(key: object) -> Sequence[_Verify]:
    """The ways in which a key may have signed; none for a key that is not supported."""
    if isinstance(key, ed25519.Ed25519PublicKey):
        return [key.verify]
    if isinstance(key, ec.EllipticCurvePublicKey):
        return [_ecdsa(key, algorithm) for algorithm in HASHES.get(key.curve.name, ())]
    if isinstance(key, rsa.RSAPublicKey) and key.key_size >= MIN_RSA_BITS:
        return [_rsa(key, scheme) for scheme in _PADDINGS]
    return []


def _ecdsa(key: ec.EllipticCurvePublicKey, algorithm: hashes.HashAlgorithm) -> _Verify:
    return lambda value, payload: key.verify(value, payload, ec.ECDSA(algorithm))


def _rsa(key: rsa.RSAPublicKey, scheme: padding.AsymmetricPadding) -> _Verify:
    return lambda value, payload: key.verify(value, payload, scheme, hashes.SHA256())


def detached(wasm: bytes, text: bytes) -> Signature:
    """The signature of a module in a document beside it. Raises SourceError.

    The document is what `cosign sign-blob` writes with `--output-signature` (base64) or with `--bundle`, or the
    signature as it is.
    """
    if len(text) > MAX_SIGNATURE_BYTES:
        raise SourceError(f"expected a signature of at most {MAX_SIGNATURE_BYTES} bytes, found more")
    if not text.isascii():
        return Signature(wasm, text)
    if text.lstrip().startswith(b"{"):
        return bundled(wasm, text)
    return Signature(wasm, _decoded(text.strip()))


def detached_signatures(name: str, wasm: bytes, text: bytes | None) -> Sequence[Signature]:
    """The signature in a document beside the module, if there is one. `name` is the document's. Raises SourceError."""
    if text is None:
        return ()
    try:
        return (detached(wasm, text),)
    except SourceError as error:
        raise SourceError(f"{name}: {error}") from error


class _MessageDigest(msgspec.Struct):
    """A hint only: the signature tells. Not there for Ed25519."""

    algorithm: str = ""
    digest: bytes = b""


class _MessageSignature(msgspec.Struct, rename="camel"):
    message_digest: _MessageDigest
    signature: bytes


class _EnvelopeSignature(msgspec.Struct):
    sig: bytes


class _Envelope(msgspec.Struct, rename="camel"):
    payload: bytes
    payload_type: str
    signatures: list[_EnvelopeSignature]


class _Bundle(msgspec.Struct, rename="camel"):
    """A Bundle of sigstore's protobuf-specs, in JSON, without what certificates and logs need."""

    message_signature: _MessageSignature | None = None
    dsse_envelope: _Envelope | None = None


class _Subject(msgspec.Struct):
    digest: dict[str, str]


class _Statement(msgspec.Struct, rename="camel"):
    """A Statement of in-toto."""

    predicate_type: str
    subject: list[_Subject]


_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_BUNDLE: Final = msgspec.json.Decoder(_Bundle)
_STATEMENT: Final = msgspec.json.Decoder(_Statement)
_DIGESTS: Final = {"SHA2_256": "sha256", "SHA2_384": "sha384", "SHA2_512": "sha512"}
"""What hashlib calls the algorithms of a bundle."""

_STATEMENT_TYPE: Final = "application/vnd.in-toto+json"
_SIGNED: Final = "https://sigstore.dev/cosign/sign/v1"
"""The predicate of `cosign sign`. Others, such as those of scanners, tell of what they name, and approve of nothing."""


def bundled(artifact: bytes, text: bytes) -> Signature:
    """The signature of an artifact in a bundle of sigstore. Raises SourceError, also if it is of something else."""
    try:
        bundle = _BUNDLE.decode(text)
        if bundle.message_signature:
            return _of_message(artifact, bundle.message_signature)
        if bundle.dsse_envelope:
            return _of_statement(artifact, bundle.dsse_envelope)
    except _UNREADABLE as error:
        raise SourceError(f"expected a bundle of sigstore: {error}") from error
    raise SourceError("expected a bundle of sigstore, found neither messageSignature nor dsseEnvelope in it")


def _of_message(artifact: bytes, signed: _MessageSignature) -> Signature:
    hint = signed.message_digest
    algorithm = _DIGESTS.get(hint.algorithm)
    if algorithm and hint.digest != hashlib.new(algorithm, artifact).digest():
        raise SourceError(
            f"expected a signature of {digest_of(artifact)}, found one of {algorithm}:{hint.digest.hex()}"
        )
    return Signature(artifact, signed.signature)


def _of_statement(artifact: bytes, envelope: _Envelope) -> Signature:
    if envelope.payload_type != _STATEMENT_TYPE or len(envelope.signatures) != 1:
        raise SourceError(f"expected one signature of {_STATEMENT_TYPE} in a bundle's envelope")
    statement = _STATEMENT.decode(envelope.payload)
    if statement.predicate_type != _SIGNED:
        raise SourceError(f"expected the predicate {_SIGNED}, found {statement.predicate_type[:100]!r}")
    digest = digest_of(artifact)
    if all(f"sha256:{subject.digest.get('sha256')}" != digest for subject in statement.subject):
        raise SourceError(f"expected a statement on {digest}, found one on something else")
    return Signature(_encoded(envelope.payload_type.encode(), envelope.payload), envelope.signatures[0].sig)


def _encoded(kind: bytes, payload: bytes) -> bytes:
    """What is signed of a DSSE envelope: its Pre-Authentication Encoding."""
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


class _Image(msgspec.Struct, rename="kebab"):
    docker_manifest_digest: str


class _Critical(msgspec.Struct):
    type: str
    image: _Image


class _SimpleSigning(msgspec.Struct):
    critical: _Critical


_SIMPLE_SIGNING: Final = msgspec.json.Decoder(_SimpleSigning)
_IMAGE_SIGNATURE: Final = "cosign container image signature"


def simple(manifest: bytes, payload: bytes, signature: str) -> Signature:
    """The signature (base64) of a document of cosign's that names a manifest. Raises SourceError."""
    try:
        critical = _SIMPLE_SIGNING.decode(payload).critical
    except _UNREADABLE as error:
        raise SourceError(f"expected a document that `cosign sign` writes: {error}") from error
    if critical.type != _IMAGE_SIGNATURE:
        raise SourceError(f"expected a document of the type {_IMAGE_SIGNATURE!r}, found {critical.type[:100]!r}")
    digest = digest_of(manifest)
    if critical.image.docker_manifest_digest != digest:
        raise SourceError(
            f"expected a signature of {digest}, found one of {critical.image.docker_manifest_digest[:100]!r}"
        )
    return Signature(payload, _decoded(signature.encode()))


def simple_payload(name: str, digest: str) -> bytes:
    """The document of cosign's that names a manifest, to be signed. `name` is that of its repository."""
    critical = {"identity": {"docker-reference": name}, "image": {"docker-manifest-digest": digest}}
    return msgspec.json.encode({"critical": {**critical, "type": _IMAGE_SIGNATURE}, "optional": None})


def _decoded(text: bytes) -> bytes:
    try:
        value = base64.b64decode(text, validate=True)
    except binascii.Error:
        value = b""
    if not value:
        raise SourceError("expected a signature in base64 or a bundle, as cosign writes them, found neither")
    return value
