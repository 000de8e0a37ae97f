"""The options by which a command finds a running extender, and what it shows there."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import httpx
import typer

from extender.commands.option_group import with_options
from extender.commands.output import fail
from extender.commands.plugin.client import AdminClient, RemoteError


def _check_server(server: str) -> str:
    try:
        url = httpx.URL(server)
    except httpx.InvalidURL as error:
        raise typer.BadParameter(str(error)) from error
    if url.scheme not in {"http", "https"} or not url.host or url.userinfo:
        raise typer.BadParameter("expected a URL such as http://127.0.0.1:8889")
    return server


ServerOption = Annotated[
    str, typer.Option(metavar="URL", envvar="KWX_ADMIN", callback=_check_server, help="The extender's admin address.")
]
TokenOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        envvar="KWX_TOKEN_FILE",
        help="File with a token of the extender's server.adminTokens.",
    ),
]
CaOption = Annotated[
    Path | None,
    typer.Option(
        "--ca-file",
        metavar="FILE",
        envvar="KWX_CA_FILE",
        help="CA of the extender's certificate in PEM, instead of the system's.",
    ),
]
CertOption = Annotated[
    Path | None,
    typer.Option(
        "--cert-file",
        metavar="FILE",
        envvar="KWX_CERT_FILE",
        help="Certificate of yours in PEM, for an extender with server.adminTLS.clientCAFile.",
    ),
]
KeyOption = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        metavar="FILE",
        envvar="KWX_KEY_FILE",
        help="Key of --cert-file in PEM; by default it is in the same file.",
    ),
]

SERVER: Final = "http://127.0.0.1:8889"


class Remote(NamedTuple):
    """How a running extender is reached. The fields are options of each command that `asks_extender`."""

    server: ServerOption = SERVER
    token_file: TokenOption = None
    ca_file: CaOption = None
    cert_file: CertOption = None
    key_file: KeyOption = None


LOCAL: Final = Remote()


def asks_extender(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of Remote in the place of its parameter `remote`."""
    return reached_by(command, Remote, nullcontext)


def reached_by(
    command: Callable[..., None], kind: Any, reach: Callable[[Any], AbstractContextManager[Remote]]
) -> Callable[..., None]:
    """A command with the options of `kind` in the place of its parameter `remote`, which `reach` makes of them."""
    return with_options(command, "remote", kind, reach)


@contextmanager
def connect(remote: Remote) -> Iterator[AdminClient]:
    """A client of the extender. A RemoteError in the block ends the command with status 1."""
    token = read_token(remote.token_file) if remote.token_file else None
    tls = read_tls(remote)
    try:
        with AdminClient(remote.server, token, tls) as client:
            yield client
    except RemoteError as error:
        fail(str(error))


def read_token(file: Path) -> str:
    """The token in a file. Raises BadParameter for a file that cannot be used."""
    text = read(file, "'--token-file'").decode(errors="replace").strip()
    if not text or not text.isascii() or not text.isprintable() or set(text) & set(" ,"):
        raise typer.BadParameter(f"{file}: expected a token and nothing else", param_hint="'--token-file'")
    return text


def read_tls(remote: Remote) -> ssl.SSLContext:
    """The CAs that are trusted and the client's certificate. Raises BadParameter for files that cannot be used."""
    text = read(remote.ca_file, "'--ca-file'").decode(errors="replace") if remote.ca_file else None
    try:
        context = ssl.create_default_context(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise typer.BadParameter(f"{remote.ca_file}: expected certificates in PEM", param_hint="'--ca-file'") from error
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Accepts CAs without a key identifier, as many own ones are.
    if remote.key_file and not remote.cert_file:
        raise typer.BadParameter("it needs --cert-file, whose key it is", param_hint="'--key-file'")
    if remote.cert_file:
        try:
            context.load_cert_chain(remote.cert_file, remote.key_file, password="")
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            cause = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            told = f"{remote.cert_file} cannot be used: {cause}; expected a certificate and its key in PEM"
            raise typer.BadParameter(told, param_hint="'--cert-file'") from error
    return context


def read(file: Path, option: str) -> bytes:
    """The content of a file that an option names. Raises BadParameter for a file that cannot be read."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}", param_hint=option) from error
