"""Logins as docker, podman and credential helpers keep them."""

from __future__ import annotations

import base64
import json
import os
import select
from pathlib import Path
from typing import Any

import pytest

from extender.config.urls import Reference
from extender.sources.oci import credentials
from extender.sources.oci.credentials import Login, find
from extender.sources.source import SourceError, SourceUnreachableError

SPREAD = Reference.parse("oci://registry.example/policies/spread")
LOGIN = Login("reader", "open:sesame")
AUTH = {"auth": base64.b64encode(b"reader:open:sesame").decode()}
OTHER = {"auth": base64.b64encode(b"other:other").decode()}


def refusal(kind: type[SourceError] = SourceError) -> str:
    with pytest.raises(SourceError) as refused:
        find(SPREAD)
    assert type(refused.value) is kind
    return str(refused.value)


# -- files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("auths", "login"),
    [
        ({"registry.example": AUTH}, LOGIN),
        ({"registry.example": {"auth": base64.b64encode(b"reader:open:sesame\0\0").decode()}}, LOGIN),
        ({"https://registry.example": AUTH}, LOGIN),
        ({"https://registry.example/v2/": AUTH}, LOGIN),
        ({"http://registry.example/v1/": AUTH}, LOGIN),
        ({"registry.example": {"username": "reader", "password": "open:sesame"}}, LOGIN),
        ({"registry.example": {**AUTH, "identitytoken": "an identity"}}, Login("", "an identity")),
        ({"registry.example": OTHER, "registry.example/policies": AUTH}, LOGIN),
        ({"registry.example/policies": OTHER, "registry.example/policies/spread": AUTH}, LOGIN),
        ({"registry.example/policies/spread": AUTH, "registry.example/policies": OTHER}, LOGIN),
        ({"registry.example/policies/spread/more": AUTH}, None),
        ({"registry.example:5000": AUTH}, None),
        ({"example": AUTH, "another.example": AUTH}, None),
        ({"registry.example": {}}, None),
        ({}, None),
    ],
    ids=range(15),
)
def test_a_login_is_found_by_its_registry(auths: dict[str, Any], login: Login | None, logins: Path) -> None:
    logins.write_text(json.dumps({"auths": auths, "psFormat": "table"}))
    assert find(SPREAD) == login


def test_dockers_own_registry_has_another_name_there(logins: Path) -> None:
    logins.write_text(json.dumps({"auths": {"https://index.docker.io/v1/": AUTH}}))
    assert find(Reference.parse("oci://docker.io/example/spread")) == LOGIN


def test_without_a_file_there_is_no_login() -> None:
    assert find(SPREAD) is None


def test_podmans_file_comes_first(logins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logins.write_text(json.dumps({"auths": {"registry.example": OTHER}}))
    podmans = tmp_path / "auth.json"
    podmans.write_text(json.dumps({"auths": {"registry.example": AUTH}}))
    assert find(SPREAD) == Login("other", "other")
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(podmans))
    assert find(SPREAD) == LOGIN


def test_dockers_file_is_in_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_CONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert credentials.config_file() == tmp_path / ".docker" / "config.json"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "{}: expected docker's logins: Input data was truncated"),
        (b'{"auths": []}', "{}: expected docker's logins: Expected `object`, got `array` - at `$.auths`"),
        (
            b'{"auths": {"registry.example": {"auth": "?"}}}',
            "{}: auths['registry.example'].auth: expected USER:PASSWORD in base64; log in again",
        ),
        (
            b'{"auths": {"registry.example": {"auth": "bm8gY29sb24="}}}',
            "{}: auths['registry.example'].auth: expected USER:PASSWORD in base64; log in again",
        ),
        (
            b'{"auths": {"registry.example": {"auth": "/w=="}}}',
            "{}: auths['registry.example'].auth: expected USER:PASSWORD in base64; log in again",
        ),
        (b" " * (1 << 20) + b"{}", "{} is longer than 1048576 bytes; expected docker's logins"),
    ],
    ids=["cut off", "a list", "no base64", "no colon", "no text", "long"],
)
def test_a_file_without_logins_is_refused(content: bytes, problem: str, logins: Path) -> None:
    logins.write_bytes(content)
    assert refusal() == problem.format(logins)


def test_a_file_that_cannot_be_read_is_refused(logins: Path) -> None:
    logins.mkdir()
    assert refusal() == f"the logins in {logins} cannot be read: Is a directory"


def test_a_login_does_not_show_its_secret() -> None:
    assert repr(LOGIN) == str(LOGIN) == "Login('reader')"


# -- helpers -----------------------------------------------------------------------------------------

STORE = {"credsStore": "test"}
PROGRAM = "docker-credential-test"
SEE = f"see what `echo registry.example | {PROGRAM} get` says"


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the PATH."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def install(folder: Path, script: str, name: str = PROGRAM) -> None:
    """A credential helper, whose output `$server` and `$1` can be part of."""
    program = folder / name
    program.write_text(f"#!/bin/sh\nread -r server\n{script}\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("config", "output", "login"),
    [
        (STORE, r'{"ServerURL": "", "Username": "%s", "Secret": "%s"}', Login("registry.example", "get")),
        (
            {"credHelpers": {"registry.example": "test"}},
            r'{"Username": "%s", "Secret": "%s"}',
            Login("registry.example", "get"),
        ),
        ({"credHelpers": {"another.example": "test"}}, "", None),
        (
            {**STORE, "auths": {"registry.example": OTHER}},
            r'{"Username": "%s", "Secret": "%s"}',
            Login("registry.example", "get"),
        ),
        (STORE, '{"Username": "<token>", "Secret": "an identity"}', Login("", "an identity")),
        (STORE, '{"Username": "", "Secret": ""}', None),
        ({**STORE, "auths": {"registry.example": AUTH}}, '{"Username": "", "Secret": ""}', LOGIN),
    ],
    ids=range(7),
)
def test_a_helper_is_asked(
    config: dict[str, Any], output: str, login: Login | None, logins: Path, programs: Path
) -> None:
    logins.write_text(json.dumps(config))
    install(programs, f'printf \'{output}\' "$server" "$1"')
    assert find(SPREAD) == login


def test_a_helper_is_asked_for_dockers_own_registry_by_its_url(logins: Path, programs: Path) -> None:
    logins.write_text(json.dumps(STORE))
    install(programs, """printf '{"Username": "%s", "Secret": "secret"}' "$server" """)
    assert find(Reference.parse("oci://docker.io/example/spread")) == Login("https://index.docker.io/v1/", "secret")


def test_a_helper_that_has_none_leaves_it_to_the_file(logins: Path, programs: Path) -> None:
    logins.write_text(json.dumps({**STORE, "auths": {"registry.example": AUTH}}))
    install(programs, "echo credentials not found in native keychain; exit 1")
    assert find(SPREAD) == LOGIN


@pytest.mark.parametrize(
    ("script", "kind", "problem"),
    [
        ("echo the secret; exit 3", SourceUnreachableError, f"{PROGRAM} ended with status 3; {SEE}"),
        ("kill -9 $$", SourceUnreachableError, f"{PROGRAM} ended with status -9; {SEE}"),
        ("echo the secret", SourceError, f"{PROGRAM} has printed no login; {SEE}"),
        ("""printf '{"Username": "\\377", "Secret": ""}'""", SourceError, f"{PROGRAM} has printed no login; {SEE}"),
        ("cat /dev/zero", SourceError, f"{PROGRAM} has printed more than 65536 bytes; expected a login"),
        ("sleep 60", SourceUnreachableError, f"{PROGRAM} does not answer within 0.3 s"),
        ("exec >&-; sleep 60", SourceUnreachableError, f"{PROGRAM} does not answer within 0.3 s"),
        ("sleep 60 & exit 0", SourceUnreachableError, f"{PROGRAM} does not answer within 0.3 s"),
        (
            "exec 0<&-; while :; do echo x; sleep 0.01; done",
            SourceUnreachableError,
            f"{PROGRAM} does not answer within 0.3 s",
        ),
    ],
    ids=["status", "signal", "text", "bytes", "endless", "hangs", "hangs silently", "leaves a child", "drips"],
)
def test_a_helper_that_gives_no_login_is_refused(
    script: str, kind: type[SourceError], problem: str, logins: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "HELPER_TIMEOUT_S", 0.3)
    logins.write_text(json.dumps(STORE))
    install(programs, script)
    assert refusal(kind) == problem


def test_a_helper_that_is_given_up_is_ended_with_its_children(
    logins: Path, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "HELPER_TIMEOUT_S", 0.3)
    logins.write_text(json.dumps(STORE))
    os.mkfifo(tmp_path / "alive")
    install(programs, f"sleep 60 > {tmp_path}/alive & exec sleep 60 > {tmp_path}/alive")
    with os.fdopen(os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK), "rb") as alive:
        assert refusal(SourceUnreachableError) == f"{PROGRAM} does not answer within 0.3 s"
        assert select.select([alive], [], [], 20.0)[0] == [alive]  # At its end, for nobody has it open for writing.


def test_a_helper_that_cannot_be_run_is_refused(logins: Path, programs: Path) -> None:
    logins.write_text(json.dumps(STORE))
    assert refusal() == f"{PROGRAM}, which {logins} names, is not on the PATH"
    (programs / PROGRAM).touch()
    assert refusal() == f"{PROGRAM}, which {logins} names, cannot be run: Permission denied"
    logins.write_text(json.dumps({"credsStore": "../../bin/sh"}))
    assert refusal() == f"{logins}: expected the name of a credential helper, found '../../bin/sh'"
