"""`kwx push`, `pull`, `verify` and `digest`, with a real registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from extender.sources.private_key import PASSWORD
from extender.sources.signing import PublicKey
from tests.extender import guests
from tests.extender.commands.command import Command
from tests.extender.sources import signer
from tests.extender.sources.certificates import authority
from tests.extender.sources.oci.registry import HTPASSWD, USER, Registry, running
from tests.extender.sources.oci.registry import PASSWORD as LOGIN
from tests.extender.sources.oci.test_auth import log_in
from tests.extender.sources.web import answer, serving
from wasm_runtime.blob import digest
from wasm_runtime.module import metadata

SCHEMA = {"type": "object", "properties": {"tier": {"type": "string"}}}
WASM = metadata.embed(
    guests.module("score_by_digit"), metadata.Metadata("go 0.1.0", msgspec.Raw(msgspec.json.encode(SCHEMA)))
)
ANNOTATIONS = {
    "dev.kwx.abi": "kube-scheduler-wasm-extension",
    "dev.kwx.config-schema": '{"type":"object","properties":{"tier":{"type":"string"}}}',
    "dev.kwx.extension-points": "score",
    "dev.kwx.language": "Go",
    "dev.kwx.sdk": "go 0.1.0",
}


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "tier.wasm"
    path.write_bytes(WASM)
    return path


@pytest.fixture
def key(tmp_path: Path) -> tuple[Path, Path]:
    """A private key and its public one, as openssl writes them."""
    return key_pair(tmp_path, "key")


def key_pair(folder: Path, name: str, password: bytes | None = None) -> tuple[Path, Path]:
    made = ec.generate_private_key(ec.SECP256R1())
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    private = folder / f"{name}.pem"
    private.write_bytes(made.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
    return private, signer.write(folder / f"{name}.pub", made.public_key())


def pushed(stdout: str) -> str:
    """The digest of the manifest."""
    return stdout.splitlines()[0].rpartition("@")[2]


def test_a_module_that_is_pushed_says_what_it_is_and_comes_back(
    command: Command, registry: Registry, repository: str, module: Path, tmp_path: Path
) -> None:
    url = f"oci://{registry.address}/{repository}"
    ended = command("push", module, f"{url}:v1", "--annotation", "org.example=a=b", "--output", "json")
    assert (ended.status, ended.stderr) == (0, "")
    told = json.loads(ended.stdout)
    reference = told.pop("reference")
    annotations = {**ANNOTATIONS, "org.example": "a=b"}
    assert told == {"digest": digest(WASM), "annotations": annotations, "signer": None}
    manifest = json.loads(registry.read(repository, "v1"))
    assert reference == f"{url}:v1@{digest(registry.read(repository, 'v1'))}"
    assert manifest["annotations"] == annotations
    assert manifest["layers"] == [
        {
            "mediaType": "application/wasm",
            "digest": digest(WASM),
            "size": len(WASM),
            "annotations": {"org.opencontainers.image.title": "tier.wasm"},
        }
    ]
    assert manifest["config"]["mediaType"] == "application/vnd.wasm.config.v0+json"
    assert command("digest", f"{url}:v1") == (0, f"{digest(WASM)}\n", "")
    out = tmp_path / "pulled.wasm"
    ended = command("pull", reference, "--out", out, "--digest", digest(WASM))
    origin = reference.replace(":v1@", "@")
    assert ended == (0, f"{out}  {len(WASM)} bytes  {digest(WASM)}\nof {origin}\n", "")
    assert out.read_bytes() == WASM


def test_what_is_not_known_of_a_module_is_not_told(
    command: Command, registry: Registry, repository: str, tmp_path: Path
) -> None:
    bare = tmp_path / "bare.wasm"
    bare.write_bytes(guests.module("score_by_digit"))
    ended = command("push", bare, f"oci://{registry.address}/{repository}:v1", "--output", "json")
    known = ("dev.kwx.abi", "dev.kwx.extension-points")
    assert (ended.status, json.loads(ended.stdout)["annotations"]) == (0, {name: ANNOTATIONS[name] for name in known})


def test_a_pull_is_named_after_the_repository(
    command: Command, registry: Registry, repository: str, module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("push", module, f"{registry.address}/{repository}/spread:v1").status == 0
    ended = command("pull", f"oci://{registry.address}/{repository}/spread:v1", "--output", "json")
    found = json.loads(ended.stdout)
    assert (found["file"], found["digest"], found["size"], found["signer"]) == (
        "spread.wasm",
        digest(WASM),
        len(WASM),
        None,
    )
    assert (tmp_path / "spread.wasm").read_bytes() == WASM


def test_the_same_module_is_the_same_artifact(
    command: Command, registry: Registry, repository: str, module: Path
) -> None:
    url = f"oci://{registry.address}/{repository}"
    first, second = (pushed(command("push", module, f"{url}:{tag}").stdout) for tag in ("v1", "v2"))
    assert first == second


def test_what_is_signed_is_verified_by_its_key_alone(
    command: Command, registry: Registry, repository: str, module: Path, key: tuple[Path, Path], tmp_path: Path
) -> None:
    url, (private, public) = f"oci://{registry.address}/{repository}:v1", key
    ended = command("push", module, url, "--key", private)
    fingerprint = PublicKey.read(public).fingerprint
    manifest = pushed(ended.stdout)
    assert ended == (
        0,
        f"{url}@{manifest}\nmodule {digest(WASM)}, {len(WASM)} bytes\nsigned by {private} ({fingerprint})\n",
        "",
    )
    origin = f"{url}@{manifest}"
    ended = command("verify", url, "--key", public)
    assert ended == (0, f"{origin} is signed by {public} ({fingerprint})\nmodule {digest(WASM)}\n", "")
    assert json.loads(command("verify", url, "--key", public, "--output", "json").stdout) == {
        "origin": origin,
        "digest": digest(WASM),
        "size": len(WASM),
        "signer": fingerprint,
        "file": None,
    }
    _, other = key_pair(tmp_path, "other")
    refused = f"expected a signature by {other} ({PublicKey.read(other).fingerprint})"
    for verb in ("verify", "pull"):
        ended = command(verb, url, "--key", other)
        assert ended == (1, "", f"kwx: {origin} is signed, but its signature is not by this key; {refused}\n")


def test_signatures_are_added_once_each(
    command: Command, registry: Registry, repository: str, module: Path, tmp_path: Path
) -> None:
    url = f"oci://{registry.address}/{repository}:v1"
    keys = [key_pair(tmp_path, name) for name in ("one", "two")]
    for private, _ in (*keys, *keys):
        assert command("push", module, url, "--key", private).status == 0
    for _, public in keys:
        assert command("verify", url, "--key", public).status == 0
    tag = digest(registry.read(repository, "v1")).replace(":", "-")
    assert len(json.loads(registry.read(repository, f"{tag}.sig"))["layers"]) == 2


def test_an_encrypted_key_has_its_password_in_a_variable(
    command: Command, registry: Registry, repository: str, module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"oci://{registry.address}/{repository}:v1"
    private, public = key_pair(tmp_path, "key", b"open sesame")
    refused = command("push", module, url, "--key", private)
    assert refused == (1, "", f"kwx: {private} is encrypted: set {PASSWORD} to its password\n")
    monkeypatch.setenv(PASSWORD, "wrong")
    refused = command("push", module, url, "--key", private)
    expected = "expected a private key in PEM (-----BEGIN PRIVATE KEY-----), and its password in KWX_KEY_PASSWORD"
    assert refused == (1, "", f"kwx: {private}: {expected}\n")
    monkeypatch.setenv(PASSWORD, "open sesame")
    assert command("push", module, url, "--key", private).status == 0
    assert command("verify", url, "--key", public).status == 0


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", ": expected a private key in PEM (-----BEGIN PRIVATE KEY-----)"),
        (
            b"-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\n",
            " is a key in cosign's own format: push without a key, and then sign by `cosign sign --key`, or take a key"
            " in PEM such as openssl writes",
        ),
        (
            ec.generate_private_key(ec.SECP256K1()).private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
            ": expected a key of ECDSA (P-256, P-384, P-521), of Ed25519, or of RSA with at least 2048 bits",
        ),
        (None, " cannot be read: No such file or directory"),
    ],
    ids=["empty", "cosign's", "another curve", "missing"],
)
def test_what_is_no_private_key_is_refused(
    command: Command, module: Path, tmp_path: Path, content: bytes | None, problem: str
) -> None:
    path = tmp_path / "key.pem"
    if content is not None:
        path.write_bytes(content)
    name = path if content is not None else f"the private key {path}"
    assert command("push", module, "127.0.0.1:1/tier:v1", "--key", path) == (1, "", f"kwx: {name}{problem}\n")


def test_a_file_is_verified_by_the_signature_beside_it(command: Command, module: Path, tmp_path: Path) -> None:
    sign = signer.Signer(tmp_path)
    refused = f"expected a signature by {sign.public_key} ({PublicKey.read(sign.public_key).fingerprint})"
    assert command("verify", module, "--key", sign.public_key) == (1, "", f"kwx: {module} is not signed; {refused}\n")
    Path(f"{module}.sig").write_bytes(sign(WASM))
    assert command("verify", module, "--key", sign.public_key).status == 0
    assert command("digest", module) == (0, f"{digest(WASM)}\n", "")


# -- logins and TLS ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Registry, Path]]:
    """A registry with a password and TLS, and its CA."""
    folder = tmp_path_factory.mktemp("closed")
    (folder / "htpasswd").write_text(HTPASSWD)
    ca_file, _ = authority(folder)
    auth = {"htpasswd": {"realm": "registry", "path": str(folder / "htpasswd")}}
    with running(folder, auth=auth, login=(USER, LOGIN), ca_file=ca_file) as registry:
        yield registry, ca_file


def test_a_login_is_shown_to_its_registry_over_tls(
    command: Command, closed: tuple[Registry, Path], logins: Path, module: Path
) -> None:
    registry, ca_file = closed
    target = f"oci://{registry.address}/tier:v1"
    refused = command("push", module, target, "--ca-file", ca_file)
    nobody = f"{registry.address} lets nobody without a login write to tier, if it is there at all"
    assert refused == (1, "", f"kwx: {nobody}, and {logins} has none for it; `docker login {registry.address}`\n")
    log_in(logins, registry.address)
    assert command("push", module, target, "--ca-file", ca_file).status == 0
    assert command("digest", target, "--ca-file", ca_file) == (0, f"{digest(WASM)}\n", "")


def test_an_unknown_certificate_names_the_option(
    command: Command, closed: tuple[Registry, Path], tmp_path: Path
) -> None:
    registry, _ = closed
    other, _ = authority(tmp_path)
    ended = command("digest", f"oci://{registry.address}/tier:v1", "--ca-file", other)
    assert ended.status == 1
    assert ended.stderr.endswith("name the CA that signed it in --ca-file\n")


# -- registries that are not as they should be -------------------------------------------------------


def test_an_upload_goes_nowhere_but_to_its_registry(command: Command, module: Path) -> None:
    with serving() as web, serving() as elsewhere:
        address = web.url("").removeprefix("http://")
        web.pages["/v2/tier/blobs/uploads/"] = answer(202, Location=elsewhere.url("/upload?token=secret"))
        ended = command("push", module, f"{address}/tier:v1")
        follows = f"is not the registry itself and is not followed; have it name itself http://{address}"
        went = f"oci://{address}/tier has uploads go to {elsewhere.url('/upload')!r}, which {follows}"
        assert ended == (1, "", f"kwx: {went}\n")
        assert elsewhere.requests == []


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (404, "oci://{address}/tier is not there, and its registry makes none by a push; create it there"),
        (405, "http://{address}/v2/tier/blobs/uploads/ answers 405 Method Not Allowed"),
        (503, "http://{address}/v2/tier/blobs/uploads/ answers 503 Service Unavailable; see to the server"),
    ],
)
def test_a_registry_that_takes_nothing(command: Command, module: Path, status: int, problem: str) -> None:
    with serving() as web:
        web.pages["/v2/tier/blobs/uploads/"] = answer(status)
        address = web.url("").removeprefix("http://")
        assert command("push", module, f"{address}/tier:v1") == (1, "", f"kwx: {problem.format(address=address)}\n")


# -- what is not pushed ------------------------------------------------------------------------------


def test_what_cannot_be_a_plugin_is_not_pushed(command: Command, tmp_path: Path) -> None:
    module = guests.build("no_memory", tmp_path)
    ended = command("push", module, "127.0.0.1:1/tier:v1")
    problem = "exports no memory named 'memory': the host hands everything to a guest through it"
    assert ended == (1, "", f"kwx: {module} {problem}\n")
    missing = tmp_path / "missing.wasm"
    ended = command("push", missing, "127.0.0.1:1/tier:v1")
    assert ended == (1, "", f"kwx: {missing} cannot be read: No such file or directory; build it or mend the path\n")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["push", "tier.wasm", "file:///tier.wasm"], "expected oci://REGISTRY/REPOSITORY"),
        (["push", "tier.wasm", f"registry.example/tier@{digest(b'')}"], "expected a tag"),
        (["push", "tier.wasm", "registry.example/tier:v1", "--annotation", "dev.kwx.abi=x"], "expected NAME=TEXT"),
        (["push", "tier.wasm", "registry.example/tier:v1", "--annotation", "none"], "expected NAME=TEXT"),
        (["push", "tier.wasm", "registry.example/tier:v1", "--timeout", "2"], "expected a duration"),
        (["pull", "ftp://registry.example/tier"], "expected a URL that begins with one of"),
        (["digest", "oci://me:secret@registry.example/tier"], "a URL must not hold a login"),
        (["pull", "tier.wasm", "--digest", "sha256:1"], "expected sha256: and 64 hexadecimal digits"),
        (["verify", "tier.wasm"], "Missing option '--key'"),
    ],
    ids=range(9),
)
def test_wrong_usage(command: Command, arguments: list[Any], problem: str) -> None:
    ended = command(*arguments)
    assert (ended.status, ended.stdout) == (2, "")
    words = " ".join(ended.stderr.replace("│", " ").split())
    assert problem in words
    assert "secret" not in words
