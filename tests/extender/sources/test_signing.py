"""Public keys, and signatures as cosign writes them."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, padding, rsa

from extender.sources.private_key import PrivateKey
from extender.sources.signing import PublicKey, bundled, detached, simple
from extender.sources.source import Fetched, Signature, SourceError
from tests.extender.sources.signer import (
    SIGNED,
    Signer,
    digest,
    message_bundle,
    simple_signing,
    statement,
    statement_bundle,
    write,
)
from wasm_runtime.blob import Blob

WASM = b"\0asm\1\0\0\0"
OTHER = b"\0asm\1\0\0\0\0"


@pytest.fixture
def signer(tmp_path: Path) -> Signer:
    return Signer(tmp_path)


def fetched(*signatures: Signature) -> Fetched:
    return Fetched(Blob(WASM), "oci://registry.example/spread:v1", "1", signatures)


# -- keys ------------------------------------------------------------------------------------------

RSA_PSS = padding.PSS(padding.MGF1(hashes.SHA256()), hashes.SHA256.digest_size)
KEYS: dict[str, tuple[Callable[[], Any], tuple[Any, ...]]] = {
    "P-256": (lambda: ec.generate_private_key(ec.SECP256R1()), (ec.ECDSA(hashes.SHA256()),)),
    "P-384": (lambda: ec.generate_private_key(ec.SECP384R1()), (ec.ECDSA(hashes.SHA384()),)),
    "P-384, cosign 2": (lambda: ec.generate_private_key(ec.SECP384R1()), (ec.ECDSA(hashes.SHA256()),)),
    "P-521": (lambda: ec.generate_private_key(ec.SECP521R1()), (ec.ECDSA(hashes.SHA512()),)),
    "Ed25519": (ed25519.Ed25519PrivateKey.generate, ()),
    "RSA": (lambda: rsa.generate_private_key(65537, 2048), (padding.PKCS1v15(), hashes.SHA256())),
    "RSA-PSS": (lambda: rsa.generate_private_key(65537, 2048), (RSA_PSS, hashes.SHA256())),
}


@pytest.mark.parametrize(("make", "scheme"), KEYS.values(), ids=KEYS)
def test_a_signature_is_accepted_by_its_own_key_only(
    make: Callable[[], Any], scheme: tuple[Any, ...], tmp_path: Path
) -> None:
    key = make()
    right = PublicKey.read(write(tmp_path / "right.pub", key.public_key()))
    wrong = PublicKey.read(write(tmp_path / "wrong.pub", make().public_key()))
    signature = Signature(WASM, key.sign(WASM, *scheme))
    right.check(fetched(signature))
    right.check(fetched(Signature(WASM, b"not one"), signature))
    with pytest.raises(SourceError) as by_another:
        wrong.check(fetched(signature))
    with pytest.raises(SourceError) as of_another:
        right.check(fetched(signature._replace(payload=OTHER), signature._replace(value=signature.value[:-1])))
    name = "oci://registry.example/spread:v1 is signed, but"
    assert str(by_another.value) == (
        f"{name} its signature is not by this key; expected a signature by {tmp_path}/wrong.pub ({wrong.fingerprint})"
    )
    assert str(of_another.value) == (
        f"{name} none of its 2 signatures is by this key; expected a signature by {tmp_path}/right.pub"
        f" ({right.fingerprint})"
    )


def test_a_module_without_a_signature_is_refused(signer: Signer) -> None:
    key = PublicKey.read(signer.public_key)
    with pytest.raises(SourceError) as refused:
        key.check(fetched())
    assert str(refused.value) == (
        "oci://registry.example/spread:v1 is not signed; expected a signature by"
        f" {signer.public_key} ({key.fingerprint})"
    )


def test_a_fingerprint_is_the_digest_of_the_key_as_der(signer: Signer) -> None:
    der = base64.b64decode("".join(signer.public_key.read_text().splitlines()[1:-1]))
    assert PublicKey.read(signer.public_key).fingerprint == f"sha256:{hashlib.sha256(der).hexdigest()}"


PRIVATE = ec.generate_private_key(ec.SECP256R1()).private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
)
NO_KEY = (
    "{}: expected a public key in PEM (-----BEGIN PUBLIC KEY-----), such as the cosign.pub that"
    " `cosign generate-key-pair` writes"
)


@pytest.mark.parametrize("content", [b"", b"\xff\0", b"-----BEGIN PUBLIC KEY-----\n", PRIVATE], ids=range(4))
def test_what_is_no_public_key_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cosign.pub"
    path.write_bytes(content)
    with pytest.raises(SourceError) as refused:
        PublicKey.read(path)
    assert str(refused.value) == NO_KEY.format(path)


@pytest.mark.parametrize(
    "make",
    [
        lambda: rsa.generate_private_key(65537, 1024),
        lambda: ec.generate_private_key(ec.SECP256K1()),
        lambda: dsa.generate_private_key(1024),
    ],
    ids=["short RSA", "another curve", "DSA"],
)
def test_a_key_of_another_kind_is_refused(make: Callable[[], Any], tmp_path: Path) -> None:
    path = write(tmp_path / "cosign.pub", make().public_key())
    with pytest.raises(SourceError) as refused:
        PublicKey.read(path)
    assert str(refused.value) == (
        f"{path}: expected a key of ECDSA (P-256, P-384, P-521), of Ed25519, or of RSA with at least 2048 bits"
    )


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/none/cosign.key", "the {kind} key /none/cosign.key cannot be read: No such file or directory"),
        ("/", "the {kind} key / cannot be read: Is a directory"),
        ("a\0b", "the {kind} key 'a\\x00b' is no path: it holds a NUL"),
    ],
)
@pytest.mark.parametrize(("kind", "key"), [("public", PublicKey), ("private", PrivateKey)])
def test_a_key_that_is_not_there_is_refused(
    kind: str, key: type[PublicKey | PrivateKey], path: str, problem: str
) -> None:
    with pytest.raises(SourceError) as refused:
        key.read(Path(path))
    assert str(refused.value) == problem.format(kind=kind)


# -- documents beside a module -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "document",
    [
        lambda sign: base64.b64encode(sign(WASM)),
        lambda sign: base64.b64encode(sign(WASM)) + b"\n",
        lambda sign: sign(WASM),
        lambda sign: message_bundle(sign, WASM),
        lambda sign: message_bundle(sign, WASM, algorithm="", digest=""),
        lambda sign: b"\n" + statement_bundle(sign, statement(digest(WASM))),
    ],
    ids=["base64", "a line of base64", "as it is", "bundle", "bundle without a hint", "bundle of a statement"],
)
def test_a_detached_signature_is_read_in_any_form(document: Callable[[Signer], bytes], signer: Signer) -> None:
    PublicKey.read(signer.public_key).check(fetched(detached(WASM, document(signer))))


def test_what_was_signed_is_the_module_or_what_names_it() -> None:
    said = statement(digest(WASM))
    assert detached(WASM, base64.b64encode(b"value")) == Signature(WASM, b"value")
    signed = bundled(WASM, statement_bundle(lambda _: b"value", said))
    assert signed == Signature(b"DSSEv1 28 application/vnd.in-toto+json %d %b" % (len(said), said), b"value")


OTHERS = digest(OTHER)
NEITHER = "expected a signature in base64 or a bundle, as cosign writes them, found neither"
MANY_BYTES = b"A" * (16 * 1024 + 1)
PROBLEMS: dict[str, tuple[Callable[[Signer], bytes], str]] = {
    "long": (lambda _: MANY_BYTES, "expected a signature of at most 16384 bytes, found more"),
    "text": (lambda _: b"-----BEGIN PGP SIGNATURE-----", NEITHER),
    "empty": (lambda _: b"\n", NEITHER),
    "cut off": (lambda _: b'{"mess', "expected a bundle of sigstore: Input data was truncated"),
    "nested": (
        lambda _: b'{"":' + b"[" * 16000,
        "expected a bundle of sigstore: maximum recursion depth exceeded while deserializing an object",
    ),
    "other JSON": (
        lambda _: b"{}",
        "expected a bundle of sigstore, found neither messageSignature nor dsseEnvelope in it",
    ),
    "other module": (
        lambda sign: message_bundle(sign, OTHER),
        f"expected a signature of {digest(WASM)}, found one of {OTHERS}",
    ),
    "other statement": (
        lambda sign: statement_bundle(sign, statement(OTHERS)),
        f"expected a statement on {digest(WASM)}, found one on something else",
    ),
    "other predicate": (
        lambda sign: statement_bundle(sign, statement(digest(WASM), "https://slsa.dev/provenance/v1")),
        f"expected the predicate {SIGNED}, found 'https://slsa.dev/provenance/v1'",
    ),
    "other payload": (
        lambda sign: statement_bundle(sign, statement(digest(WASM)), kind="text/plain"),
        "expected one signature of application/vnd.in-toto+json in a bundle's envelope",
    ),
    "two signatures": (
        lambda sign: statement_bundle(sign, statement(digest(WASM)), count=2),
        "expected one signature of application/vnd.in-toto+json in a bundle's envelope",
    ),
    "no statement": (
        lambda sign: statement_bundle(sign, b"{}"),
        "expected a bundle of sigstore: Object missing required field `predicateType`",
    ),
}


@pytest.mark.parametrize(("document", "problem"), PROBLEMS.values(), ids=PROBLEMS)
def test_a_document_that_holds_no_signature_of_the_module_is_refused(
    document: Callable[[Signer], bytes], problem: str, signer: Signer
) -> None:
    with pytest.raises(SourceError, match=f"^{re.escape(problem)}$"):
        detached(WASM, document(signer))


def test_a_bundle_with_another_bundles_statement_is_not_by_the_key(signer: Signer) -> None:
    honest = statement_bundle(signer, statement(OTHERS))
    said, forged = (base64.b64encode(statement(each)) for each in (OTHERS, digest(WASM)))
    with pytest.raises(SourceError, match="its signature is not by this key"):
        PublicKey.read(signer.public_key).check(fetched(detached(WASM, honest.replace(said, forged))))


# -- documents that name a manifest --------------------------------------------------------------------


def test_a_document_that_names_the_manifest_is_what_was_signed(signer: Signer) -> None:
    payload = simple_signing(digest(WASM))
    signature = simple(WASM, payload, base64.b64encode(signer(payload)).decode())
    assert signature.payload == payload
    PublicKey.read(signer.public_key).check(fetched(signature))


@pytest.mark.parametrize(
    ("payload", "signature", "problem"),
    [
        (simple_signing(OTHERS), "", f"expected a signature of {digest(WASM)}, found one of '{OTHERS}'"),
        (
            simple_signing(digest(WASM), "atomic container signature"),
            "",
            "expected a document of the type 'cosign container image signature', found 'atomic container signature'",
        ),
        (
            b"{}",
            "",
            "expected a document that `cosign sign` writes: Object missing required field `critical`",
        ),
        (
            simple_signing(digest(WASM)),
            "no base64",
            NEITHER,
        ),
    ],
    ids=["another manifest", "another type", "other JSON", "no base64"],
)
def test_a_document_that_does_not_name_the_manifest_is_refused(payload: bytes, signature: str, problem: str) -> None:
    with pytest.raises(SourceError, match=f"^{re.escape(problem)}$"):
        simple(WASM, payload, signature)
