"""What was refused for a cause outside of the module is tried again when that has changed, though nobody touches it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest
import yaml

from extender.sources.signing import PublicKey
from tests.extender import kwx, versions
from tests.extender.kwx import plugin, profile
from tests.extender.rollouts.inside import Inside
from tests.extender.rollouts.test_swaps import put
from tests.extender.sources import web
from tests.extender.sources.certificates import authority
from tests.extender.sources.oci.registry import running
from tests.extender.sources.oci.test_signatures import Repository
from tests.extender.sources.signer import Signer, simple_signing, statement, statement_bundle
from tests.extender.sources.web import Web
from tests.patience import wait_until
from wasm_runtime.blob import digest

OLD, NEW = versions.module(10), versions.module(11)
SOON_S = 20.0
"""Many looks at a source: less than the pauses that would be between two of them if nobody were to wait for it."""

OFTEN = {"interval": "100ms"}
REFUSED = "the configuration is refused, what serves stays live: plugin told of profile default: "


class Place(Protocol):
    """Where modules and their signatures lie."""

    url: str

    def put(self, wasm: bytes) -> None:
        """Puts a module there, as whose signature none is known."""

    def sign(self, wasm: bytes, sign: Signer) -> None:
        """Puts the signature of a module there that is there."""


class Folder:
    def __init__(self, folder: Path, _: ExitStack) -> None:
        self.url = "file://./placed.wasm"
        self._module = folder / "placed.wasm"

    def put(self, wasm: bytes) -> None:
        put(self._module, wasm)

    def sign(self, wasm: bytes, sign: Signer) -> None:
        put(self._module.with_name("placed.wasm.sig"), base64.b64encode(sign(wasm)))


class Pages:
    def __init__(self, _: Path, stack: ExitStack) -> None:
        self._server = stack.enter_context(web.serving())
        self.url = self._server.url("/placed.wasm")

    def put(self, wasm: bytes) -> None:
        self._server.pages["/placed.wasm"] = web.tagged(f'"{digest(wasm)}"', wasm)

    def sign(self, wasm: bytes, sign: Signer) -> None:
        value = base64.b64encode(sign(wasm))
        self._server.pages["/placed.wasm.sig"] = web.tagged(f'"{digest(value)}"', value)


class Artifacts:
    """Signed as cosign before 3 does."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        (folder / "registry").mkdir()
        self._registry = stack.enter_context(running(folder / "registry"))
        self.url = f"oci://{self._registry.address}/policies/placed:v1"

    def put(self, wasm: bytes) -> None:
        self._pushed = Repository(self._registry, "policies/placed", wasm=wasm)

    def sign(self, _: bytes, sign: Signer) -> None:
        payload = simple_signing(self._pushed.subject)
        self._pushed.append(payload, sign(payload))


class Bundles(Artifacts):
    """Signed as cosign 3 does."""

    def sign(self, _: bytes, sign: Signer) -> None:
        self._pushed.attach(statement_bundle(sign, statement(self._pushed.subject)))


PLACES: dict[str, Callable[[Path, ExitStack], Place]] = {
    "file": Folder,
    "http": Pages,
    "oci-layers": Artifacts,
    "oci-bundles": Bundles,
}


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with ExitStack() as stack:
        yield PLACES[request.param](tmp_path, stack)


@pytest.fixture
def sign(tmp_path: Path) -> Signer:
    return Signer(tmp_path)


def told(url: str, *, signed: bool = False, **source: Any) -> dict[str, Any]:
    key = {"publicKey": "cosign.pub"} if signed else {}
    return plugin("told", guestURL=url, source=OFTEN | key | source)


def configure(inside: Inside, content: Mapping[str, Any]) -> None:
    """Replaces the configuration file, which the extender reads in its own time."""
    whole = kwx.configuration(profile("default", content), server={"stateDirectory": "state"})
    put(inside.config, yaml.safe_dump(whole).encode())


def oddities(inside: Inside) -> str:
    return inside.service.oddities or ""


def wait_for(inside: Inside, text: str) -> None:
    wait_until(lambda: text in oddities(inside), lambda: f"{text!r}, but {oddities(inside)!r}", SOON_S)


def wait_until_well(inside: Inside) -> None:
    wait_until(lambda: not oddities(inside), lambda: f"all well, but {oddities(inside)!r}", SOON_S)


def serving(inside: Inside) -> str:
    live = inside.slot().live
    assert live
    return live.profile_plugin.plugin.digest


def signer(inside: Inside) -> str | None:
    live = inside.slot().live
    assert live
    return live.revision.signer


def test_a_configuration_goes_live_when_the_signature_that_it_requires_has_come(
    place: Place, tmp_path: Path, sign: Signer
) -> None:
    place.put(OLD)
    with Inside(tmp_path, profile("default", told(place.url))) as inside:
        inside.service.start()
        configure(inside, told(place.url, signed=True) | {"weight": 2})
        wait_for(inside, REFUSED)
        place.sign(OLD, sign)
        wait_until_well(inside)
        assert signer(inside) == PublicKey.read(sign.public_key).fingerprint
        assert inside.slot().config.weight == 2


def test_a_module_goes_live_when_its_signature_has_come(place: Place, tmp_path: Path, sign: Signer) -> None:
    place.put(OLD)
    place.sign(OLD, sign)
    with Inside(tmp_path, profile("default", told(place.url, signed=True))) as inside:
        inside.service.start()
        place.put(NEW)
        wait_for(inside, "expected a signature by")
        place.sign(NEW, sign)
        wait_until(lambda: serving(inside) == digest(NEW), lambda: oddities(inside), SOON_S)
        wait_until_well(inside)


# -- other causes ----------------------------------------------------------------------------------


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[Web]:
    """Its CA is in `right.pem`."""
    ca_file, tls = authority(tmp_path)
    ca_file.rename(tmp_path / "right.pem")
    with web.serving(tls) as server:
        yield server


def guarded(conversation: web.Conversation) -> None:
    """The new module, for those who log in."""
    is_known = "authorization" in conversation.request.headers
    web.answer(200 if is_known else 401, NEW if is_known else b"")(conversation)


class Cause(NamedTuple):
    """Something outside of a module for which it cannot be had."""

    source: Mapping[str, Any]
    pages: Mapping[str, web.Script]
    problem: str
    mend: Callable[[Path, Web], object]


def rename(name: str, to: str) -> Callable[[Path, Web], object]:
    return lambda folder, _: (folder / name).replace(folder / to)


THERE = {"/new.wasm": web.answer(200, NEW)}
CA = {"caFile": "right.pem"}
CAUSES = {
    "key": Cause(CA | {"publicKey": "wrong.pub"}, THERE, "is not by this key", rename("cosign.pub", "wrong.pub")),
    "no-key": Cause(CA | {"publicKey": "absent.pub"}, THERE, "absent.pub cannot", rename("cosign.pub", "absent.pub")),
    "missing": Cause(CA, {}, "answers 404", lambda _, server: server.pages.update(THERE)),
    "down": Cause(CA, {"/new.wasm": web.answer(503)}, "answers 503", lambda _, server: server.pages.update(THERE)),
    "ca": Cause({"caFile": "ca.pem"}, THERE, "certificate is not accepted", rename("right.pem", "ca.pem")),
    "no-ca": Cause({"caFile": "none.pem"}, THERE, "none.pem' cannot be used", rename("right.pem", "none.pem")),
    "login": Cause(
        CA,
        {"/new.wasm": guarded},
        "answers 401",
        lambda folder, _: (folder / "netrc").write_text("machine 127.0.0.1 login user password secret"),
    ),
}


@pytest.mark.parametrize("name", CAUSES)
def test_what_is_outside_of_the_module_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sign: Signer, secure: Web, name: str
) -> None:
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    cause = CAUSES[name]
    (tmp_path / "other").mkdir()
    rename("ca.pem", "../ca.pem")(authority(tmp_path / "other")[0].parent, secure)
    Signer(tmp_path / "other").public_key.replace(tmp_path / "wrong.pub")
    secure.pages["/new.wasm.sig"] = web.answer(200, base64.b64encode(sign(NEW)))
    secure.pages.update(cause.pages)
    put(tmp_path / "old.wasm", OLD)
    with Inside(tmp_path, profile("default", told("file://./old.wasm"))) as inside:
        inside.service.start()
        configure(inside, told(secure.url("/new.wasm"), **cause.source))
        wait_for(inside, REFUSED)
        wait_for(inside, cause.problem)
        cause.mend(tmp_path, secure)
        wait_until_well(inside)
        assert serving(inside) == digest(NEW)
