"""What `kwx serve` begins with where another one has served before it."""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
import yaml

from extender.config import PluginConfig
from extender.rollouts import load
from extender.rollouts.revision import Revision
from extender.rollouts.state.store import PluginState, Store
from extender.scheduling.profile import SHORT_DIGEST
from extender.sources.signing import PublicKey
from tests.extender import guests, kwx, versions
from tests.extender.kwx import Extender, condition, plugin, profile
from tests.extender.objects import (
    binding_args,
    filter_error,
    filtered,
    meta_victims,
    names_args,
    pod,
    preemption_args,
    scores,
)
from tests.extender.rollouts.test_swaps import put
from tests.extender.sources import web
from tests.extender.sources.signer import Signer
from tests.extender.sources.web import Conversation, Web
from wasm_runtime.blob import Blob, digest

STATE = "state"
SERVER = {"stateDirectory": STATE}
DOWN = web.answer(503)
SIGNATURE = "X-Signature"
TRAPPING = guests.module("trap_on_pod")
ONE = ["node-7"]


def wasm(version: int) -> bytes:
    return versions.module(version)


def configured(name: str, url: str = "", *, interval: str = "100ms", **settings: Any) -> dict[str, Any]:
    """A plugin whose source is a page of that name, or else a file."""
    source = {"interval": interval, **settings.pop("source", {})}
    return plugin(name, **settings, **({"guestURL": url} if url else {}), source=source)


def alone(the_plugin: Mapping[str, Any]) -> dict[str, Any]:
    """A profile of the plugin's name."""
    return profile(the_plugin["name"], the_plugin, scoreRange=100)


def revision(module: bytes, name: str, **settings: Any) -> str:
    """Its id."""
    return Revision.of(digest(module), PluginConfig.model_validate(plugin(name, **settings)), "").id


class Serving(NamedTuple):
    """What serves, and how."""

    version: int | None
    weight: int = 1
    config: str = ""
    notice: str = ""
    problem: str = ""


def serving(extender: Extender, name: str) -> Serving:
    view = extender.admin.get(f"/api/v1/plugins/{name}").json()
    settings = view["revision"]["settings"]
    (only,) = extender.post(f"/profiles/{name}/prioritize", names_args(ONE))
    return Serving(
        only["Score"],
        settings["weight"],
        settings["guestConfig"],
        condition(view, "SourceInSync")[2],
        condition(view, "SourceReady")[2],
    )


def upload(extender: Extender, name: str, version: int, settings: str = "{}") -> None:
    """Returns when it is live."""
    answer = extender.admin.put(
        f"/api/v1/plugins/{name}/module",
        params={"wait": "20s", "settings": settings},
        content=wasm(version),
        headers={"Content-Type": "application/wasm"},
    )
    assert (answer.status_code, answer.json().get("stage")) == (200, "active"), answer.text


def roll_back(extender: Extender, name: str) -> None:
    """Returns when it is done."""
    answer = extender.admin.post(f"/api/v1/plugins/{name}/rollback", params={"wait": "20s"})
    assert (answer.status_code, answer.json().get("stage")) == (200, "active"), answer.text


def readiness(extender: Extender) -> tuple[int, list[str]]:
    """Its status, and what is said of all but threads, which are well."""
    answer = extender.admin.get("/readyz", params={"verbose": ""})
    return answer.status_code, answer.text.replace("[+]threads ok\n[+]verbs ok\n", "").splitlines()


def plugins_line(extender: Extender) -> str:
    _, lines = readiness(extender)
    (line,) = (line for line in lines if line[3:].startswith("plugins"))
    return line


# -- with what it begins ---------------------------------------------------------------------------

FILES = ("new", "uploaded", "uploaded-before-new", "rolled-back", "refused")
PAGES = ("out-of-reach", "reconfigured", "uploaded-out-of-reach", "cut-off")


OUT_OF_REACH = "answers 503 Service Unavailable; see to the server"


def notice(name: str, serves: bytes, gives: bytes, url: str = "", settings: Mapping[str, Any] | None = None) -> str:
    return (
        f"revision {revision(serves, name, **settings or {})[:SHORT_DIGEST]} serves, not"
        f" {revision(gives, name)[:SHORT_DIGEST]} that"
        f" {url or f'file://./{name}.wasm'} gives; kwx plugin history {name} tells why"
    )


class Restarted(NamedTuple):
    """The second process in a folder."""

    extender: Extender
    server: Web
    begun: Mapping[str, Serving]
    ready: tuple[int, list[str]]
    log: Sequence[Mapping[str, Any]]
    """All as it was right after the start."""


@pytest.fixture(scope="module")
def restarted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restarted]:
    folder = tmp_path_factory.mktemp("restarted")
    for name in FILES:
        put(folder / f"{name}.wasm", wasm(10))
    with web.serving() as server:
        server.pages.update({f"/{name}.wasm": web.tagged('"1"', wasm(10)) for name in PAGES})
        places = {name: configured(name) for name in FILES}
        places |= {name: configured(name, server.url(f"/{name}.wasm")) for name in PAGES}
        with Extender(folder, *map(alone, places.values()), server=SERVER) as extender:
            change(extender)
        for name in ("new", "uploaded-before-new"):
            put(folder / f"{name}.wasm", wasm(11))
        server.pages.update({f"/{name}.wasm": DOWN for name in PAGES})
        server.pages["/cut-off.wasm"] = lambda _: None
        places["reconfigured"] |= {"weight": 7, "guestConfig": "new"}
        with Extender(folder, *map(alone, places.values()), server=SERVER) as extender:
            begun = {name: serving(extender, name) for name in places}
            began = Restarted(extender, server, begun, readiness(extender), extender.log())
            server.pages.update({f"/{name}.wasm": web.tagged('"2"', wasm(11)) for name in PAGES})
            yield began


def change(extender: Extender) -> None:
    """What operators and sources do while the first process serves."""
    for name in ("uploaded", "uploaded-before-new"):
        upload(extender, name, 20)
    upload(extender, "uploaded-out-of-reach", 20, '{"weight": 5}')
    put(extender.folder / "rolled-back.wasm", wasm(11))
    extender.wait_until(lambda: serving(extender, "rolled-back").version == 11)
    roll_back(extender, "rolled-back")
    extender.post("/profiles/refused/filter", names_args())
    put(extender.folder / "refused.wasm", TRAPPING)
    extender.wait_until(lambda: serving(extender, "refused").notice)


BEGUN = {
    "new": Serving(11),
    "uploaded": Serving(20, notice=notice("uploaded", wasm(20), wasm(10))),
    "uploaded-before-new": Serving(11),
    "rolled-back": Serving(10, notice=notice("rolled-back", wasm(10), wasm(11))),
    "refused": Serving(10, notice=notice("refused", wasm(10), TRAPPING)),
    "out-of-reach": Serving(10, problem=f"{{url}} {OUT_OF_REACH}"),
    "reconfigured": Serving(10, 7, "new", problem=f"{{url}} {OUT_OF_REACH}"),
    "uploaded-out-of-reach": Serving(
        20,
        5,
        notice=notice("uploaded-out-of-reach", wasm(20), wasm(10), "{url}", {"weight": 5}),
        problem=f"{{url}} {OUT_OF_REACH}",
    ),
    "cut-off": Serving(
        10,
        problem="{url} cannot be fetched: Server disconnected without sending a response; see to the server or mend the"
        " URL",
    ),
}


def expected(restarted: Restarted, name: str) -> Serving:
    url = restarted.server.url(f"/{name}.wasm")
    was = BEGUN[name]
    return was._replace(notice=was.notice.replace("{url}", url), problem=was.problem.replace("{url}", url))


@pytest.mark.parametrize("name", BEGUN)
def test_what_serves_after_a_restart(restarted: Restarted, name: str) -> None:
    assert restarted.begun[name] == expected(restarted, name)


def test_it_is_ready_and_says_what_is_not_as_the_sources_give_it(restarted: Restarted) -> None:
    each = [(name, expected(restarted, name)) for name in BEGUN]
    words = [f"plugin {name}: {begun.problem}" for name, begun in each if begun.problem]
    words += [f"plugin {name}: {begun.notice}" for name, begun in each if begun.notice]
    assert restarted.ready == (200, [f"[+]plugins ok, but {'; '.join(words)}", "readyz check passed"])


@pytest.mark.parametrize("name", BEGUN)
def test_the_log_says_why_something_else_serves(restarted: Restarted, name: str) -> None:
    begun = expected(restarted, name)
    fallback = f"the last good revision serves until the source can be reached: {begun.problem}"
    said = [line["event"] for line in restarted.log if line.get("plugin") == name and "requested_by" not in line]
    assert said == ([fallback] if begun.problem else [begun.notice] if begun.notice else [])


@pytest.mark.parametrize(
    ("name", "after"),
    [
        ("out-of-reach", Serving(11)),
        ("reconfigured", Serving(11, 7, "new")),
        ("uploaded-out-of-reach", Serving(11)),
        ("cut-off", Serving(11)),
    ],
)
def test_a_new_module_goes_live_when_the_source_is_back(restarted: Restarted, name: str, after: Serving) -> None:
    restarted.extender.wait_until(lambda: serving(restarted.extender, name) == after)


@pytest.mark.parametrize("name", ["uploaded", "rolled-back", "refused"])
def test_a_new_file_takes_the_place_of_what_was_kept(restarted: Restarted, name: str) -> None:
    put(restarted.extender.folder / f"{name}.wasm", wasm(30))
    restarted.extender.wait_until(lambda: serving(restarted.extender, name) == Serving(30))


# -- what ends the start ---------------------------------------------------------------------------


def test_what_was_kept_does_not_stand_in_for_what_is_missing_or_bad(tmp_path: Path) -> None:
    """That goes for an uploaded module, too, whose source gives what the configuration does not allow any more."""
    files = {name: tmp_path / f"{name}.wasm" for name in ("missing", "invalid", "pinned", "pinned-upload")}
    for path in files.values():
        put(path, wasm(10))
    with web.serving() as server:
        server.pages["/not-found.wasm"] = web.answer(200, wasm(10))
        url = server.url("/not-found.wasm")
        places = {name: configured(name) for name in files} | {"not-found": configured("not-found", url)}
        with Extender(tmp_path, *map(alone, places.values()), server=SERVER) as extender:
            upload(extender, "pinned-upload", 20)
        files["missing"].unlink()
        put(files["invalid"], b"")
        del server.pages["/not-found.wasm"]
        places["pinned"]["digest"] = digest(wasm(11))
        places["pinned-upload"]["digest"] = digest(wasm(20))
        config = tmp_path / "extender.yaml"
        config.write_text(yaml.safe_dump(kwx.configuration(*map(alone, places.values()), server=SERVER)))
        refused = kwx.run("serve", "--config", config, home=tmp_path)
    at_fault = zip(
        places,
        (
            f"{files['missing']} cannot be read: No such file or directory; build it or mend the path",
            f"{files['invalid']} is no valid WebAssembly module: begins with b'', not with b'\\x00asm'",
            f"{files['pinned']} has digest {digest(wasm(10))}, the configuration allows only {digest(wasm(11))}",
            f"{files['pinned-upload']} has digest {digest(wasm(10))}, the configuration allows only {digest(wasm(20))}",
            f"{url} answers 404 Not Found; put it there or mend the URL",
        ),
        strict=True,
    )
    assert kwx.problems(refused, config) == [
        f"profiles[{at}].plugins[0].guestURL: plugin {name}: {problem}" for at, (name, problem) in enumerate(at_fault)
    ]


def test_sources_are_asked_all_at_once(tmp_path: Path) -> None:
    """Else each that does not answer would take its own time, and nothing, not even health, is served until then."""
    both = threading.Barrier(2)

    def meet(conversation: Conversation) -> None:
        both.wait(10)
        web.answer(200, wasm(10))(conversation)

    with web.serving() as server:
        server.pages.update({"/a.wasm": meet, "/b.wasm": meet})
        plugins = [configured(name, server.url(f"/{name}.wasm"), interval="1h") for name in ("a", "b")]
        with Extender(tmp_path, *map(alone, plugins), server=SERVER) as extender:
            assert readiness(extender) == (200, ["[+]plugins ok", "readyz check passed"])


# -- where nothing good is kept --------------------------------------------------------------------

KEPT = ("repinned", "resigned", "lost")
"""Plugins that have served before, with a module that is of no use now."""
MISSING = ("first", *KEPT)


class Missing(NamedTuple):
    """A process some of whose plugins are not there."""

    extender: Extender
    server: Web
    sign: Signer
    """The new key."""
    ready: tuple[int, list[str]]
    log: Sequence[Mapping[str, Any]]
    answers: Mapping[str, Sequence[Any]]
    """By the profile: what bind, filter, prioritize and preempt have said. All this as it was right after the start."""
    causes: list[str]
    """Why the profile `first` could not judge, one cause after the other."""

    def url(self, name: str) -> str:
        return self.server.url(f"/{name}.wasm")

    def cause(self, name: str) -> str:
        return f"plugin {name} is not there yet: {self.url(name)} {OUT_OF_REACH}"


@pytest.fixture(scope="module")
def missing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Missing]:
    folder = tmp_path_factory.mktemp("missing")
    sign, sign_anew = Signer(folder), Signer(tmp_path_factory.mktemp("key"))
    with web.serving() as server:
        server.pages.update({f"/{name}.wasm": web.tagged('"1"', module(name)) for name in KEPT})
        server.pages["/resigned.wasm.sig"] = web.answer(200, base64.b64encode(sign(module("resigned"))))
        places = {name: configured(name, server.url(f"/{name}.wasm")) for name in (*MISSING, "optional")}
        places["resigned"]["source"]["publicKey"] = str(sign.public_key)
        with Extender(folder, *(alone(places[name]) for name in KEPT), server=SERVER):
            pass
        (kept,) = folder.glob(f"{STATE}/*/modules/{digest(module('lost')).removeprefix('sha256:')}.wasm")
        kept.unlink()
        server.pages.update({f"/{name}.wasm": DOWN for name in places})
        places["repinned"]["digest"] = digest(wasm(11))
        places["resigned"]["source"]["publicKey"] = str(sign_anew.public_key)
        places["optional"]["failurePolicy"] = "Ignore"
        profiles = [
            *(alone(places[name]) for name in MISSING),
            profile("some", plugin("score_from_config", "100"), places["optional"]),
        ]
        with Extender(folder, *profiles, server=SERVER, cluster={"mode": "dry-run"}) as extender:
            ready, log = readiness(extender), extender.log()
            assert extender.admin.get("/livez").status_code == 200
            answers = {name: list(ask_all(extender, name)) for name in (*MISSING, "some")}
            causes = list(mend(extender, server, sign_anew))
            yield Missing(extender, server, sign_anew, ready, log, answers, causes)


def ask_all(extender: Extender, name: str) -> Iterator[Any]:
    """The verbs about a pod of the profile's name."""
    the_pod, path = pod(f"of-{name}"), f"/profiles/{name}"
    yield extender.post(f"{path}/filter", names_args(ONE, the_pod))
    yield extender.post(f"{path}/prioritize", names_args(ONE, the_pod))
    yield extender.post(f"{path}/preempt", preemption_args({"node-7": meta_victims("a")}, the_pod))
    yield extender.post(f"{path}/bind", binding_args(pod_name=f"of-{name}"))


def mend(extender: Extender, server: Web, sign: Signer) -> Iterator[str]:
    """Brings the sources back, that of `first` by and by: each cause why nothing comes of it."""
    for name, wanted in (("repinned", wasm(11)), ("resigned", wasm(11)), ("lost", module("lost"))):
        server.pages[f"/{name}.wasm.sig"] = web.answer(200, base64.b64encode(sign(wanted)))
        server.pages[f"/{name}.wasm"] = web.answer(200, wanted)
    server.pages["/optional.wasm"] = web.answer(200, guests.constant_score(50))
    for answer in (web.answer(404), web.answer(200, b"<html>"), web.answer(200, wasm(10))):
        before = problem(extender, "first")
        yield before
        server.pages["/first.wasm"] = answer
        extender.wait_until(lambda: problem(extender, "first") != before)  # noqa: B023 (called at once)
    extender.wait_until(lambda: readiness(extender)[0] == 200)


def problem(extender: Extender, name: str) -> str:
    """Why a profile cannot judge."""
    (found,) = [each for each in extender.admin.get("/api/v1/profiles").json() if each["name"] == name]
    return condition(found, "Ready")[2]


def module(name: str) -> bytes:
    """What a plugin has begun with."""
    return versions.module(10, name[:4])


def test_it_is_alive_but_not_ready_and_names_who_is_missing_and_why(missing: Missing) -> None:
    causes = "; ".join(f"profile {name}: {missing.cause(name)}" for name in MISSING)
    assert missing.ready == (503, [f"[-]plugins failed: {causes}", "readyz check failed"])


def test_the_log_says_what_is_not_there_and_why_what_was_kept_is_of_no_use(missing: Missing) -> None:
    lost = Revision.of(digest(module("lost")), PluginConfig.model_validate(plugin("lost")), "").id
    useless = {
        "repinned": f"{missing.url('repinned')} has digest {digest(module('repinned'))}, the configuration allows only"
        f" {digest(wasm(11))}",
        "resigned": f"{missing.url('resigned')} is not signed; expected a signature by {missing.sign.public_key}"
        f" ({PublicKey.read(missing.sign.public_key).fingerprint})",
        "lost": f"the module of revision {lost} is not kept in server.stateDirectory",
    }
    for name in MISSING:
        said = [line["event"] for line in missing.log if line.get("plugin") == name]
        why = [f"what served last cannot serve again: {useless[name]}"] if name in useless else []
        assert said == [*why, f"a plugin is not there yet: {missing.url(name)} {OUT_OF_REACH}"]


@pytest.mark.parametrize("name", MISSING)
def test_no_pod_is_judged_or_bound_without_a_plugin_that_must_not_be_missing(missing: Missing, name: str) -> None:
    cause = missing.cause(name)
    assert missing.answers[name] == [filter_error(cause), [], {"NodeNameToMetaVictims": {}}, {"Error": cause}]
    said = [line["event"] for line in missing.extender.log() if line.get("pod") == f"default/of-{name}"]
    assert said == [f"{verb} failed: {cause}" for verb in ("filter", "prioritize", "preempt", "bind")]


def test_others_serve_and_so_does_a_profile_that_may_go_without_its_plugin(missing: Missing) -> None:
    assert missing.answers["some"] == [
        filtered(ONE),
        scores(node_7=10),
        {"NodeNameToMetaVictims": {"node-7": meta_victims("a")}},
        {"Error": ""},
    ]
    said = [line["event"] for line in missing.log if line.get("plugin") == "optional"]
    assert said == [f"a plugin is not there yet: {missing.url('optional')} {OUT_OF_REACH}"]


def test_it_says_what_is_wrong_now(missing: Missing) -> None:
    start = f"plugin first is not there yet: {missing.url('first')}"
    assert missing.causes == [
        f"{start} {OUT_OF_REACH}",
        f"{start} answers 404 Not Found; put it there or mend the URL",
        f"{start} is no valid WebAssembly module: begins with b'<htm', not with b'\\x00asm'",
    ]


@pytest.mark.parametrize(("name", "version"), [("first", 10), ("repinned", 11), ("resigned", 11), ("lost", 10)])
def test_what_the_source_gives_serves_when_it_is_back(missing: Missing, name: str, version: int) -> None:
    """Even if that is what it gave before: it is no news only where something serves."""
    assert serving(missing.extender, name) == Serving(version)
    assert missing.extender.post(f"/profiles/{name}/filter", names_args(ONE)) == filtered(ONE)


def test_it_is_ready_when_nothing_is_missing_any_more(missing: Missing) -> None:
    missing.extender.wait_until(lambda: readiness(missing.extender) == (200, ["[+]plugins ok", "readyz check passed"]))
    assert missing.extender.post("/profiles/some/prioritize", names_args(ONE)) == scores(node_7=8)


# -- a state directory that is of no use -----------------------------------------------------------


def serve_once(folder: Path, state: Path) -> tuple[list[str], list[str]]:
    """What the process says of its state, in the log and when it is asked whether it is ready; a module serves."""
    with Extender(folder, profile("default", plugin("nodenumber")), server={"stateDirectory": str(state)}) as extender:
        assert extender.post("/prioritize", names_args(ONE)) == scores(node_7=10)
        status, lines = readiness(extender)
        assert (status, lines[-1]) == (200, "readyz check passed")
        said = [line["event"] for line in extender.log() if line["logger"].startswith("extender.rollouts")]
        return said, lines[:-1]


def useless(cause: str) -> tuple[list[str], list[str]]:
    said = f"a restart will not know what is live now, nor the history: {cause}"
    return [said], [f"[+]plugins ok, but {said}"]


MEND = "name a server.stateDirectory that can be read and written and has room"


def test_it_serves_where_the_state_directory_is_a_file(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.touch()
    assert serve_once(tmp_path, state) == useless(f"{state}: File exists; {MEND}")


def test_it_serves_where_another_process_has_the_state(tmp_path: Path) -> None:
    other = Store.open(tmp_path / "state", tmp_path / "extender.yaml")
    try:
        (taken,) = (tmp_path / "state").iterdir()
        cause = (
            f"{taken} is in use by another kwx with this configuration file; end that one, or name another"
            " server.stateDirectory"
        )
        assert serve_once(tmp_path, tmp_path / "state") == useless(cause)
    finally:
        other.close()


def test_it_serves_where_the_state_is_damaged_and_keeps_it_anew(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert serve_once(tmp_path, state) == ([], ["[+]plugins ok"])
    (slot,) = state.glob("*/slots/*.json")
    (kept,) = state.glob("*/modules/*.wasm")
    for path in (slot, kept):
        path.write_bytes(b"damaged")
    assert serve_once(tmp_path, state) == (
        [
            "a damaged file is set aside: its checksum is wrong",
            "a module that was kept is removed: its digest is wrong",
        ],
        ["[+]plugins ok"],
    )
    with closing(Store.open(state, tmp_path / "extender.yaml")) as store:
        anew = store.load("default", "nodenumber")
        assert anew
        assert store.module(anew.active.module) == Blob(guests.module("nodenumber"))


def test_it_serves_where_another_version_has_kept_settings_that_this_one_does_not_know(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = kwx.write(tmp_path, kwx.configuration(profile("default", plugin("nodenumber")), server=SERVER))
    load(file, keeps=True).close()
    store = Store.open(tmp_path / STATE, file)
    kept = store.load("default", "nodenumber")
    assert kept
    other = msgspec.structs.replace(kept.active, id="sha256:other", settings={"formerly": 1})
    store.save("default", "nodenumber", PluginState(other, kept.offered, [other]))
    store.close()
    with closing(load(file, keeps=True)) as loaded:
        (slot,) = loaded.live.slots
        assert slot.live
        assert slot.live.revision.id == kept.active.id
    (said,) = [line.getMessage() for line in caplog.records if line.levelno == logging.ERROR]
    assert said.startswith("what served last cannot serve again: 1 validation error for PluginConfig\nformerly\n")
