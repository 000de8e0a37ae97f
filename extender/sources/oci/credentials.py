"""Logins for registries, from where docker and podman keep them."""

from __future__ import annotations

import base64
import binascii
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, NamedTuple, cast

import msgspec

from extender.config.urls import Reference
from extender.sources.source import SourceError, SourceUnreachableError
from wasm_runtime.engine import KIBIBYTE, MEBIBYTE

MAX_FILE_BYTES: Final = MEBIBYTE
MAX_ANSWER_BYTES: Final = 64 * KIBIBYTE
"""Bytes that a credential helper may print."""

HELPER_TIMEOUT_S: Final = 10.0
"""Seconds that a credential helper may take."""

DOCKER_HUB: Final = "docker.io"
_HUB_KEY: Final = "https://index.docker.io/v1/"
"""What docker calls its own registry where it keeps logins."""

_TOKEN_USER: Final = "<token>"
"""The user name by which a helper says that its secret is an identity token."""

_NOTHING: Final = b"credentials not found"
"""What a helper that has no login prints; docker looks for it too."""


class Login(NamedTuple):
    """What a registry, or its token service, is shown. `repr()` tells no secret."""

    user: str
    secret: str
    """The password, or the identity token where there is no user."""

    def __repr__(self) -> str:
        return f"Login({self.user!r})"

    def basic(self) -> str:
        """The Authorization header for HTTP's Basic."""
        return f"Basic {base64.b64encode(f'{self.user}:{self.secret}'.encode()).decode()}"


class _Entry(msgspec.Struct):
    auth: str = ""
    username: str = ""
    password: str = ""
    identitytoken: str = ""


class _Config(msgspec.Struct, rename="camel"):
    """Of Docker's config.json, what is about logins; containers-auth.json is the same."""

    auths: dict[str, _Entry] = {}
    creds_store: str = ""
    cred_helpers: dict[str, str] = {}


class _Answer(msgspec.Struct, rename="pascal"):
    """What a credential helper prints."""

    username: str
    secret: str


_CONFIG: Final = msgspec.json.Decoder(_Config)
_ANSWER: Final = msgspec.json.Decoder(_Answer)
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def config_file(environment: Mapping[str, str] = os.environ) -> Path:
    """The file with the logins: podman's if $REGISTRY_AUTH_FILE names it, else docker's."""
    if podmans := environment.get("REGISTRY_AUTH_FILE"):
        return Path(podmans)
    folder = environment.get("DOCKER_CONFIG")
    return (Path(folder) if folder else Path("~/.docker").expanduser()) / "config.json"


def find(reference: Reference) -> Login | None:
    """The login for an artifact's registry, None if there is none; looked up anew each time. Raises SourceError."""
    file = config_file()
    config = _read(file)
    registry = reference.registry
    helper = config.cred_helpers.get(registry) or config.creds_store
    login = _ask(helper, _HUB_KEY if registry == DOCKER_HUB else registry, file) if helper else None
    return login or _kept(config, reference, file)


def _read(file: Path) -> _Config:
    try:
        with file.open("rb") as opened:
            content = opened.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return _Config()
    except OSError as error:
        raise SourceError(f"the logins in {file} cannot be read: {error.strerror}") from error
    if len(content) > MAX_FILE_BYTES:
        raise SourceError(f"{file} is longer than {MAX_FILE_BYTES} bytes; expected docker's logins")
    try:
        return _CONFIG.decode(content)
    except _UNREADABLE as error:
        raise SourceError(f"{file}: expected docker's logins: {error}") from error


def _kept(config: _Config, reference: Reference, file: Path) -> Login | None:
    entries = {_name(key): (key, entry) for key, entry in config.auths.items()}
    for name in _names(reference):
        if name in entries:
            return _login(*entries[name], file)
    return None


def _name(key: str) -> str:
    """A key of `auths`, which may be a URL, as a registry and folders."""
    name = re.sub(r"^https?://|(/v[12])?/?$", "", key)
    return DOCKER_HUB if name == "index.docker.io" else name


def _names(reference: Reference) -> Iterator[str]:
    """What an entry may be called, the most special first: podman keeps logins for folders, too."""
    name = f"{reference.registry}/{reference.repository}"
    while name:
        yield name
        name = name.rpartition("/")[0]


def _login(key: str, entry: _Entry, file: Path) -> Login | None:
    if entry.identitytoken:
        return Login("", entry.identitytoken)
    if not entry.auth:
        return Login(entry.username, entry.password) if entry.username else None
    try:
        user, colon, password = base64.b64decode(entry.auth, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        user = colon = password = ""
    if not colon:
        raise SourceError(f"{file}: auths[{key!r}].auth: expected USER:PASSWORD in base64; log in again")
    return Login(user, password.rstrip("\0"))  # docker pads it


def _ask(helper: str, server: str, file: Path) -> Login | None:
    """What a credential helper knows. What it prints is not quoted in errors, since it may be secret."""
    program = f"docker-credential-{helper}"
    if os.sep in helper:
        raise SourceError(f"{file}: expected the name of a credential helper, found {helper!r}")
    try:
        status, output = _run(program, server.encode())
    except FileNotFoundError:
        raise SourceError(f"{program}, which {file} names, is not on the PATH") from None
    except OSError as error:
        raise SourceError(f"{program}, which {file} names, cannot be run: {error.strerror}") from error
    if status and _NOTHING in output:
        return None
    mend = f"see what `echo {server} | {program} get` says"
    if status:
        raise SourceUnreachableError(f"{program} ended with status {status}; {mend}")
    try:
        answer = _ANSWER.decode(output)
    except _UNREADABLE:
        raise SourceError(f"{program} has printed no login; {mend}") from None
    if not answer.secret:
        return None
    return Login("" if answer.username == _TOKEN_USER else answer.username, answer.secret)


def _run(program: str, text: bytes) -> tuple[int, bytes]:
    """The status of a helper, and what it has printed; bounded in both. Raises OSError, SourceError."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [program, "get"], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            deadline = time.monotonic() + HELPER_TIMEOUT_S
            with suppress(BrokenPipeError), cast(IO[bytes], process.stdin) as stdin:
                stdin.write(text)
            output = _read_all(cast(IO[bytes], process.stdout), program, deadline)
            return process.wait(max(0.0, deadline - time.monotonic())), output
        except subprocess.TimeoutExpired:
            raise SourceUnreachableError(f"{program} does not answer within {HELPER_TIMEOUT_S:g} s") from None
        finally:
            if process.returncode is None:  # Not waited for yet, so the group is surely its.
                os.killpg(process.pid, signal.SIGKILL)


def _read_all(pipe: IO[bytes], program: str, deadline: float) -> bytes:
    """What comes until the end. Raises TimeoutExpired, and SourceError for more than MAX_ANSWER_BYTES."""
    output = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while selector.select(max(0.0, deadline - time.monotonic())):
            chunk = os.read(pipe.fileno(), MAX_ANSWER_BYTES)
            output += chunk
            if len(output) > MAX_ANSWER_BYTES:
                raise SourceError(f"{program} has printed more than {MAX_ANSWER_BYTES} bytes; expected a login")
            if not chunk:
                return output
    raise subprocess.TimeoutExpired(program, HELPER_TIMEOUT_S)
