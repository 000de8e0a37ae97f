"""The certificates of a server and its CA for clients, read again when their files change."""

from __future__ import annotations

import asyncio
import datetime
import logging
import ssl
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from anyio.to_thread import run_sync
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from extender.config import TlsConfig
from extender.sources.file_version import FileVersion, openness
from wasm_runtime.engine import MEBIBYTE

logger = logging.getLogger(__name__)

POLL_INTERVAL_S: Final = 0.5
"""Between two looks at the files. Two must find them alike: another program may be writing one after the other."""

MAX_FILE_BYTES: Final = MEBIBYTE
DAY_S: Final = 86_400.0

_KINDS: Final = frozenset({"DNS", "URI"})
"""Alternative names that count."""


class CertificateError(Exception):
    """The files cannot be used. Has every problem, each with its key."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class _Loaded(NamedTuple):
    context: ssl.SSLContext
    begins: float
    expiry: Mapping[str, float]
    """When the certificate of a file expires, in seconds since 1970, by the file's key."""
    hosts: Sequence[str]


class ServerCertificates:
    """What one server shows its clients and asks of them. `context` is for the next handshake.

    `look` reads the files again when they have changed. One thread may look while another uses the context.
    """

    def __init__(self, key: str, config: TlsConfig, folder: Path) -> None:
        """`key` is where the configuration file has them, relative paths begin in `folder`. Raises CertificateError.

        A certificate that is not valid now is taken, since there is no other; that is told by `warning`.
        """
        self.key = key
        self._names = frozenset(config.client_names)
        given = {"certFile": config.cert_file, "keyFile": config.key_file, "clientCAFile": config.client_ca_file}
        self._files = {name: folder / path for name, path in given.items() if path}
        self._seen = self._tried = self._versions()
        self._problem: str | None = None
        self._openness = openness(self._files["keyFile"])
        self._loaded = _load(self._files)
        self.context = self._loaded.context

    async def follow(self) -> None:
        """Looks at the files until cancelled, in a thread: handshakes are not to wait for their disk."""
        while True:
            await run_sync(self.look, abandon_on_cancel=True)
            await asyncio.sleep(POLL_INTERVAL_S)

    def look(self) -> None:
        """Reads the files again if they have changed, and not since the last look.

        Files that could not be used are read at each look: a certificate becomes valid by itself, a disk recovers.
        """
        versions = self._versions()
        is_still = versions == self._seen
        self._seen = versions
        if not is_still or (versions == self._tried and not self._problem):
            return
        self._tried = versions
        self._openness = openness(self._files["keyFile"])
        try:
            loaded = _load(self._files)
            if problem := _validity_problem(loaded, time.time()):
                raise CertificateError([f"certFile: {self._files['certFile']} {problem}"])
        except CertificateError as error:
            before, self._problem = self._problem, f"the certificates from before stay in force: {error}"
            if self._problem != before:
                logger.error("the new certificates of %s cannot be used, %s", self.key, self._problem)
        else:
            self._problem = None
            self._loaded, self.context = loaded, loaded.context
            logger.info(
                "certificates read again", extra={"key": self.key, "days_left": round(self._days_left("certFile"))}
            )

    def denial(self, certificate: Mapping[str, Any] | None) -> str | None:
        """Why the client of a verified certificate (`SSLSocket.getpeercert`) is not let in, if that is so."""
        if not self._names:
            return None
        names = sorted(_names(certificate or {}))
        if not self._names.isdisjoint(names):
            return None
        if not names:
            return f"the client's certificate has no name that could be in {self.key}.clientNames"
        return f"the client's certificate has the names {', '.join(names)}, none of which is in {self.key}.clientNames"

    def warning(self) -> str | None:
        """What is not as it should be with the files. Does not wait for their disk."""
        validity = _validity_problem(self._loaded, time.time())
        told = [self._problem, f"the certificate {validity}" if validity else None, self._openness]
        return "; ".join(filter(None, told)) or None

    @property
    def hosts(self) -> Sequence[str]:
        """The hosts that the certificate is for: `DNS:` and a name, `IP:` and an address."""
        return self._loaded.hosts

    @property
    def days_left(self) -> Mapping[str, Callable[[], float]]:
        """Days until the files' certificates expire, negative afterwards: of several the last one's."""
        return {name: partial(self._days_left, name) for name in self._loaded.expiry}

    def _days_left(self, name: str) -> float:
        return (self._loaded.expiry[name] - time.time()) / DAY_S

    def is_outdated(self) -> bool:
        """Whether there are new files that cannot be used."""
        return self._problem is not None

    def _versions(self) -> Sequence[FileVersion | None]:
        return [FileVersion.of(file) for file in self._files.values()]


def _load(files: Mapping[str, Path]) -> _Loaded:
    """Raises CertificateError with all problems."""
    problems: list[str] = []
    contents: dict[str, bytes] = {}
    for name, file in files.items():
        try:
            contents[name] = _read(file)
        except (OSError, ValueError) as error:
            problems.append(f"{name}: {file} cannot be read: {getattr(error, 'strerror', None) or error}")
    chain = _certificates("certFile", files, contents, problems)
    authorities = _certificates("clientCAFile", files, contents, problems)
    if key_problem := _key_problem(contents.get("keyFile"), chain):
        problems.append(f"keyFile: {files['keyFile']} {key_problem}")
    if problems:
        raise CertificateError(problems)
    context = _context(files, contents.get("clientCAFile"))
    begins = chain[0].not_valid_before_utc.timestamp()
    expiry = {"certFile": chain[0].not_valid_after_utc.timestamp()}
    if authorities:
        expiry["clientCAFile"] = max(each.not_valid_after_utc.timestamp() for each in authorities)
    return _Loaded(context, begins, expiry, _hosts(chain[0]))


def _read(file: Path) -> bytes:
    if not stat.S_ISREG(file.stat().st_mode):
        raise ValueError("it is no regular file")
    with file.open("rb") as opened:
        content = opened.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise ValueError(f"it has more than {MAX_FILE_BYTES} bytes")
    return content


def _certificates(
    name: str, files: Mapping[str, Path], contents: Mapping[str, bytes], problems: list[str]
) -> list[x509.Certificate]:
    """Those of a file; `problems` gets why there are none."""
    if name not in contents:
        return []
    try:
        return x509.load_pem_x509_certificates(contents[name])
    except ValueError:
        problems.append(f"{name}: {files[name]} has no certificate that can be read; expected PEM")
        return []


def _key_problem(content: bytes | None, chain: Sequence[x509.Certificate]) -> str | None:
    if content is None:
        return None
    try:
        key = load_pem_private_key(content, password=None)
    except TypeError:
        return "has a password; expected a private key without one"
    except Exception:  # What is wrong with a key is not quoted: the text may hold a part of it.
        return "has no private key that can be read; expected PEM"
    public = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if chain and key.public_key().public_bytes(*public) != chain[0].public_key().public_bytes(*public):
        return "is not the key of the first certificate in certFile"
    return None


def _context(files: Mapping[str, Path], client_ca: bytes | None) -> ssl.SSLContext:
    """TLS 1.2 and up. Nothing is resumed: each client shows its certificate anew, so that it is looked at.

    Raises CertificateError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION
    context.num_tickets = 0
    context.set_alpn_protocols(["http/1.1"])
    with _told_with("certFile", files):
        context.load_cert_chain(files["certFile"], files["keyFile"], password="")
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        with _told_with("clientCAFile", files):
            context.load_verify_locations(cadata=client_ca.decode(errors="replace"))
    return context


@contextmanager
def _told_with(name: str, files: Mapping[str, Path]) -> Iterator[None]:
    """Makes an error that OpenSSL has with a file ours."""
    try:
        yield
    except OSError as error:  # ssl.SSLError is one
        raise CertificateError([f"{name}: {files[name]} cannot be used: {error.strerror or error}"]) from error


def _validity_problem(loaded: _Loaded, now: float) -> str | None:
    for is_so, what, when in (
        (now < loaded.begins, "is not valid before", loaded.begins),
        (now > loaded.expiry["certFile"], "has expired on", loaded.expiry["certFile"]),
    ):
        if is_so:
            return f"{what} {datetime.datetime.fromtimestamp(when, datetime.timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
    return None


def _hosts(certificate: x509.Certificate) -> Sequence[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        return []
    names = [f"DNS:{name}" for name in found.get_values_for_type(x509.DNSName)]
    return names + [f"IP:{address}" for address in found.get_values_for_type(x509.IPAddress)]


def _names(certificate: Mapping[str, Any]) -> frozenset[str]:
    """The names that count. A subject with several common names has none."""
    common = [value for part in certificate.get("subject", ()) for kind, value in part if kind == "commonName"]
    others = {f"{kind}:{value}" for kind, value in certificate.get("subjectAltName", ()) if kind in _KINDS}
    return frozenset(others | ({f"CN:{common[0]}"} if len(common) == 1 else set()))
