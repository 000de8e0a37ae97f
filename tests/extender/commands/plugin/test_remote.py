"""`kwx plugin` and an extender with TLS: by whom it is known, what it is shown, and what is told where that fails."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bench.controlplane.ports import free_port
from tests.certificates import DAY, SERVER, Authority, Issued
from tests.extender import guests, kwx
from tests.extender.kwx import Extender, plugin, profile
from tests.extender.sources.web import serving


class Admin(NamedTuple):
    """An extender whose admin address asks for certificates, and what its operator has."""

    extender: Extender
    ca: Authority
    operator: Issued

    def run(self, *arguments: str | Path, **environment: str) -> tuple[int, str, str]:
        """What `kwx plugin` says: status, standard output and standard error."""
        ended = kwx.run(
            "plugin", *arguments, home=self.extender.folder, KWX_ADMIN=self.extender.admin_url, **environment
        )
        return ended.returncode, ended.stdout, ended.stderr


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Admin]:
    folder = tmp_path_factory.mktemp("tls")
    ca = Authority(folder)
    issued, operator = ca.server(), ca.issue("operator", "ana")
    tls = {"certFile": str(issued.cert), "keyFile": str(issued.key), "clientCAFile": str(ca.file)}
    server = {"adminTLS": tls | {"clientNames": ["CN:ana"]}}
    with Extender(
        folder, profile("default", plugin("nodenumber")), tls=ca.trusting(operator), server=server
    ) as extender:
        yield Admin(extender, ca, operator)


def options(admin: Admin) -> list[str | Path]:
    return ["--ca-file", admin.ca.file, "--cert-file", admin.operator.cert, "--key-file", admin.operator.key]


def test_plugins_are_listed_and_swapped(admin: Admin) -> None:
    status, output, _ = admin.run("list", "--output=json", *options(admin))
    assert (status, [each["name"] for each in json.loads(output)]) == (0, ["nodenumber"])
    module = guests.build("score_by_digit", admin.extender.folder)
    status, output, error = admin.run("swap", "nodenumber", "--file", module, "--output=json", *options(admin))
    assert (status, json.loads(output)["stage"]) == (0, "active"), error


def test_the_environment_says_it_as_well(admin: Admin, tmp_path: Path) -> None:
    """A certificate and its key may be one file."""
    both = tmp_path / "ana.pem"
    both.write_bytes(admin.operator.cert.read_bytes() + admin.operator.key.read_bytes())
    status, _, error = admin.run("list", KWX_CA_FILE=str(admin.ca.file), KWX_CERT_FILE=str(both))
    assert (status, error) == (0, "")


def test_an_unknown_ca_is_told_with_the_option_that_names_it(admin: Admin) -> None:
    _, _, error = told = admin.run("list", "--cert-file", admin.operator.cert, "--key-file", admin.operator.key)
    assert told[:2] == (1, "")
    assert error == (
        f"kwx: the certificate of {admin.extender.admin_url} is not accepted: self-signed certificate in certificate"
        " chain; name the CA that signed it by --ca-file\n"
    )


@pytest.mark.parametrize(
    ("sans", "ends", "problem", "mend"),
    [
        (
            ["DNS:kwx-extender.kwx-system.svc"],
            DAY,
            "IP address mismatch, certificate is not valid for '127.0.0.1'",
            "ask for it by a name that its certificate has, or give the certificate this one (subjectAltName)",
        ),
        (["IP:127.0.0.1"], -DAY / 2, "certificate has expired", "renew it"),
    ],
)
def test_what_is_wrong_with_the_certificate_is_told_with_its_mend(
    tmp_path: Path, sans: list[str], ends: timedelta, problem: str, mend: str
) -> None:
    ca = Authority(tmp_path)
    issued = ca.issue("other", "other", sans=sans, usage=SERVER, ends=ends)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(issued.cert, issued.key)
    with serving(tls) as web:
        ended = kwx.run("plugin", "list", "--server", web.url(""), "--ca-file", ca.file, home=tmp_path)
        told = f"kwx: the certificate of {web.url('')} is not accepted: {problem}; {mend}\n"
        assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", told)


def test_who_asks_without_tls_is_told_of_it(admin: Admin) -> None:
    plain = admin.extender.admin_url.replace("https:", "http:")
    assert admin.run("list", "--server", plain) == (
        1,
        "",
        f"kwx: {plain}: Server disconnected without sending a response; if it has server.adminTLS, name its CA by"
        " --ca-file, and begin its URL with https://\n",
    )


def test_who_shows_no_certificate_is_told_how(admin: Admin) -> None:
    status, output, error = admin.run("list", "--ca-file", admin.ca.file)
    assert (status, output) == (1, "")
    assert error.startswith(f"kwx: {admin.extender.admin_url} ends the connection: ")
    assert error.endswith("; if it asks for a certificate, show one by --cert-file and --key-file\n")


def test_another_name_is_told_as_the_extender_tells_it(admin: Admin) -> None:
    bob = admin.ca.issue("bob", "bob")
    told = admin.run("list", "--ca-file", admin.ca.file, "--cert-file", bob.cert, "--key-file", bob.key)
    denial = "the client's certificate has the names CN:bob, none of which is in server.adminTLS.clientNames"
    assert told == (1, "", f"kwx: {denial}\n")


def test_where_nobody_listens_no_certificate_is_spoken_of(admin: Admin) -> None:
    url = f"https://127.0.0.1:{free_port()}"
    told = admin.run("list", "--server", url, *options(admin))
    assert told == (
        1,
        "",
        f"kwx: no extender answers at {url}: [Errno 111] Connection refused; start one by kwx serve --config FILE, or"
        " name its admin address by --server\n",
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--ca-file", "no"], "no cannot be read: No such file or directory"),
        (["--ca-file", "extender.yaml"], "extender.yaml: expected certificates in PEM"),
        (["--key-file", "operator.key"], "it needs --cert-file, whose key it is"),
        (
            ["--cert-file", "no"],
            "no cannot be used: No such file or directory; expected a certificate and its key in PEM",
        ),
        (
            ["--cert-file", "operator.crt", "--key-file", "server.key"],
            "operator.crt cannot be used: KEY_VALUES_MISMATCH; expected a certificate and its key in PEM",
        ),
    ],
)
def test_files_that_are_of_no_use_are_wrong_usage(admin: Admin, given: list[str], said: str) -> None:
    status, output, error = admin.run("list", *given)
    assert (status, output) == (2, "")
    words: Any = " ".join(line.strip("│╭╰─╮╯ ") for line in error.splitlines())
    assert f"'{given[-2] if len(given) == 2 else given[0]}': {said}" in " ".join(words.split())
