"""TLS on a port of the extender: who gets in, what those take who do not finish, and what is kept when files change."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from extender.config import TlsConfig
from extender.http import handshakes
from extender.http.certificates import ServerCertificates
from tests.certificates import DAY, SERVER, Authority, Issued
from tests.extender.raw import Connection, request
from tests.extender.served import Served, is_gone
from tests.patience import Beside, wait_until

ASKED = b"POST /x 3"
LOGGER = "extender.http.handshakes"


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def friend(ca: Authority) -> Issued:
    return ca.issue("friend", "kube-scheduler")


@pytest.fixture
def certificates(ca: Authority, tmp_path: Path) -> ServerCertificates:
    issued = ca.server(folder=tmp_path)
    config = TlsConfig(
        certFile=issued.cert, keyFile=issued.key, clientCAFile=ca.file, clientNames=("CN:kube-scheduler",)
    )
    return ServerCertificates("server.tls", config, tmp_path)


@pytest.fixture
def served(certificates: ServerCertificates) -> Iterator[Served]:
    served = Served(certificates=certificates, max_handshakes=8)
    yield served
    served.stop()


def test_a_client_with_an_allowed_name_is_answered(served: Served, ca: Authority, friend: Issued) -> None:
    with Connection(served.address, ca.trusting(friend)) as client:
        for _ in range(3):
            assert client.ask("/x", b"abc").body == ASKED
    assert served.ends == ["done"]


def test_large_requests_and_answers_go_through(ca: Authority, friend: Issued, served: Served) -> None:
    with Connection(served.address, ca.trusting(friend)) as client:
        assert client.ask("/x", b"x" * 1_000).body == b"POST /x 1000"
        assert len(client.ask("/large", b"").body) == 20_000_000
        assert client.ask("/x", b"abc").body == ASKED


def test_the_older_version_of_tls_is_as_good(served: Served, ca: Authority, friend: Issued) -> None:
    context = ca.trusting(friend)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with Connection(served.address, context) as client:
        assert client.ask("/x", b"abc").body == ASKED


def test_a_name_that_is_not_allowed_gets_the_same_answer_to_everything(
    served: Served, ca: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    told = "the client's certificate has the names CN:stranger, none of which is in server.tls.clientNames"
    with Connection(served.address, ca.trusting(ca.issue("stranger", "stranger"))) as client:
        for path, body in (("/x", b"abc"), ("/filter", b"x" * 200_000), ("/nowhere", b"")):
            answer = client.ask(path, body)
            assert (answer.status, answer.body) == (403, b'{"error":"%s"}' % told.encode())
        assert served.application.asked == []
        assert served.ends == ["denied"]
        wait_until(lambda: messages(caplog), lambda: "nothing is logged")
    (line,) = messages(caplog)
    assert re.fullmatch(rf"clients not let in by server.tls: 1; the first, 127.0.0.1 port \d+: {re.escape(told)}", line)


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged of handshakes."""
    return [each.getMessage() for each in caplog.records if each.name == LOGGER]


def shows_nothing(ca: Authority, _: Path) -> ssl.SSLContext:
    return ca.trusting()


def has_another_ca(ca: Authority, folder: Path) -> ssl.SSLContext:
    return ca.trusting(Authority(folder, "another").issue("friend", "kube-scheduler"))


def is_expired(ca: Authority, folder: Path) -> ssl.SSLContext:
    return ca.trusting(ca.issue("expired", "kube-scheduler", begins=-2 * DAY, ends=-DAY, folder=folder))


def is_early(ca: Authority, folder: Path) -> ssl.SSLContext:
    return ca.trusting(ca.issue("early", "kube-scheduler", begins=DAY, ends=2 * DAY, folder=folder))


def is_a_server(ca: Authority, folder: Path) -> ssl.SSLContext:
    return ca.trusting(ca.issue("server", "kube-scheduler", usage=SERVER, folder=folder))


def trusts_others(ca: Authority, folder: Path) -> ssl.SSLContext:
    return Authority(folder, "another").trusting(ca.issue("friend", "kube-scheduler", folder=folder))


def speaks_old_tls(ca: Authority, folder: Path) -> ssl.SSLContext:
    context = ca.trusting(ca.issue("friend", "kube-scheduler", folder=folder))
    with pytest.warns(DeprecationWarning):
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    return context


@pytest.mark.parametrize(
    ("client", "told"),
    [
        (
            shows_nothing,
            "it showed no certificate; give it one that the CA of server.tls.clientCAFile has signed (certFile and"
            " keyFile in tlsConfig of kube-scheduler's extender)",
        ),
        (has_another_ca, "its certificate is not accepted: unable to get local issuer certificate"),
        (is_expired, "its certificate is not accepted: certificate has expired"),
        (is_early, "its certificate is not accepted: certificate is not yet valid"),
        (is_a_server, "its certificate is not accepted: unsuitable certificate purpose"),
        (
            trusts_others,
            "it does not know the CA of server.tls.certFile; name that CA to it (caFile in tlsConfig of"
            " kube-scheduler's extender)",
        ),
        (speaks_old_tls, "it knows no TLS 1.2"),
    ],
)
def test_whoever_is_not_known_is_asked_nothing_and_told_of(
    served: Served, ca: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture, client: object, told: str
) -> None:
    assert callable(client)
    with pytest.raises(OSError), Connection(served.address, client(ca, tmp_path)) as connection:
        connection.send(request("/x", b"abc"))
        if not connection._file.read(1):
            raise ConnectionError
    wait_until(lambda: messages(caplog), lambda: f"nothing is logged; the ends are {served.ends}")
    (line,) = messages(caplog)
    assert re.fullmatch(rf"clients not let in by server.tls: 1; the first, 127.0.0.1 port \d+: {re.escape(told)}", line)
    assert served.application.asked == []
    assert served.ends == ["failed"]


def test_plain_http_is_answered_nothing(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    with Connection(served.address) as client:
        client.send(request("/x", b"abc"))
        assert client._file.read() == b""
    wait_until(lambda: messages(caplog), lambda: "nothing is logged")
    assert messages(caplog)[0].endswith(
        "it speaks plain HTTP; ask by https:// (enableHTTPS in kube-scheduler's extender)"
    )
    assert served.application.asked == []


def test_a_probe_that_only_connects_is_nothing_to_tell(served: Served, ca: Authority, friend: Issued) -> None:
    with socket.create_connection(served.address):
        pass
    with Connection(served.address, ca.trusting(friend)) as client:
        assert client.ask("/x", b"abc").body == ASKED
    assert served.ends == ["done"]


def test_a_request_may_come_in_one_piece_with_the_end_of_the_handshake(
    served: Served, ca: Authority, friend: Issued
) -> None:
    with TogetherClient(served.address, ca.trusting(friend)) as client:
        assert client.ask_at_once(request("/x", b"abc")).endswith(ASKED)


def test_a_handshake_may_come_byte_by_byte(served: Served, ca: Authority, friend: Issued) -> None:
    with TogetherClient(served.address, ca.trusting(friend), piece=1) as client:
        assert client.ask_at_once(request("/x", b"abc")).endswith(ASKED)


class TogetherClient:
    """A client that sends what it has in pieces of a size, and its request with the end of its handshake."""

    def __init__(self, address: tuple[str, int], context: ssl.SSLContext, piece: int = 1_000_000) -> None:
        self._socket = socket.create_connection(address, timeout=20)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=address[0])
        self._piece = piece

    def __enter__(self) -> TogetherClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask_at_once(self, asked: bytes) -> bytes:
        """The answer, which comes in one piece."""
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._send()
                self._incoming.write(self._socket.recv(65536))
        self._tls.write(asked)
        self._send()
        while True:
            try:
                return self._tls.read(65536)
            except ssl.SSLWantReadError:
                self._incoming.write(self._socket.recv(65536))

    def _send(self) -> None:
        data = self._outgoing.read()
        for at in range(0, len(data), self._piece):
            self._socket.sendall(data[at : at + self._piece])


def test_handshakes_that_do_not_end_keep_nobody_out(
    certificates: ServerCertificates, ca: Authority, friend: Issued, caplog: pytest.LogCaptureFixture
) -> None:
    """The oldest give way, those that have begun included, and connections that are there stay."""
    served = Served(certificates=certificates, max_handshakes=4, max_connections=3)
    stalled: list[Connection] = []
    try:
        with Connection(served.address, ca.trusting(friend)) as known:
            for at in range(12):
                stalled.append(Connection(served.address))
                if at % 2:
                    stalled[-1].send(b"\x16\x03\x01\x02\x00\x01")  # The beginning of a ClientHello.
            for _ in range(2):
                with Connection(served.address, ca.trusting(friend)) as client:
                    assert client.ask("/x", b"abc").body == ASKED
            assert known.ask("/x", b"abc").body == ASKED
            assert all(is_gone(each) for each in stalled[:8])
            wait_until(lambda: messages(caplog), lambda: "nothing is logged")
            assert "newer clients needed the place of its handshake" in messages(caplog)[0]
        assert served.ends.count("displaced") >= 8
        assert served.ends.count("done") == 3
    finally:
        for each in stalled:
            each.__exit__(None, None, None)
        served.stop()


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00\x01"])
def test_a_handshake_has_to_end_in_time(
    served: Served, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(handshakes, "HANDSHAKE_TIMEOUT_S", 0.2)
    with Connection(served.address) as client:
        client.send(sent)
        assert is_gone(client)
    wait_until(lambda: messages(caplog), lambda: f"nothing is logged; the ends are {served.ends}")
    assert messages(caplog)[0].endswith("its handshake did not end within 0.2 seconds")
    assert served.ends == ["timed out"]


def test_many_that_come_at_once_are_all_let_in(served: Served, ca: Authority, friend: Issued) -> None:
    """They are more than handshakes may be under way, and each is quick."""
    context = ca.trusting(friend)

    def ask() -> bytes:
        with Connection(served.address, context) as client:
            return client.ask("/x", b"abc").body

    for _ in range(5):
        asking = [Beside(ask) for _ in range(8)]
        assert [each.end() for each in asking] == [ASKED] * 8
    assert served.ends == ["done"] * 40


def test_a_change_of_the_files_ends_no_connection_and_no_request(
    served: Served, certificates: ServerCertificates, ca: Authority, friend: Issued, tmp_path: Path
) -> None:
    """New connections get the new certificate, and have to show one of the new CA; the others go on."""
    with (
        Connection(served.address, ca.trusting(friend)) as idle,
        Connection(served.address, ca.trusting(friend)) as busy,
    ):
        assert idle.ask("/x", b"abc").body == ASKED
        busy.send(request("/later", b"abc"))
        served.wait_until(lambda: "/later" in served.application.asked)
        new = ca.server("new", tmp_path)
        new.key.rename(tmp_path / "server.key")
        new.cert.rename(tmp_path / "server.crt")
        for _ in range(2):
            certificates.look()
        with Connection(served.address, ca.trusting(friend)) as client:
            assert shown(client) == ca_serial(tmp_path)
            assert client.ask("/x", b"abc").body == ASKED
        served.application.may_answer.set()
        assert busy.read().body == b"POST /later 3"
        assert shown(idle) != ca_serial(tmp_path)
        assert idle.ask("/x", b"abc").body == ASKED
    assert served.ends == ["done"] * 3


def shown(client: Connection) -> int:
    """The number of the certificate that the server has shown."""
    assert isinstance(client._socket, ssl.SSLSocket)
    certificate = client._socket.getpeercert()
    assert certificate
    return int(str(certificate["serialNumber"]), 16)


def ca_serial(folder: Path) -> int:
    return Issued(folder / "server.crt", folder / "server.key").serial


def test_the_server_ends_while_handshakes_are_under_way(
    certificates: ServerCertificates, ca: Authority, friend: Issued
) -> None:
    served = Served(certificates=certificates)
    with Connection(served.address) as silent, Connection(served.address) as begun:
        begun.send(b"\x16\x03\x01\x02\x00\x01")
        with Connection(served.address, ca.trusting(friend)) as client:
            assert client.ask("/x", b"abc").body == ASKED
        served.stop()
        assert is_gone(silent)
        assert is_gone(begun)
