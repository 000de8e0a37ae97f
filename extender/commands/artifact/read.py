"""`kwx pull`, `kwx verify` and `kwx digest`: what a source gives, without an extender."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from extender.commands.artifact.options import TRANSFER, Transfer, checked_url, failing, transfers
from extender.commands.output import View, ViewOption, write_json
from extender.config import PluginConfig, RuntimeConfig
from extender.config.urls import public
from extender.rollouts.pipeline import check_digest
from extender.sources import Fetched
from extender.sources.factory import open_source
from extender.sources.signing import PublicKey
from extender.sources.source import fetch_now

Url = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        callback=checked_url,
        help="A guestURL, such as oci://registry.example/tier:v1, or the path of a file.",
        show_default=False,
    ),
]
Key = Annotated[Path, typer.Option("--key", metavar="FILE", help="Public key in PEM that must have signed it.")]
Pin = Annotated[
    str | None, typer.Option("--digest", metavar="DIGEST", help="Digest of the only module that is accepted.")
]


class Found(msgspec.Struct):
    """A module that a source has given, as JSON output shows it."""

    origin: str
    digest: str
    size: int
    """Bytes of the module."""
    signer: str | None = None
    """Fingerprint of the key that has signed the module; None if no key was asked for."""
    file: str | None = None
    """The file that the module was written to; None if it was not."""


@transfers
def pull(
    url: Url,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where it goes; by default here, by the last part of the URL.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Public key in PEM that must have signed it.")
    ] = None,
    digest: Pin = None,
    transfer: Transfer = TRANSFER,
    output: ViewOption = View.TABLE,
) -> None:
    """Fetch a module as the extender would, and write it to a file once it is verified."""
    with failing():
        fetched, signer = _fetch(url, key, digest, transfer)
        file = out or Path(_name(url))
        _write(file, fetched.module.content)
    if output is View.JSON:
        write_json(_found(fetched, signer, file))
        return
    typer.echo(f"{file}  {len(fetched.module.content)} bytes  {fetched.module.digest}\nof {fetched.origin}")
    if signer:
        typer.echo(f"signed by {key} ({signer})")


@transfers
def verify(
    url: Url,
    key: Key,
    digest: Pin = None,
    transfer: Transfer = TRANSFER,
    output: ViewOption = View.TABLE,
) -> None:
    """Check that a key has signed a module, as the extender does with source.publicKey; status 1 if not."""
    with failing():
        fetched, signer = _fetch(url, key, digest, transfer)
    if output is View.JSON:
        write_json(_found(fetched, signer))
        return
    typer.echo(f"{fetched.origin} is signed by {key} ({signer})\nmodule {fetched.module.digest}")


@transfers
def print_digest(url: Url, transfer: Transfer = TRANSFER, output: ViewOption = View.TABLE) -> None:
    """Print the digest of a module, as the configuration's `digest` pins it."""
    with failing():
        fetched, _ = _fetch(url, None, None, transfer)
    if output is View.JSON:
        write_json(_found(fetched))
        return
    typer.echo(fetched.module.digest)


def _fetch(url: str, key: Path | None, digest: str | None, transfer: Transfer) -> tuple[Fetched, str | None]:
    """What a source gives, and the fingerprint of the key that has signed it. Raises SourceError."""
    source = {"timeout": transfer.timeout, "caFile": transfer.ca_file, "publicKey": key}
    try:
        config = PluginConfig.model_validate({"name": "module", "guestURL": url, "source": source, "digest": digest})
    except ValueError as error:  # All but the digest was checked before.
        raise typer.BadParameter("expected sha256: and 64 hexadecimal digits", param_hint="'--digest'") from error
    read_key = PublicKey.read(key) if key else None
    fetched = fetch_now(open_source(config, Path.cwd(), RuntimeConfig().module_limit))
    check_digest(config, fetched.module.digest, fetched.origin)
    if read_key:
        read_key.check(fetched)
    return fetched, read_key.fingerprint if read_key else None


def _found(fetched: Fetched, signer: str | None = None, file: Path | None = None) -> Found:
    module = fetched.module
    return Found(fetched.origin, module.digest, len(module.content), signer, str(file) if file else None)


def _name(url: str) -> str:
    """The name of the file for a URL's module: the last folder of a repository, or the last part of a path."""
    path = public(url).partition("@sha256:")[0].rstrip("/").rpartition("/")[2]
    name = path.rpartition(":")[0] or path if url.startswith("oci://") else path
    return name if name.endswith(".wasm") else f"{name}.wasm"


def _write(file: Path, content: bytes) -> None:
    """Replaces a file at once: a source that watches it sees the old module or the new one. Raises OSError."""
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(content)
        Path(name).chmod(0o644)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink()
        raise
