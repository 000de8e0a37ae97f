"""What identities need: the key that signs service account tokens, the API server's users, kubeconfig files."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import yaml

# ECPrivateKey of RFC 5915 on the curve P-256 without its optional public key, around the 32 bytes of the key.
EC_KEY_HEAD = bytes.fromhex("30310201010420")
EC_KEY_TAIL = bytes.fromhex("a00a06082a8648ce3d030107")


@dataclass(frozen=True, slots=True)
class User:
    """A user of the API server, known by a static token."""

    name: str
    groups: tuple[str, ...] = ()
    token: str = field(default_factory=secrets.token_urlsafe, repr=False)


def signing_key() -> str:
    """A fresh private key for service account tokens, as PEM."""
    # 255 random bits, never zero, are below the order of the curve, so each is a valid key.
    key = (secrets.randbits(255) | 1).to_bytes(32, "big")
    body = base64.b64encode(EC_KEY_HEAD + key + EC_KEY_TAIL).decode()
    lines = [body[start : start + 64] for start in range(0, len(body), 64)]
    return "\n".join(["-----BEGIN EC PRIVATE KEY-----", *lines, "-----END EC PRIVATE KEY-----", ""])


def token_file(users: Iterable[User]) -> str:
    """The content of the API server's `--token-auth-file`: token, user, uid, groups.

    https://kubernetes.io/docs/reference/access-authn-authz/authentication/#static-token-file
    """
    return "".join(f'{user.token},{user.name},{user.name},"{",".join(user.groups)}"\n' for user in users)


def write_kubeconfig(path: Path, server: str, certificate_authority: Path, token: str) -> Path:
    """Write a kubeconfig that needs no other file, readable by us only; returns `path`."""
    authority = base64.b64encode(certificate_authority.read_bytes()).decode()
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "controlplane", "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [{"name": "controlplane", "context": {"cluster": "controlplane", "user": "user"}}],
        "current-context": "controlplane",
    }
    return write_private(path, yaml.safe_dump(content))


def write_private(path: Path, content: str) -> Path:
    """Write a file that only we can read; returns `path`."""
    path.touch(mode=0o600)
    path.write_text(content)
    return path
