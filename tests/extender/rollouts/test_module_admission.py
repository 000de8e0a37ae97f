"""What a configuration requires of modules is in force once it is read, for every way in."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.config import ConfigError
from extender.rollouts.revision import RolloutStage
from extender.rollouts.rollout import Rollout
from extender.rollouts.swap_command import FromRevision, FromSource, FromUpload, FromUrl, SwapCommand
from extender.sources import Signature
from extender.sources.signing import PublicKey
from tests.extender import kwx, versions
from tests.extender.kwx import plugin, profile
from tests.extender.rollouts.inside import Inside
from tests.extender.rollouts.test_swaps import put
from tests.extender.sources import web
from tests.extender.sources.signer import Signer
from tests.extender.sources.web import Web
from wasm_runtime.blob import Blob, digest

FIRST, SECOND, NEW = (versions.module(version) for version in (10, 11, 12))


def write(inside: Inside, *plugins: Mapping[str, Any]) -> None:
    """Replaces the configuration file, which the extender reads in its own time."""
    content = kwx.configuration(profile("default", *plugins), server={"stateDirectory": "state"})
    put(inside.config, yaml.safe_dump(content).encode())


def configure(inside: Inside, **told: Any) -> None:
    write(inside, plugin("told", **told))


def oddities(inside: Inside) -> str:
    return inside.service.oddities or ""


def missing(inside: Inside, origin: object) -> str:
    key = inside.folder / "cosign.pub"
    return f"{origin} is not signed; expected a signature by {key} ({PublicKey.read(key).fingerprint})"


@pytest.fixture(autouse=True)
def sign(tmp_path: Path) -> Signer:
    """The key is there before it is required."""
    return Signer(tmp_path)


@pytest.fixture
def server() -> Iterator[Web]:
    with web.serving() as server:
        yield server


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Inside]:
    """The second of two unsigned revisions serves, with threads that follow its file and the configuration's."""
    put(tmp_path / "told.wasm", SECOND)
    with Inside(tmp_path, profile("default", plugin("told", swap={"rollback": "manual"}))) as inside:
        inside.upload(FIRST)
        put(tmp_path / "told.wasm", NEW)
        inside.offer()
        put(tmp_path / "told.wasm", SECOND)
        inside.offer()
        inside.service.start()
        yield inside


@pytest.fixture
def required(inside: Inside) -> Inside:
    """By now the file requires signatures, for which it is refused as a whole."""
    configure(inside, source={"publicKey": "cosign.pub"}, swap={"rollback": "manual"})
    problem = missing(inside, inside.folder / "told.wasm")
    refused = f"the configuration is refused, what serves stays live: plugin told of profile default: {problem}"
    inside.wait_until(lambda: refused in oddities(inside))
    return inside


def begin(inside: Inside, what: Any, **order: Any) -> Rollout:
    return inside.rollouts.begin(inside.slot(), SwapCommand(what, "ann", **order))


def follow(inside: Inside) -> Rollout:
    """The source gives something new."""
    put(inside.folder / "told.wasm", NEW)
    inside.wait_until(lambda: inside.latest().by == "source" and inside.latest().module == digest(NEW))
    return inside.latest()


WAYS: dict[str, tuple[Callable[[Inside, Web], Rollout], str]] = {
    "upload": (lambda inside, _: begin(inside, FromUpload(Blob(NEW))), "upload by ann"),
    "upload-that-expects-what-serves": (
        lambda inside, _: begin(inside, FromUpload(Blob(NEW)), expected=inside.active()),
        "upload by ann",
    ),
    "dry-run": (lambda inside, _: begin(inside, FromUpload(Blob(NEW)), dry_run=True), "upload by ann"),
    "url": (lambda inside, server: begin(inside, FromUrl(server.url("/new.wasm"))), "{server}/new.wasm"),
    "settings": (lambda inside, _: begin(inside, FromSource(), settings={"weight": 2}), "{folder}/told.wasm"),
    "configured": (lambda inside, _: begin(inside, FromSource()), "{folder}/told.wasm"),
    "source": (lambda inside, _: follow(inside), "{folder}/told.wasm"),
    "earlier": (lambda inside, _: begin(inside, FromRevision(inside.slot().revisions[-1].id)), "upload by ann"),
    "back": (lambda inside, _: inside.rollouts.roll_back(inside.slot(), by="ann"), "{folder}/told.wasm"),
    "back-to": (
        lambda inside, _: inside.rollouts.roll_back(inside.slot(), by="ann", to=inside.slot().revisions[-1].id),
        "upload by ann",
    ),
}
"""How something that nobody has signed may want to become live, and where that is from."""


@pytest.mark.parametrize("way", WAYS)
def test_nothing_goes_live_that_is_not_signed_by_the_key_of_a_file_that_was_read(
    required: Inside, server: Web, way: str
) -> None:
    active, (go, origin) = required.active(), WAYS[way]
    server.pages["/new.wasm"] = web.answer(200, NEW)
    over = required.over(go(required, server))
    problem = missing(required, origin.format(folder=required.folder, server=server.url("")))
    assert (over.stage, over.problem, required.active()) == (RolloutStage.FAILED, problem, active)


def test_what_is_signed_goes_live_though_the_configuration_is_refused(required: Inside, sign: Signer) -> None:
    over = required.over(begin(required, FromUpload(Blob(NEW), Signature(NEW, sign(NEW)))))
    assert (over.stage, over.problem) == (RolloutStage.ACTIVE, "")
    assert required.slot().revisions[0].signer == PublicKey.read(sign.public_key).fingerprint


def test_a_signature_of_what_serves_is_taken_from_an_upload(required: Inside, sign: Signer) -> None:
    required.wait_until(lambda: "could not go live now" in oddities(required))
    active = required.active()
    over = required.over(begin(required, FromUpload(Blob(SECOND), Signature(SECOND, sign(SECOND)))))
    assert (over.stage, over.problem, required.active()) == (RolloutStage.ACTIVE, "", active)
    assert "could not go live now" not in oddities(required)


def test_what_serves_unsigned_serves_on_and_that_is_told(required: Inside, caplog: pytest.LogCaptureFixture) -> None:
    problem = missing(required, required.folder / "told.wasm")
    assert required.score("any") == 1
    required.wait_until(lambda: f"plugin told: serves on, but could not go live now: {problem}" in oddities(required))
    records = [*caplog.get_records("setup"), *caplog.records]
    told = [line.getMessage() for line in records if line.levelno == logging.WARNING]
    assert told.count(f"a revision serves on that could not go live now: {problem}") == 1


def test_what_was_under_way_does_not_go_live(inside: Inside) -> None:
    """It was let in by what was required before."""
    configure(inside, swap={"rollback": "manual", "shadowRequests": 1})
    inside.wait_until(lambda: inside.slot().config.swap.shadow_requests)
    active, ordered = inside.active(), inside.begin(NEW)
    inside.wait_until(lambda: inside.now(ordered).stage is RolloutStage.COMPILED)
    configure(inside, source={"publicKey": "cosign.pub"}, swap={"rollback": "manual", "shadowRequests": 1})
    over = inside.over(ordered)
    assert (over.stage, over.problem, inside.active()) == (
        RolloutStage.FAILED,
        "the configuration requires something else of the plugin's modules now",
        active,
    )


def test_a_key_counts_though_another_plugin_keeps_the_file_from_going_live(inside: Inside, sign: Signer) -> None:
    put(inside.folder / "told.wasm.sig", base64.b64encode(sign(SECOND)))
    mine = plugin("told", source={"publicKey": "cosign.pub"})
    write(inside, mine, plugin("absent"))
    inside.wait_until(lambda: "absent.wasm cannot be read" in oddities(inside))
    assert inside.over(begin(inside, FromUpload(Blob(NEW)))).problem == missing(inside, "upload by ann")
    inside.wait_until(lambda: inside.slot().revisions[0].signer)  # The source has given the signature of what serves.
    inside.wait_until(lambda: "could not go live now" not in oddities(inside))


def test_a_pin_counts_though_the_file_is_refused_and_one_that_is_exchanged_later(inside: Inside) -> None:
    configure(inside, digest=digest(NEW))
    refused = f"{{}} has digest {digest(FIRST)}, the configuration allows only {digest(NEW)}"
    inside.wait_until(lambda: "the configuration is refused" in oddities(inside))
    over = inside.over(begin(inside, FromUpload(Blob(FIRST))))
    assert (over.stage, over.problem) == (RolloutStage.FAILED, refused.format("upload by ann"))
    put(inside.folder / "told.wasm", NEW)
    inside.wait_until(lambda: not oddities(inside))
    configure(inside, digest=digest(FIRST))
    inside.wait_until(lambda: "the configuration is refused" in oddities(inside))
    over = inside.over(begin(inside, FromUpload(Blob(FIRST))))
    assert (over.stage, over.problem) == (RolloutStage.FAILED, refused.format("upload by ann"))


def test_a_requirement_that_was_taken_back_is_in_force_no_more(required: Inside) -> None:
    configure(required, swap={"rollback": "manual"})
    required.wait_until(lambda: not oddities(required))
    assert required.over(begin(required, FromUpload(Blob(NEW)))).stage is RolloutStage.ACTIVE


def test_a_requirement_is_dropped_only_with_the_rest_of_the_file(required: Inside, sign: Signer) -> None:
    put(required.folder / "told.wasm.sig", base64.b64encode(sign(SECOND)))
    required.wait_until(lambda: not oddities(required))
    content = kwx.configuration(
        profile("default", plugin("told"), plugin("absent")), server={"stateDirectory": "state"}
    )
    put(required.config, yaml.safe_dump(content).encode())
    required.wait_until(lambda: "absent.wasm cannot be read" in oddities(required))
    assert required.over(begin(required, FromUpload(Blob(NEW)))).problem == missing(required, "upload by ann")


# -- at the start ----------------------------------------------------------------------------------


def test_a_process_does_not_start_with_what_is_not_signed(tmp_path: Path, sign: Signer) -> None:
    put(tmp_path / "told.wasm", SECOND)
    with Inside(tmp_path, profile("default", plugin("told"))) as before:
        assert before.score("any") == 1
    with pytest.raises(ConfigError) as refused:
        Inside(tmp_path, profile("default", plugin("told", source={"publicKey": sign.public_key.name})))
    problem = missing(before, tmp_path / "told.wasm")
    assert refused.value.problems == [f"profiles[0].plugins[0].guestURL: plugin told: {problem}"]


def test_the_last_good_revision_does_not_serve_again_if_it_is_not_signed(
    tmp_path: Path, sign: Signer, server: Web, caplog: pytest.LogCaptureFixture
) -> None:
    server.pages["/told.wasm"] = web.answer(200, SECOND)
    remote = {"guestURL": server.url("/told.wasm")}
    with Inside(tmp_path, profile("default", plugin("told", **remote))) as before:
        assert before.score("any") == 1
    server.pages["/told.wasm.sig"] = server.pages["/told.wasm"] = web.answer(503)
    signed = plugin("told", source={"publicKey": sign.public_key.name}, **remote)
    with Inside(tmp_path, profile("default", signed)) as inside:
        assert inside.slot().live is None
    problem = missing(before, server.url("/told.wasm"))
    assert f"what served last cannot serve again: {problem}" in [line.getMessage() for line in caplog.records]
