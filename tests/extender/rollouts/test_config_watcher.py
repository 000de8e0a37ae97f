"""The configuration file changes while `kwx serve` runs."""

from __future__ import annotations

import base64
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from extender.rollouts import load
from extender.rollouts.revision import RolloutStage
from extender.rollouts.service import RolloutService
from extender.scheduling.cycle_pins import CyclePins
from extender.scheduling.request_samples import RequestSamples
from extender.sources.signing import PublicKey
from tests.extender import guests, kwx, versions
from tests.extender.kwx import Extender, condition, configuration, failure, plugin, profile
from tests.extender.objects import filter_error, filtered, names_args, pod, scores
from tests.extender.rollouts.test_swaps import SETTLED_S, put
from tests.extender.sources import web
from tests.extender.sources.signer import Signer
from tests.extender.sources.web import Web
from tests.patience import Beside, delay, wait_until
from wasm_runtime.blob import digest
from wasm_runtime.nodes.node_table import NodeTable

ONE = ["node-7"]
LIVE = "configuration is live"


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Replaces a configuration file at once."""
    put(path, yaml.safe_dump(dict(content), sort_keys=False).encode())


def readiness(extender: Extender) -> tuple[int, str]:
    """What is said of plugins."""
    answer = extender.admin.get("/readyz", params={"verbose": ""})
    return answer.status_code, answer.text.splitlines()[0]


WELL = (200, "[+]plugins ok")

# -- all that can change, in one switch ------------------------------------------------------------


def scoring(name: str, score: int, **more: Any) -> dict[str, Any]:
    """A plugin that gives every node a score."""
    return plugin("score_from_config", str(score), name=name, **more)


def telling(name: str, version: int) -> dict[str, Any]:
    """A plugin that tells its version."""
    return plugin(name, guestURL=f"file://./{version}.wasm")


BEFORE = [
    profile("together", scoring("a", 30), scoring("b", 30), scoreRange=100),
    profile("module", telling("told", 10), scoreRange=100),
    profile("weight", scoring("low", 0), scoring("high", 80), scoreRange=100),
    profile("order", telling("x", 10), telling("y", 20)),
    profile("policy", plugin("trap")),
    profile("range", scoring("fifty", 50)),
    profile("more", scoring("first", 20), scoreRange=100),
    profile("less", scoring("stays", 20), scoring("goes", 80), scoreRange=100),
    profile("limits", plugin("nodenumber")),
    profile("gone", scoring("taken-out", 10)),
    profile("same", scoring("as-before", 10)),
]
AFTER = [
    profile("together", scoring("a", 60), scoring("b", 60), scoreRange=100),
    profile("module", telling("told", 11), scoreRange=100),
    profile("weight", scoring("low", 0), scoring("high", 80, weight=3), scoreRange=100),
    profile("order", telling("y", 20), telling("x", 10)),
    profile("policy", plugin("trap", failurePolicy="Ignore")),
    profile("range", scoring("fifty", 50), scoreRange=100),
    profile("more", scoring("first", 20), scoring("second", 60), scoreRange=100),
    profile("less", scoring("stays", 20), scoreRange=100),
    profile("limits", plugin("nodenumber", timeout="2s", memoryLimit="32Mi", instances=2)),
    profile("same", scoring("as-before", 10)),
    profile("come", scoring("added", 70), scoreRange=100),
]
TRAPPED = failure(plugin("trap"), "filter of node node-7: trap: unreachable in func[0]")
MISSING = "no profile is named {!r}; there are: {}"


def score(extender: Extender, name: str) -> Any:
    return extender.post(f"/profiles/{name}/prioritize", names_args(ONE))


def verdict(extender: Extender, name: str) -> Any:
    return extender.post(f"/profiles/{name}/filter", names_args(["node-0"]))


def failing(extender: Extender, name: str) -> Any:
    return extender.post(f"/profiles/{name}/filter", names_args(ONE))


def settings(extender: Extender, name: str) -> Any:
    (view,) = [each for each in extender.admin.get("/api/v1/plugins").json() if each["profile"] == name]
    return {key: view["revision"]["settings"][key] for key in ("timeout", "memoryLimit", "instances")}


def missing(extender: Extender, name: str) -> Any:
    answer = extender.client.post(f"/profiles/{name}/prioritize", json=names_args(ONE))
    return answer.json() if answer.status_code == 200 else answer.status_code


CHANGES: dict[str, tuple[Callable[[Extender, str], Any], Any, Any]] = {
    "together": (score, scores(node_7=30), scores(node_7=60)),
    "module": (score, scores(node_7=10), scores(node_7=11)),
    "weight": (score, scores(node_7=40), scores(node_7=60)),
    "order": (verdict, filtered([], {"node-0": "version 10 (x)"}), filtered([], {"node-0": "version 20 (y)"})),
    "policy": (failing, filter_error(TRAPPED), filtered(ONE)),
    "range": (score, scores(node_7=5), scores(node_7=50)),
    "more": (score, scores(node_7=20), scores(node_7=40)),
    "less": (score, scores(node_7=50), scores(node_7=20)),
    "limits": (
        settings,
        {"timeout": "500ms", "memoryLimit": "256Mi", "instances": 8},
        {"timeout": "2000ms", "memoryLimit": "32Mi", "instances": 2},
    ),
    "gone": (missing, scores(node_7=1), 404),
    "same": (score, scores(node_7=1), scores(node_7=1)),
    "come": (missing, 404, scores(node_7=70)),
}
"""By the profile: what is asked, and the answers before and after."""


class Switched(NamedTuple):
    """One change of the file under requests."""

    extender: Extender
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    answered: versions.Answered
    """Of cycles in the profile `module`."""
    together: Sequence[Any]
    """What pods got in the profile `together`, one after the other."""


@contextmanager
def scoring_on(extender: Extender) -> Iterator[list[Any]]:
    """Asks for ever new pods until the context is left."""
    answers: list[Any] = []
    ended = threading.Event()

    def ask() -> None:
        with kwx.client(extender.url) as client:
            for number in count():
                if ended.is_set():
                    return
                request = names_args(ONE, the_pod=pod(f"new-{number}"))
                answers.append(client.post("/profiles/together/prioritize", json=request).json())

    asker = Beside(ask)
    try:
        yield answers
    finally:
        ended.set()
        asker.end()


@pytest.fixture(scope="module")
def switched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Switched]:
    folder = tmp_path_factory.mktemp("switched")
    for version in (10, 11, 20):
        put(folder / f"{version}.wasm", versions.module(version))
    with Extender(folder, *BEFORE) as extender:
        before = {name: ask(extender, name) for name, (ask, _, _) in CHANGES.items()}
        port = extender.address[1]
        with versions.asking(port, [versions.Questions(10, "module")]) as answered, scoring_on(extender) as together:
            extender.wait_until(lambda: answered.cycles["module"] and together)
            write(extender.config, configuration(*AFTER))
            extender.wait_until(lambda: answered.cycles["module"][-1].versions[0] == 11)
            extender.wait_until(lambda: extender.events(LIVE))
            at = len(together)
            extender.wait_until(lambda: len(together) > at)
        after = {name: ask(extender, name) for name, (ask, _, _) in CHANGES.items()}
        yield Switched(extender, before, after, answered, together)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_goes_live(switched: Switched, name: str) -> None:
    _, before, after = CHANGES[name]
    assert (switched.before[name], switched.after[name]) == (before, after)


def test_no_request_fails_and_none_sees_half_of_it(switched: Switched) -> None:
    assert switched.answered.failures == []
    assert [cycle for cycle in switched.answered.cycles["module"] if cycle.is_mixed] == []
    asked = [answer[0]["Score"] for answer in switched.together]
    first = asked.index(60)
    assert (set(asked[:first]), set(asked[first:])) == ({30}, {60})


def test_what_changes_is_rolled_out_and_nothing_else(switched: Switched) -> None:
    history = switched.extender.admin.get("/api/v1/history").json()
    rollouts = sorted(
        (each["profile"], each["plugin"], each["stage"]) for each in history if each["requestedBy"] != "start"
    )
    assert rollouts == [
        ("come", "added", "active"),
        ("limits", "nodenumber", "active"),
        ("module", "told", "active"),
        ("more", "second", "active"),
        ("policy", "trap", "active"),
        ("together", "a", "active"),
        ("together", "b", "active"),
        ("weight", "high", "active"),
    ]
    assert {each["requestedBy"] for each in history} == {"configuration", "start"}


def test_it_is_shown_in_the_new_order(switched: Switched) -> None:
    shown = {each["name"]: each["plugins"] for each in switched.extender.admin.get("/api/v1/profiles").json()}
    assert shown == {each["name"]: [entry["name"] for entry in each["plugins"]] for each in AFTER}
    assert list(shown) == [each["name"] for each in AFTER]


def test_the_guests_of_a_plugin_that_was_taken_out_are_given_back(switched: Switched) -> None:
    extender = switched.extender

    def retired() -> set[str]:
        return {line["plugin"] for line in extender.events("revision is retired")}

    extender.wait_until(lambda: retired() >= {"taken-out", "goes"})
    assert "as-before" not in retired()


def test_it_is_told_once(switched: Switched) -> None:
    (line,) = switched.extender.events(LIVE)
    assert (line["level"], line["path"]) == ("info", str(switched.extender.config))
    status, told = readiness(switched.extender)
    failed = r"plugin trap has failed \d+ times since the start, last \d+ s ago;"
    kept = re.fullmatch(rf"\[\+\]plugins ok, but {failed} kwx plugin show trap has the last failure", told)
    assert (status, kept is not None) == (200, True), told


# -- a file that cannot be used --------------------------------------------------------------------

BASE = configuration(profile("default", scoring("only", 30), scoreRange=100))
REFUSED = "the configuration is refused, what serves stays live: "
LATER = (
    "it is tried again when what their sources give, its signature or its key is another; they are looked at every"
    " 0.5 s"
)
READ_AGAIN = "the configuration was read again, as SIGHUP asks"


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    with Extender(tmp_path_factory.mktemp("refused"), *BASE["profiles"]) as extender:
        put(extender.folder / "bad.wasm", b"bad")
        yield extender


@pytest.fixture
def followed(process: Extender) -> Iterator[Extender]:
    """A process with BASE, before the test and after it."""
    assert readiness(process) == WELL
    yield process
    write(process.config, BASE)
    process.wait_until(lambda: readiness(process) == WELL and score(process, "default") == scores(node_7=30))


def changed(**settings: Any) -> dict[str, Any]:
    """BASE with other settings of its plugin."""
    return configuration(profile("default", scoring("only", 60) | settings, scoreRange=100))


UNUSABLE = {
    "no-yaml": (
        "profiles: [",
        "is no YAML: while parsing a flow node expected the node content, but found '<stream end>' in"
        ' "<unicode string>", line 1, column 12: profiles: [ ^',
    ),
    "two-mistakes": (
        yaml.safe_dump(changed(weigth=2, timeout="0s")),
        "profiles[0].plugins[0].timeout: expected a duration such as 500ms or 2s, at most 1h, found '0s';"
        " profiles[0].plugins[0].weigth: unknown key; did you mean weight?",
    ),
    "no-module": (
        yaml.safe_dump(changed(guestURL="file://./absent.wasm")),
        "plugin only of profile default: {folder}/absent.wasm cannot be read: No such file or directory; build it or"
        f" mend the path; {LATER}",
    ),
    "bad-module": (
        yaml.safe_dump(changed(guestURL="file://./bad.wasm")),
        "plugin only of profile default: {folder}/bad.wasm is no valid WebAssembly module: begins with b'bad', not with"
        f" b'\\x00asm'; {LATER}",
    ),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_file_that_cannot_be_used_changes_nothing_and_is_told_once(followed: Extender, name: str) -> None:
    """It is told again if it comes again, which the fixture mends in between."""
    text, cause = UNUSABLE[name]
    told = f"{REFUSED}{cause.format(folder=followed.folder)}"
    put(followed.config, text.encode())
    followed.wait_until(lambda: readiness(followed) == (200, f"[+]plugins ok, but {told}"))
    put(followed.config, text.encode())
    delay(SETTLED_S)
    (line,) = followed.events(told)
    assert (line["level"], line["path"]) == ("error", str(followed.config))
    assert readiness(followed) == (200, f"[+]plugins ok, but {told}")
    assert score(followed, "default") == scores(node_7=30)


def test_a_file_that_is_away_for_a_while_changes_nothing(followed: Extender) -> None:
    away = followed.config.with_suffix(".away")
    followed.config.rename(away)
    told = f"{REFUSED}{followed.config} cannot be read: No such file or directory; build it or mend the path"
    followed.wait_until(lambda: readiness(followed) == (200, f"[+]plugins ok, but {told}"))
    away.rename(followed.config)
    followed.wait_until(lambda: readiness(followed) == WELL)
    assert len(followed.events(told)) == 1


def test_what_is_read_at_the_start_alone_says_so_and_the_rest_goes_live(followed: Extender) -> None:
    sections = {
        "server": {"maxRequestBytes": "1Mi"},
        "runtime": {"moduleLimit": "1Mi"},
        "cluster": {"mode": "dry-run"},
    }
    told = "server, runtime, cluster of the configuration changed; restart the extender to apply that"
    for value in (60, 70):
        profiles = [profile("default", scoring("only", value), scoreRange=100)]
        write(followed.config, configuration(*profiles, **sections))
        followed.wait_until(lambda: score(followed, "default") == scores(node_7=value))  # noqa: B023 (called at once)
        followed.wait_until(lambda: readiness(followed) == (200, f"[+]plugins ok, but {told}"))
    assert len(followed.events(told)) == 1


def test_sighup_has_the_file_read_again_and_the_log_says_what_came_of_it(followed: Extender) -> None:
    def told_by_signal() -> str:
        before = len(followed.events(READ_AGAIN))
        followed.process.send_signal(signal.SIGHUP)
        followed.wait_until(lambda: len(followed.events(READ_AGAIN)) > before)
        (line,) = followed.events(READ_AGAIN)[before:]
        assert (line["level"], line["path"]) == ("info", str(followed.config))
        return str(line["outcome"])

    assert told_by_signal() == "its profiles are live already"
    put(followed.config, UNUSABLE["no-yaml"][0].encode())
    assert told_by_signal() == f"{REFUSED}{UNUSABLE['no-yaml'][1]}"
    write(followed.config, changed())
    told_by_signal()
    assert score(followed, "default") == scores(node_7=60)
    write(followed.config, configuration(*changed()["profiles"], cluster={"mode": "dry-run"}))
    assert told_by_signal() == "cluster of the configuration changed; restart the extender to apply that"


# -- what an operator has brought live -------------------------------------------------------------


def order(extender: Extender, name: str, **settings: Any) -> None:
    """Returns when the settings are live."""
    answer = extender.admin.post(f"/api/v1/plugins/{name}/swap", params={"wait": "20s"}, json={"settings": settings})
    assert (answer.status_code, answer.json().get("stage")) == (200, "active"), answer.text


def shown(extender: Extender, name: str) -> dict[str, Any]:
    view: dict[str, Any] = extender.admin.get(f"/api/v1/plugins/{name}").json()
    return view


def test_settings_of_an_operator_stay_until_those_of_the_file_change(followed: Extender) -> None:
    mine, other = scoring("only", 30), scoring("other", 30)
    write(followed.config, configuration(profile("default", mine, other, scoreRange=100)))
    followed.wait_until(lambda: readiness(followed) == WELL and len(followed.admin.get("/api/v1/plugins").json()) == 2)
    order(followed, "only", guestConfig="90")
    assert score(followed, "default") == scores(node_7=60)
    before = shown(followed, "only")
    mine = mine | {"swap": {"rollbackTime": "1s"}, "source": {"interval": "1s", "timeout": "1s"}}
    write(followed.config, configuration(profile("default", scoring("other", 50), mine, scoreRange=100)))
    followed.wait_until(lambda: score(followed, "default") == scores(node_7=70))
    delay(SETTLED_S)
    assert shown(followed, "only") | {"standby": ""} == before | {"standby": ""}
    mine["weight"] = 3
    write(followed.config, configuration(profile("default", scoring("other", 50), mine, scoreRange=100)))
    followed.wait_until(lambda: score(followed, "default") == scores(node_7=35))
    assert condition(shown(followed, "only"), "SourceInSync") == ("True", "SameRevision", "")


# -- sources on web servers --------------------------------------------------------------------------

DOWN = web.answer(503)


@pytest.fixture
def server() -> Iterator[Web]:
    with web.serving() as server:
        yield server


def paged(server: Web, **settings: Any) -> dict[str, Any]:
    """A plugin with a page of the server as its source."""
    return plugin("page", guestURL=server.url("/page.wasm"), source={"interval": "100ms"}, **settings)


def test_how_modules_are_followed_and_swapped_is_taken_over_without_a_rollout(tmp_path: Path, server: Web) -> None:
    server.pages["/page.wasm"] = web.tagged('"1"', versions.module(10))
    seldom = paged(server) | {"source": {"interval": "1h"}}
    with Extender(tmp_path, profile("default", seldom, scoreRange=100)) as extender:
        before = shown(extender, "page")
        server.pages["/page.wasm"] = DOWN
        often = paged(server, swap={"rollback": "manual"})
        write(extender.config, configuration(profile("default", often, scoreRange=100)))
        extender.wait_until(lambda: condition(shown(extender, "page"), "SourceReady")[0] == "False")
        answers = f"{server.url('/page.wasm')} answers 503 Service Unavailable; see to the server"
        without = shown(extender, "page")
        assert condition(without, "SourceReady") == ("False", "SourceFailed", answers)
        assert condition(without, "SourceInSync") == ("Unknown", "SourceFailed", "")
        assert without | {"conditions": before["conditions"]} == before
        server.pages["/page.wasm"] = web.tagged('"2"', versions.module(11))
        extender.wait_until(lambda: score(extender, "default") == scores(node_7=11))
        page = shown(extender, "page")
        assert (page["standby"], condition(page, "SourceReady")) == (None, ("True", "SourceAvailable", ""))


def test_settings_change_while_the_source_is_out_of_reach(tmp_path: Path, server: Web) -> None:
    """Else nobody could take the weight off a plugin, or have its failures ignored, while a registry is down."""
    sign = Signer(tmp_path)
    source = {"interval": "100ms", "publicKey": "cosign.pub"}
    server.pages["/page.wasm"] = web.tagged('"1"', versions.module(10))
    server.pages["/page.wasm.sig"] = web.answer(200, base64.b64encode(sign(versions.module(10))))
    url, zero = server.url("/page.wasm"), scoring("zero", 0)
    page = paged(server) | {"source": source}
    refusals = (
        f"{server.url('/elsewhere.wasm.sig')} answers 503 Service Unavailable; see to the server",
        f"{url} is signed, but its signature is not by this key; expected a signature by {sign.public_key}"
        f" ({PublicKey.read(sign.public_key).fingerprint})",
    )
    with Extender(tmp_path, profile("default", zero, page, scoreRange=100)) as extender:

        def configure(**more: Any) -> None:
            write(extender.config, configuration(profile("default", zero, page | more, scoreRange=100)))

        server.pages.update({"/page.wasm": DOWN, "/page.wasm.sig": DOWN, "/elsewhere.wasm.sig": DOWN})
        extender.wait_until(lambda: condition(shown(extender, "page"), "SourceReady")[0] == "False")
        configure(weight=9)
        extender.wait_until(lambda: score(extender, "default") == scores(node_7=9))
        assert shown(extender, "page")["digest"] == digest(versions.module(10))
        assert condition(shown(extender, "page"), "SourceInSync")[2] == ""
        configure(guestURL=server.url("/elsewhere.wasm"))
        extender.wait_until(lambda: f"plugin page of profile default: {refusals[0]}" in readiness(extender)[1])
        server.pages["/page.wasm.sig"] = web.answer(200, base64.b64encode(sign(versions.module(10))))
        server.pages["/page.wasm"] = web.answer(200, versions.module(11))
        configure(weight=5)
        extender.wait_until(lambda: f"plugin page of profile default: {refusals[1]}" in readiness(extender)[1])
        assert score(extender, "default") == scores(node_7=9)


def test_a_plugin_that_is_not_there_is_not_waited_for(tmp_path: Path, server: Web) -> None:
    server.pages.update({"/page.wasm": DOWN, "/elsewhere.wasm": DOWN})
    with Extender(tmp_path, profile("default", scoring("other", 30), paged(server), scoreRange=100)) as extender:
        assert readiness(extender)[0] == 503
        ignored = profile("default", scoring("other", 40), paged(server, failurePolicy="Ignore"), scoreRange=100)
        write(extender.config, configuration(ignored))
        extender.wait_until(lambda: score(extender, "default") == scores(node_7=40))
        assert readiness(extender)[0] == 200
        elsewhere = paged(server, guestConfig="new") | {"guestURL": server.url("/elsewhere.wasm")}
        write(extender.config, configuration(profile("default", elsewhere, scoreRange=100)))
        extender.wait_until(lambda: readiness(extender)[0] == 503)
        server.pages["/elsewhere.wasm"] = web.answer(200, versions.module(11))
        extender.wait_until(lambda: score(extender, "default") == scores(node_7=11))
        assert shown(extender, "page")["revision"]["settings"]["guestConfig"] == "new"
        assert readiness(extender) == WELL


# -- how the file changes --------------------------------------------------------------------------


def test_exchanged_links_are_followed_as_in_a_mounted_config_map(tmp_path: Path) -> None:
    """kubelet writes a new folder and exchanges the link `..data` to it; the file's own link stays."""
    for version, content in (("..v1", BASE), ("..v2", changed())):
        (tmp_path / version).mkdir()
        write(tmp_path / version / "extender.yaml", content)
    (tmp_path / "..data").symlink_to("..v1")
    (tmp_path / "extender.yaml").symlink_to("..data/extender.yaml")
    with Extender(tmp_path, *BASE["profiles"]) as extender:
        assert score(extender, "default") == scores(node_7=30)
        (tmp_path / "..data_tmp").symlink_to("..v2")
        (tmp_path / "..data_tmp").replace(tmp_path / "..data")
        extender.wait_until(lambda: score(extender, "default") == scores(node_7=60))
        assert (tmp_path / "extender.yaml").is_symlink()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RolloutService]:
    """What follows a file with BASE."""
    file = kwx.write(tmp_path, BASE | {"server": {"stateDirectory": "state"}})
    loaded = load(file, keeps=True)
    service = RolloutService(file, loaded, CyclePins(), RequestSamples(), NodeTable, lambda _: None, lambda: None)
    try:
        service.start()
        yield service
    finally:
        service.stop()
        loaded.close()


def serving(service: RolloutService) -> list[str]:
    """The modules that serve."""
    return [slot.live.profile_plugin.plugin.digest for slot in service.rollouts.live.slots if slot.live]


def test_what_was_refused_is_tried_again_when_its_sources_give_something_else(
    service: RolloutService, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And only then: else each time would be an error in the log and a line of history."""
    wanted, module = changed(guestURL="file://./late.wasm"), tmp_path / "late.wasm"
    write(tmp_path / "extender.yaml", wanted | {"server": {"stateDirectory": "state"}})
    causes = (
        f"{module} cannot be read: No such file or directory; build it or mend the path",
        f"{module} is no valid WebAssembly module: begins with b'bad', not with b'\\x00asm'",
    )
    refusals = [f"{REFUSED}plugin only of profile default: {cause}; {LATER}" for cause in causes]
    wait_until(lambda: service.oddities == refusals[0], lambda: service.oddities)
    delay(SETTLED_S)
    put(module, b"bad")
    wait_until(lambda: service.oddities == refusals[1], lambda: service.oddities)
    history = [(each.stage, each.by, each.problem) for each in service.rollouts.history(10)]
    assert history[:2] == [(RolloutStage.FAILED, "configuration", cause) for cause in causes[::-1]]
    assert len(history) == 3
    assert [line.getMessage() for line in caplog.records if line.getMessage().startswith(REFUSED)] == refusals
    put(module, guests.constant_score(70))
    wait_until(lambda: service.oddities is None, lambda: service.oddities)
    assert serving(service) == [digest(guests.constant_score(70))]
