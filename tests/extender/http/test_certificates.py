"""The certificates of a server: what is wrong with them, when they change, and which clients are let in."""

from __future__ import annotations

import errno
import logging
import os
import re
import ssl
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from extender.config import TlsConfig
from extender.http import certificates
from extender.http.certificates import CertificateError, ServerCertificates
from tests.certificates import DAY, SERVER, Authority, Issued

KEY = "server.tls"


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def config(issued: Issued, client_ca: Path | None = None, *names: str) -> TlsConfig:
    given: dict[str, Any] = {"certFile": issued.cert, "keyFile": issued.key, "clientNames": names}
    return TlsConfig(**given, **({"clientCAFile": client_ca} if client_ca else {}))


def opened(issued: Issued, client_ca: Path | None = None, *names: str) -> ServerCertificates:
    return ServerCertificates(KEY, config(issued, client_ca, *names), Path("/nowhere"))


def serial(served: ServerCertificates) -> int:
    """The number of the certificate that the next client is shown."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = served.context.wrap_bio(incoming, outgoing, server_side=True)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    client = context.wrap_bio(outgoing, incoming)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    certificate = client.getpeercert(binary_form=True)
    assert certificate
    return x509.load_der_x509_certificate(certificate).serial_number


def missing(issued: Issued) -> None:
    issued.cert.unlink()


def garbage(issued: Issued) -> None:
    issued.cert.write_text("-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n")


def no_key(issued: Issued) -> None:
    issued.key.write_text("secret, and no key")


def other_key(issued: Issued) -> None:
    issued.key.write_bytes(_rsa_key())


def password(issued: Issued) -> None:
    issued.key.write_bytes(_rsa_key(b"secret"))


def too_long(issued: Issued) -> None:
    issued.key.write_bytes(b"x" * (certificates.MAX_FILE_BYTES + 1))


def pipe(issued: Issued) -> None:
    issued.cert.unlink()
    os.mkfifo(issued.cert)


def _rsa_key(secret: bytes | None = None) -> bytes:
    key = rsa.generate_private_key(65537, 2048)
    encryption = BestAvailableEncryption(secret) if secret else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


PROBLEMS = [
    (missing, "certFile: {cert} cannot be read: No such file or directory"),
    (garbage, "certFile: {cert} has no certificate that can be read; expected PEM"),
    (pipe, "certFile: {cert} cannot be read: it is no regular file"),
    (no_key, "keyFile: {key} has no private key that can be read; expected PEM"),
    (other_key, "keyFile: {key} is not the key of the first certificate in certFile"),
    (password, "keyFile: {key} has a password; expected a private key without one"),
    (too_long, "keyFile: {key} cannot be read: it has more than 1048576 bytes"),
]


@pytest.mark.parametrize(("spoil", "told"), PROBLEMS)
def test_what_is_wrong_with_a_file_is_told_with_its_key(
    ca: Authority, spoil: Callable[[Issued], None], told: str
) -> None:
    issued = ca.server()
    spoil(issued)
    with pytest.raises(CertificateError) as caught:
        opened(issued)
    assert caught.value.problems == [told.format(**issued._asdict())]


def test_all_problems_are_told_at_once(ca: Authority, tmp_path: Path) -> None:
    issued, empty = ca.server(), tmp_path / "empty.crt"
    no_key(issued)
    empty.write_text("")
    with pytest.raises(CertificateError) as caught:
        opened(issued, empty)
    assert caught.value.problems == [
        f"clientCAFile: {empty} has no certificate that can be read; expected PEM",
        f"keyFile: {issued.key} has no private key that can be read; expected PEM",
    ]


def test_half_a_certificate_is_told_with_its_file(ca: Authority, tmp_path: Path) -> None:
    """As while another program writes the file."""
    issued, both = ca.server(), tmp_path / "both.crt"
    half = ca.file.read_bytes()[:200]
    both.write_bytes(ca.file.read_bytes() + half)
    with pytest.raises(CertificateError) as caught:
        opened(issued, both)
    assert [problem.partition(" cannot be used: ")[0] for problem in caught.value.problems] == [f"clientCAFile: {both}"]
    issued.cert.write_bytes(issued.cert.read_bytes() + half)
    with pytest.raises(CertificateError) as caught:
        opened(issued, ca.file)
    told = [problem.partition(" cannot be used: ")[0] for problem in caught.value.problems]
    assert told == [f"certFile: {issued.cert}"]


def rename(new: Issued, old: Issued) -> None:
    """As a person who knows what is atomic."""
    new.key.rename(old.key)
    new.cert.rename(old.cert)


def overwrite(new: Issued, old: Issued) -> None:
    """As `cp`."""
    old.cert.write_bytes(new.cert.read_bytes())
    old.key.write_bytes(new.key.read_bytes())


@pytest.mark.parametrize("put", [rename, overwrite])
def test_new_files_are_taken_once_they_rest(ca: Authority, put: Callable[[Issued, Issued], None]) -> None:
    issued, new = ca.server(), ca.server("new")
    number = new.serial
    served = opened(issued)
    put(new, issued)
    served.look()
    assert serial(served) != number, "another program may still be writing"
    served.look()
    assert serial(served) == number
    assert served.warning() is None


def test_new_files_come_as_the_kubelet_brings_them(ca: Authority, tmp_path: Path) -> None:
    """Each file is a link by way of `..data`, which alone is replaced."""
    old, new = ca.server("tls", tmp_path / "..1"), ca.server("tls", tmp_path / "..2")
    data = tmp_path / "..data"
    data.symlink_to("..1")
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).symlink_to(Path("..data", name))
    served = opened(Issued(tmp_path / "tls.crt", tmp_path / "tls.key"))
    assert serial(served) == old.serial
    (tmp_path / "..data_tmp").symlink_to("..2")
    (tmp_path / "..data_tmp").rename(data)
    served.look()
    served.look()
    assert serial(served) == new.serial


@pytest.mark.parametrize(("spoil", "told"), PROBLEMS)
def test_broken_new_files_change_nothing_and_are_told(
    ca: Authority, caplog: pytest.LogCaptureFixture, spoil: Callable[[Issued], None], told: str
) -> None:
    issued = ca.server()
    number = issued.serial
    served = opened(issued)
    spoil(issued)
    with caplog.at_level(logging.INFO, "extender.http.certificates"):
        for _ in range(4):
            served.look()
    problem = f"the certificates from before stay in force: {told.format(**issued._asdict())}"
    assert serial(served) == number
    assert served.is_outdated()
    assert (served.warning() or "").startswith(problem)
    assert [each.getMessage() for each in caplog.records] == [
        f"the new certificates of {KEY} cannot be used, {problem}"
    ], "it is told once"
    for file in issued:
        file.unlink(missing_ok=True)
    mended = ca.server()
    for _ in range(2):
        served.look()
    assert serial(served) == mended.serial
    assert not served.is_outdated()
    assert served.warning() is None


@pytest.mark.parametrize(
    ("begins", "ends", "told"),
    [(-2 * DAY, -DAY, r"has expired on 20\d\d-\S+Z"), (DAY, 2 * DAY, r"is not valid before 20\d\d-\S+Z")],
)
def test_a_certificate_that_is_not_valid_now_is_no_successor_but_a_beginning(
    ca: Authority, begins: timedelta, ends: timedelta, told: str
) -> None:
    issued = ca.server()
    number = issued.serial
    served = opened(issued)
    ca.issue("server", "server", usage=SERVER, begins=begins, ends=ends)
    for _ in range(2):
        served.look()
    assert serial(served) == number
    problem = rf"the certificates from before stay in force: certFile: {issued.cert} {told}"
    assert re.fullmatch(problem, served.warning() or "")
    alone = opened(issued)
    assert re.fullmatch(f"the certificate {told}", alone.warning() or "")


def test_a_successor_is_taken_as_soon_as_it_is_valid(
    ca: Authority, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The clock of who issues certificates may be ahead, and nobody touches the files again."""
    issued = ca.server()
    served = opened(issued)
    new = ca.issue("server", "server", usage=SERVER, begins=DAY, ends=2 * DAY)
    for _ in range(4):
        served.look()
    assert serial(served) != new.serial
    assert len(caplog.records) == 1, "it is told once"
    now = time.time() + DAY.total_seconds()
    monkeypatch.setattr(certificates, "time", SimpleNamespace(time=lambda: now))
    served.look()
    assert serial(served) == new.serial
    assert served.warning() is None


def test_files_that_could_not_be_read_for_once_are_read_again(ca: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a disk in trouble, or where a process has as many files open as it may."""
    issued, new = ca.server(), ca.server("new")
    number = new.serial
    served = opened(issued)
    rename(new, issued)

    def fail(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", fail)
        for _ in range(2):
            served.look()
        assert "cannot be read: Too many open files" in (served.warning() or "")
    served.look()
    assert serial(served) == number
    assert served.warning() is None


def test_a_key_that_all_may_read_is_told_by_what_was_seen_last(ca: Authority) -> None:
    """Who asks how the certificates are does not wait for their disk."""
    issued = ca.server()
    issued.key.chmod(0o644)
    told = f"{issued.key} is open to all users of this machine (mode 0644); chmod o= it"
    served = opened(issued)
    assert served.warning() == told
    issued.key.chmod(0o600)
    assert served.warning() == told
    for _ in range(2):
        served.look()
    assert served.warning() is None


def test_the_days_are_those_of_the_certificate_and_of_the_ca_that_lasts_longest(ca: Authority, tmp_path: Path) -> None:
    issued, older = ca.server(), Authority(tmp_path, "older", days=2)
    both = tmp_path / "both.crt"
    both.write_bytes(older.file.read_bytes() + ca.file.read_bytes())
    days = {name: read() for name, read in opened(issued, both).days_left.items()}
    assert {name: round(left) for name, left in days.items()} == {"certFile": 5, "clientCAFile": 10}


NAMED: dict[str, Any] = {
    "subject": ((("organizationName", "system:masters"),), (("commonName", "system:kube-scheduler"),)),
    "subjectAltName": (
        ("DNS", "scheduler.example"),
        ("URI", "spiffe://cluster.example/scheduler"),
        ("IP Address", "10.0.0.1"),
        ("email", "ops@example.org"),
    ),
}


@pytest.mark.parametrize(
    ("names", "is_let_in"),
    [
        ((), True),
        (("CN:system:kube-scheduler",), True),
        (("CN:other", "DNS:scheduler.example"), True),
        (("URI:spiffe://cluster.example/scheduler",), True),
        (("CN:SYSTEM:KUBE-SCHEDULER",), False),
        (("CN:system:kube",), False),
        (("CN:scheduler.example",), False),
        (("DNS:system:kube-scheduler",), False),
        (("DNS:*.example",), False),
        (("CN:system:masters",), False),
        (("URI:10.0.0.1", "DNS:10.0.0.1", "CN:10.0.0.1"), False),
    ],
)
def test_a_client_is_let_in_by_one_of_its_names_exactly(ca: Authority, names: tuple[str, ...], is_let_in: bool) -> None:
    denial = opened(ca.server(), ca.file, *names).denial(NAMED)
    told = (
        "the client's certificate has the names CN:system:kube-scheduler, DNS:scheduler.example,"
        " URI:spiffe://cluster.example/scheduler, none of which is in server.tls.clientNames"
    )
    assert denial == (None if is_let_in else told)


def test_the_hosts_are_the_alternative_names_of_the_newest_certificate(ca: Authority) -> None:
    served = opened(ca.issue("server", "server", usage=SERVER))
    assert served.hosts == []
    sans = ["DNS:kwx.example", "IP:10.0.0.7", "DNS:*.kwx.svc", "IP:fd00::7", "URI:spiffe://kwx"]
    ca.issue("server", "server", sans=sans, usage=SERVER)
    served.look()
    served.look()
    assert served.hosts == ["DNS:kwx.example", "DNS:*.kwx.svc", "IP:10.0.0.7", "IP:fd00::7"]


def test_of_several_common_names_none_counts(ca: Authority) -> None:
    several = {"subject": ((("commonName", "kube-scheduler"),), (("commonName", "somebody"),))}
    denial = opened(ca.server(), ca.file, "CN:kube-scheduler").denial(several)
    told = "the client's certificate has no name that could be in server.tls.clientNames"
    assert denial == told


def test_nothing_below_tls_1_2_is_spoken_and_nothing_is_resumed(ca: Authority) -> None:
    context = opened(ca.server(), ca.file).context
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.num_tickets == 0
    assert context.options & ssl.OP_NO_TICKET
