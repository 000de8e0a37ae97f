"""The binding cycle: the steps of several plugins, and what becomes of it when one of them does not do its part."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from extender.cluster import BindError
from extender.config import FailurePolicy
from extender.scheduling.bind import BindingCycle
from extender.scheduling.binding_guests import Binding, RejectedError
from extender.scheduling.profile import PluginFailedError, Profile, ProfilePlugin
from extender.scheduling.waiting_pods import Wait
from tests.extender import guests
from tests.patience import Beside, delay
from tests.wasm_runtime.world import idle_guests
from wasm_runtime.engine import Settings
from wasm_runtime.engines.wasmtime import WasmtimeEngine
from wasm_runtime.guests.guest import Pod
from wasm_runtime.guests.plugin import Plugin
from wasm_runtime.nodes.node_table import Nodes, NodeTable
from wasm_runtime.protobuf import encode_pod
from wasm_runtime.protobuf.annotate import MAX_ANNOTATIONS_BYTES

GUEST = "binding_from_config"
STEPS = ("prefilter", "reserve", "unreserve", "permit", "prebind", "bind", "postbind")
POD = Pod("uid-of-web-7", "default/web-7", b"POD")
LONG = 60.0
"""Seconds that no test waits for."""
FAIL, IGNORE = FailurePolicy.FAIL, FailurePolicy.IGNORE


def steps(wait: int | None = None, /, **answers: str) -> str:
    """The configuration of the guest: all succeeds, and Bind skips, but for `answers`; `wait` is Permit's in ms."""
    usual = {"bind": "f"} | ({} if wait is None else {"permit": "e"})
    return "".join((usual | answers).get(step, "a") for step in STEPS) + str(wait or "")


class Told(NamedTuple):
    """The handle of a plugin, which is told of each call of its guest."""

    plugin: str
    calls: list[str]

    def waiting_pod(self, export: str, /) -> bytes | None:
        self.calls.append(f"{self.plugin} {export}")
        return None

    def reject_waiting_pod(self, _: str, /) -> bool:
        return False


class Cycles:
    """Binds a pod with plugins a, b, c, each with its configuration of the guest; keeps what was called."""

    def __init__(self, engine: WasmtimeEngine) -> None:
        self._engine = engine
        self._plugins: list[Plugin] = []
        self.calls: list[str] = []
        self.annotations: Mapping[str, str] = {}
        """What the pod was bound with by default."""
        self.error: Exception | None = None
        """What binding by default fails with."""

    def entry(
        self,
        name: str,
        config: str,
        policy: FailurePolicy,
        points: Sequence[str] | None = None,
        guest: str = GUEST,
        **settings: Any,
    ) -> ProfilePlugin:
        settings = {"timeout": LONG, "instances": 2, **settings}
        plugin = Plugin(
            self._engine,
            guests.module(guest),
            Settings(name, config, **settings),
            extension_points=points,
            handle=Told(name, self.calls),
        )
        self._plugins.append(plugin)
        return ProfilePlugin(plugin, 1, policy)

    def profile(self, *configs: str, policy: FailurePolicy = FAIL, **settings: Any) -> Profile:
        names = "abc"[: len(configs)]
        plugins = [self.entry(*plugin, policy, **settings) for plugin in zip(names, configs, strict=True)]
        return Profile("default", plugins)

    def bind(self, profile: Profile, seconds: float = LONG, pod: Pod = POD) -> str:
        """What is wrong, if anything is; then what was called is there, PreFilter aside."""
        self.calls.clear()
        try:
            cycle, waits = self.begin(profile, seconds, pod)
            if waits:
                self.end(cycle, Wait(cycle, waits, 0))
        except (BindError, RejectedError, PluginFailedError) as error:
            return str(error)
        return ""

    def begin(
        self, profile: Profile, seconds: float = LONG, pod: Pod = POD
    ) -> tuple[BindingCycle, Mapping[str, float]]:
        """A cycle that has come to Permit, and for which plugins the pod waits how many seconds."""
        cycle = self.cycle(profile, seconds, pod)
        return cycle, cycle.begin()

    def cycle(self, profile: Profile, seconds: float = LONG, pod: Pod = POD) -> BindingCycle:
        """A cycle that has not begun."""
        binding = Binding(pod, Nodes(NodeTable(), ["node-1"]), time.monotonic() + seconds)
        return BindingCycle(profile, binding, None, self._bind)

    def end(self, cycle: BindingCycle, wait: Wait) -> None:
        """Waits, and brings the cycle to its end as bind does."""
        try:
            asyncio.run(wait.end())
        except Exception:
            cycle.give_up()
            raise
        cycle.go_on()

    def _bind(self, annotations: Mapping[str, str]) -> None:
        self.calls.append("default")
        self.annotations = annotations
        if self.error:
            raise self.error

    def close(self) -> None:
        for plugin in self._plugins:
            plugin.close()


@pytest.fixture(scope="module")
def engine() -> WasmtimeEngine:
    return WasmtimeEngine()


@pytest.fixture
def cycles(engine: WasmtimeEngine) -> Iterator[Cycles]:
    cycles = Cycles(engine)
    yield cycles
    cycles.close()


def failed(cause: str, plugin: str = "b", guest: str = GUEST) -> str:
    return f"plugin {plugin} ({guests.revision(guest)}): {cause}"


def called(*exports: str, plugins: str = "abc") -> list[str]:
    """Each export in turn, of plugin after plugin; `default` is not theirs."""
    return [
        call
        for export in exports
        for call in (["default"] if export == "default" else [f"{plugin} {export}" for plugin in plugins])
    ]


BEGUN = called("prefilter")
UNRESERVED = called("unreserve", plugins="cba")


def test_every_step_is_taken_plugin_after_plugin(cycles: Cycles) -> None:
    assert cycles.bind(cycles.profile(steps(), steps(), steps())) == ""
    assert cycles.calls == called("prefilter", "reserve", "permit", "prebind", "bind", "default", "postbind")


def test_nothing_is_begun_once_the_time_of_the_verb_is_over(cycles: Cycles) -> None:
    assert cycles.bind(cycles.profile(steps(), steps()), seconds=-1) == (
        "plugin a: reserve: not called, the time of the verb was over;"
        " raise server.bindTimeout, and the extender's httpTimeout with it"
    )
    assert cycles.calls == called("prefilter", plugins="ab") + called("unreserve", plugins="ba")


def test_only_plugins_with_a_part_in_binding_are_called_and_only_for_that_part(cycles: Cycles) -> None:
    parts = {"a": ["preBind"], "b": ["preFilter"], "c": ["reserve", "permit"]}
    plugins = [cycles.entry(name, steps(), FAIL, points) for name, points in parts.items()]
    assert cycles.bind(Profile("default", plugins)) == ""
    assert cycles.calls == ["a prefilter", "c prefilter", "c reserve", "c permit", "a prebind", "default"]


def test_no_plugin_is_blamed_for_a_step_that_it_has_no_part_in(cycles: Cycles) -> None:
    plugins = [cycles.entry("a", steps(), FAIL, ["preBind"]), cycles.entry("c", steps(), FAIL, ["reserve"])]
    assert cycles.bind(Profile("default", plugins), seconds=-1) == (
        "plugin c: reserve: not called, the time of the verb was over;"
        " raise server.bindTimeout, and the extender's httpTimeout with it"
    )
    assert cycles.calls == ["a prefilter", "c prefilter", "c unreserve"]


# -- who binds -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "binds"),
    [
        (("a", "a", "a"), ["a bind"]),
        (("f", "a", "a"), ["a bind", "b bind"]),
        (("f", "f", "a"), ["a bind", "b bind", "c bind"]),
        (("f", "f", "f"), ["a bind", "b bind", "c bind", "default"]),
        (("5", "0", "f"), ["a bind", "b bind"]),
    ],
)
def test_the_first_plugin_that_does_not_skip_binds_else_the_extender(
    cycles: Cycles, answers: Sequence[str], binds: list[str]
) -> None:
    assert cycles.bind(cycles.profile(*(steps(bind=answer) for answer in answers))) == ""
    assert cycles.calls == [*called("prefilter", "reserve", "permit", "prebind"), *binds, *called("postbind")]


def test_what_is_reserved_is_given_back_where_the_extender_cannot_bind(cycles: Cycles) -> None:
    cycles.error = BindError("cannot bind pod default/web-7 to node node-1: no")
    profile = cycles.profile(steps(), steps(), steps())
    assert cycles.bind(profile) == "cannot bind pod default/web-7 to node node-1: no"
    assert cycles.calls == [*called("prefilter", "reserve", "permit", "prebind", "bind", "default"), *UNRESERVED]


def test_what_is_reserved_is_given_back_by_plugins_that_had_no_further_part(cycles: Cycles) -> None:
    cycles.error = BindError("cannot bind pod default/web-7 to node node-1: no")
    plugins = [cycles.entry(name, steps(), FAIL, ["reserve", "permit"]) for name in "ab"]
    assert cycles.bind(Profile("default", plugins)) == "cannot bind pod default/web-7 to node node-1: no"
    before = called("prefilter", "reserve", "permit", plugins="ab")
    assert cycles.calls == [*before, "default", *called("unreserve", plugins="ba")]


# -- plugins that reject or fail -------------------------------------------------------------------

BEFORE = {
    "reserve": [*BEGUN, "a reserve", "b reserve"],
    "permit": [*BEGUN, *called("reserve"), "a permit", "b permit"],
    "prebind": [*BEGUN, *called("reserve", "permit"), "a prebind", "b prebind"],
    "bind": [*BEGUN, *called("reserve", "permit", "prebind"), "a bind", "b bind"],
}
"""Steps by which a plugin can stop a binding, and what was called when b does."""

CODES = {
    "reserve": "0 Success, 1 Error, 2 Unschedulable, 3 UnschedulableAndUnresolvable, 6 Pending",
    "permit": "0 Success, 1 Error, 2 Unschedulable, 3 UnschedulableAndUnresolvable, 4 Wait, 6 Pending",
    "prebind": "0 Success, 1 Error, 2 Unschedulable, 3 UnschedulableAndUnresolvable, 6 Pending",
    "bind": "0 Success, 1 Error, 2 Unschedulable, 3 UnschedulableAndUnresolvable, 5 Skip, 6 Pending",
}
UNEXPECTED = {
    "reserve": ("4", "4 Wait"),
    "permit": ("5", "5 Skip"),
    "prebind": ("5", "5 Skip"),
    "bind": ("4", "4 Wait"),
}


@pytest.mark.parametrize("step", BEFORE)
@pytest.mark.parametrize("policy", FailurePolicy)
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("2", "Unschedulable: not today"),
        ("3", "UnschedulableAndUnresolvable: not today"),
        ("6", "Pending: not today"),
        ("c", "Unschedulable"),
    ],
)
def test_a_rejection_ends_the_binding_and_is_undone_by_all_in_reverse(
    cycles: Cycles, step: str, policy: FailurePolicy, answer: str, reason: str
) -> None:
    """A rejection is no failure: the policy for those does not count."""
    profile = cycles.profile(steps(), steps(**{step: answer}), steps(), policy=policy)
    assert cycles.bind(profile) == f"plugin b: {step}: {reason}"
    assert cycles.calls == [*BEFORE[step], *UNRESERVED]


def ways_to_fail(step: str) -> dict[str, str]:
    """Answers of a step that are none, and the cause that is named; after a trap a guest is not called again."""
    code, name = UNEXPECTED[step]
    where = f"{step} of node node-1"
    return {
        "1": f"{where}: not today",
        "b": f"{where}: Error without a reason",
        code: f"{where}: status code {name} (not today) is none of {CODES[step]}",
        "9": f"{where}: status code 9 (not today) is none of {CODES[step]}",
        "t": f"{where}: trap: unreachable in answer < {step}",
    }


FAILURES = [(step, answer) for step in BEFORE for answer in ways_to_fail(step)]


@pytest.mark.parametrize(("step", "answer"), FAILURES)
def test_a_failure_ends_the_binding_and_is_undone_by_all_that_can(cycles: Cycles, step: str, answer: str) -> None:
    profile = cycles.profile(steps(), steps(**{step: answer}), steps())
    assert cycles.bind(profile) == failed(ways_to_fail(step)[answer])
    undo = called("unreserve", plugins="ca" if answer == "t" else "cba")
    assert cycles.calls == [*BEFORE[step], *undo]


@pytest.mark.parametrize(("step", "answer"), FAILURES)
def test_a_failure_that_is_ignored_leaves_the_plugin_out(
    cycles: Cycles, caplog: pytest.LogCaptureFixture, step: str, answer: str
) -> None:
    profile = cycles.profile(steps(), steps(**{step: answer}), steps(), policy=IGNORE)
    assert cycles.bind(profile) == ""
    expected = called("prefilter", "reserve", "permit", "prebind", "bind", "default", "postbind")
    if answer == "t":
        later = expected[expected.index(f"b {step}") + 1 :]
        expected = [call for call in expected if call not in later or not call.startswith("b ")]
    assert cycles.calls == expected
    assert [record.getMessage() for record in caplog.records] == [
        f"left out of a verb: {failed(ways_to_fail(step)[answer])}"
    ]


def test_a_guest_that_spins_is_interrupted_and_its_plugin_fails(cycles: Cycles) -> None:
    slow = cycles.entry("b", steps(prebind="s"), FAIL, timeout=0.05)
    profile = cycles.profile(steps())
    assert cycles.bind(Profile("default", [*profile.plugins, slow])) == failed(
        "prebind of node node-1: interrupted at its timeout of 50 ms; mend the guest, or raise the plugin's timeout"
    )
    assert cycles.calls[-3:] == ["a prebind", "b prebind", "a unreserve"]


PREFILTER = {
    "1": "prefilter: not today",
    "4": f"prefilter: status code 4 Wait (not today) is none of {CODES['bind']}",
    "t": "prefilter: trap: unreachable in answer < prefilter",
}


@pytest.mark.parametrize("answer", PREFILTER)
def test_nothing_is_reserved_when_a_prefilter_fails(cycles: Cycles, answer: str) -> None:
    profile = cycles.profile(steps(), steps(prefilter=answer), steps())
    assert cycles.bind(profile) == failed(PREFILTER[answer])
    assert cycles.calls == ["a prefilter", "b prefilter"]


@pytest.mark.parametrize("answer", PREFILTER)
def test_a_prefilter_whose_failure_is_ignored_leaves_the_plugin_out_of_all_steps(cycles: Cycles, answer: str) -> None:
    profile = cycles.profile(steps(), steps(prefilter=answer), steps(), policy=IGNORE)
    assert cycles.bind(profile) == ""
    rest = called("reserve", "permit", "prebind", "bind", "default", "postbind", plugins="ac")
    assert cycles.calls == [*BEGUN, *rest]


@pytest.mark.parametrize("answer", ["2", "3", "5", "6"])
def test_what_else_prefilter_says_at_bind_has_no_effect(cycles: Cycles, answer: str) -> None:
    assert cycles.bind(cycles.profile(steps(prefilter=answer))) == ""


def test_failures_of_unreserve_and_postbind_are_logged_and_change_nothing(
    cycles: Cycles, caplog: pytest.LogCaptureFixture
) -> None:
    undoing = cycles.profile(steps(), steps(unreserve="t"), steps(prebind="2"))
    assert cycles.bind(undoing) == "plugin c: prebind: Unschedulable: not today"
    assert cycles.calls[-3:] == UNRESERVED

    done = cycles.profile(steps(), steps(postbind="t"), steps())
    assert cycles.bind(done) == ""
    assert cycles.calls[-3:] == called("postbind")

    causes = {
        step: failed(f"{step} of node node-1: trap: unreachable in answer < {step}")
        for step in ("unreserve", "postbind")
    }
    fields = {"verb": "bind", "pod": "default/web-7", "plugin": "b", "fault": "unreachable"}
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.ERROR, f"{step} failed: {cause}") for step, cause in causes.items()
    ]
    for record, step in zip(caplog.records, causes, strict=True):
        assert record.__dict__.items() >= (fields | {"export": step}).items()


def test_a_guest_keeps_its_memory_when_a_binding_comes_to_nothing(cycles: Cycles) -> None:
    """What it has counted of other pods is not lost, whoever stopped the binding."""
    profile = cycles.profile(steps(), steps(reserve="2"), steps(prebind="t"))
    before = [idle_guests(entry.plugin._pool) for entry in profile.plugins]
    for _ in range(3):
        assert cycles.bind(profile) == "plugin b: reserve: Unschedulable: not today"
    assert [idle_guests(entry.plugin._pool) for entry in profile.plugins] == before


OUTCOMES = pytest.mark.parametrize("answers", [{}, {"reserve": "2"}, {"prebind": "1"}])


@OUTCOMES
def test_a_guest_is_there_for_the_next_pod_when_its_own_has_been_bound_or_not(
    cycles: Cycles, answers: dict[str, str]
) -> None:
    profile = cycles.profile(steps(**answers), instances=4)
    for name in ("web-7", "web-8", "web-9"):
        cycles.bind(profile, pod=Pod(f"uid-of-{name}", f"default/{name}", b"POD"))
    assert len(profile.plugins[0].plugin._pool) == 1


@OUTCOMES
def test_the_next_attempt_to_bind_the_pod_begins_a_new_cycle(cycles: Cycles, answers: dict[str, str]) -> None:
    profile = cycles.profile(steps(**answers))
    for _ in range(2):
        cycles.bind(profile)
        assert cycles.calls[:2] == ["a prefilter", "a reserve"]


# -- pods that wait --------------------------------------------------------------------------------


def test_a_pod_whose_time_to_wait_is_over_is_rejected(cycles: Cycles) -> None:
    profile = cycles.profile(steps(), steps(30), steps())
    assert cycles.bind(profile) == "plugin b: permit: the pod waited for its 0.03 s and nobody let it go on"
    assert cycles.calls == [*BEGUN, *called("reserve", "permit"), *UNRESERVED]


@pytest.mark.parametrize(
    ("waits", "message"),
    [
        ((60_000, 40, 20), "plugin c: permit: the pod waited for its 0.02 s and nobody let it go on"),
        ((40, 20, 60_000), "plugin b: permit: the pod waited for its 0.02 s and nobody let it go on"),
        ((20, 20, 20), "plugin a: permit: the pod waited for its 0.02 s and nobody let it go on"),
        ((60_000, None, 0), "plugin c: permit: the pod waited for its 0 s and nobody let it go on"),
    ],
)
def test_the_most_impatient_plugin_decides_how_long_a_pod_waits(
    cycles: Cycles, waits: Sequence[int | None], message: str
) -> None:
    assert cycles.bind(cycles.profile(*map(steps, waits))) == message


def test_a_pod_does_not_wait_that_a_later_plugin_rejects(cycles: Cycles) -> None:
    profile = cycles.profile(steps(60_000), steps(permit="2"))
    assert cycles.bind(profile) == "plugin b: permit: Unschedulable: not today"


@pytest.mark.parametrize("seconds", [0.1, 0.2])
def test_a_wait_ends_before_the_verb_does(cycles: Cycles, seconds: float) -> None:
    assert cycles.bind(cycles.profile(steps(60_000)), seconds) == (
        "plugin a: permit: the pod was to wait for 60 s, but the verb ends before;"
        " raise server.bindTimeout, and the extender's httpTimeout with it"
    )
    assert cycles.calls[-1] == "a unreserve"


@pytest.mark.parametrize(
    ("after", "message", "called_after"),
    [
        ({}, "", called("prebind", "bind", "default", "postbind")),
        ({"prebind": "2"}, "plugin b: prebind: Unschedulable: not today", ["a prebind", "b prebind", *UNRESERVED]),
        (
            {"prebind": "t"},
            failed("prebind of node node-1: trap: unreachable in answer < prebind"),
            ["a prebind", "b prebind", *called("unreserve", plugins="ca")],
        ),
        (
            {"bind": "3"},
            "plugin b: bind: UnschedulableAndUnresolvable: not today",
            [*called("prebind"), "a bind", "b bind", *UNRESERVED],
        ),
    ],
)
def test_a_cycle_goes_on_after_a_wait_on_the_guests_that_have_begun_it(
    cycles: Cycles, after: dict[str, str], message: str, called_after: list[str]
) -> None:
    cycle, waits = cycles.begin(cycles.profile(steps(60_000), steps(30_000, **after), steps()))
    assert waits == {"a": 60.0, "b": 30.0}
    assert cycles.calls == [*BEGUN, *called("reserve", "permit")]
    cycles.calls.clear()
    try:
        cycle.go_on()
    except (PluginFailedError, RejectedError) as error:
        assert str(error) == message
    else:
        assert message == ""
    assert cycles.calls == called_after


def test_other_pods_may_have_the_guests_of_one_that_waits(cycles: Cycles) -> None:
    """Whatever is called for it then begins with PreFilter."""
    profile = cycles.profile(steps(60_000), instances=1)
    cycle, _ = cycles.begin(profile)
    other, _ = cycles.begin(profile, pod=Pod("other", "default/other", b"POD"))
    cycles.calls.clear()
    cycle.go_on()
    other.give_up()
    assert cycles.calls == [
        *called("prefilter", "prebind", "bind", "default", "postbind", plugins="a"),
        *called("prefilter", "unreserve", plugins="a"),
    ]


def test_a_pod_goes_on_when_a_guest_has_come_free_however_long_that_takes(cycles: Cycles) -> None:
    profile = Profile("default", [cycles.entry("a", steps(60_000), FAIL, timeout=0.5, instances=1)])
    plugin, nodes = profile.plugins[0].plugin, Nodes(NodeTable(), ["node-1"])
    first, _ = cycles.begin(profile)
    second, _ = cycles.begin(profile, pod=Pod("second", "default/second", b"POD"))
    with plugin.guest(Pod("other", "default/other", b"POD"), nodes, "bind"):
        ends = [Beside(first.go_on), Beside(second.give_up)]
        delay(0.7)
        assert not any(end.is_over for end in ends)
    for end in ends:
        end.end()
    assert (cycles.calls.count("a postbind"), cycles.calls.count("a unreserve")) == (1, 1)


def test_nobody_waits_for_a_guest_after_the_end_of_the_verb(cycles: Cycles) -> None:
    profile = Profile("default", [cycles.entry("a", steps(60_000), FAIL, timeout=0.5, instances=1)])
    plugin, nodes = profile.plugins[0].plugin, Nodes(NodeTable(), ["node-1"])
    cycle, _ = cycles.begin(profile, seconds=1.0)
    with plugin.guest(Pod("other", "default/other", b"POD"), nodes, "bind"), pytest.raises(PluginFailedError) as caught:
        cycle.go_on()
    busy = "instance: all 1 that may be used here are in use; raise the plugin's instances"
    assert str(caught.value) == failed(busy, "a")


@pytest.mark.parametrize(
    ("config", "policy", "answer"),
    [
        (steps(), FAIL, True),
        (steps(60_000), FAIL, False),
        (steps(permit="2"), FAIL, "plugin a: permit: Unschedulable: not today"),
        (steps(permit="t"), FAIL, failed("permit of node node-1: trap: unreachable in answer < permit", "a")),
        (steps(permit="t"), IGNORE, True),
        (steps(prefilter="1"), FAIL, failed("prefilter: not today", "a")),
        (steps(prefilter="1"), IGNORE, True),
    ],
)
def test_what_a_plugin_says_when_it_is_asked_again(
    cycles: Cycles, config: str, policy: FailurePolicy, answer: bool | str
) -> None:
    cycle = cycles.cycle(Profile("default", [cycles.entry("a", config, policy)]))
    try:
        assert cycle.permit_again("a", lambda: False) is answer
    except (PluginFailedError, RejectedError) as error:
        assert str(error) == answer


def test_a_plugin_that_failed_when_it_was_asked_again_is_left_out_of_what_comes(cycles: Cycles) -> None:
    plugins = [cycles.entry("a", steps(), IGNORE), cycles.entry("b", steps(permit="t"), IGNORE)]
    cycle = cycles.cycle(Profile("default", plugins))
    assert cycle.permit_again("b", lambda: False) is True
    assert cycle.permit_again("b", lambda: False) is True
    cycles.calls.clear()
    cycle.go_on()
    assert cycles.calls == called("prefilter", "prebind", "bind", "default", "postbind", plugins="a")


def test_nobody_is_asked_about_a_pod_whose_wait_is_over_or_for_which_there_is_no_guest(cycles: Cycles) -> None:
    profile = Profile("default", [cycles.entry("a", steps(60_000), FAIL, timeout=0.5, instances=1)])
    cycle, _ = cycles.begin(profile)
    cycles.calls.clear()
    assert cycle.permit_again("a", lambda: True) is None
    nodes = Nodes(NodeTable(), ["node-1"])
    with profile.plugins[0].plugin.guest(Pod("other", "default/other", b"POD"), nodes, "bind"):
        cycles.calls.clear()
        assert cycle.permit_again("a", lambda: False) is None
    assert cycles.calls == []


def test_only_plugins_that_are_told_of_pods_are_asked_again(cycles: Cycles) -> None:
    kinds = {"a": GUEST, "b": "gang", "c": "keep_nodes"}
    plugins = [cycles.entry(name, "1-x", FAIL, guest=guest) for name, guest in kinds.items()]
    cycle = cycles.cycle(Profile("default", plugins))
    assert {name: cycle.asks_again(name) for name in kinds} == {"a": False, "b": True, "c": False}


def test_all_guests_busy_is_a_failure_that_says_what_to_raise(cycles: Cycles) -> None:
    entry = cycles.entry("a", steps(), FAIL, timeout=0.05, instances=2)
    nodes = Nodes(NodeTable(), ["node-1"])
    with entry.plugin.guest(Pod("other", "default/other", b"POD"), nodes, "bind"):
        assert cycles.bind(Profile("default", [entry]), seconds=0.2) == failed(
            "instance: all 1 that may be used here are in use; raise the plugin's instances", "a"
        )
    assert cycles.bind(Profile("default", [entry])) == ""


def test_a_pod_is_bound_when_a_guest_has_come_free_however_long_that_takes(cycles: Cycles) -> None:
    """Those of a group that kube-scheduler places as a whole come to bind at once."""
    entry = cycles.entry("a", steps(), FAIL, timeout=0.05, instances=2)
    nodes = Nodes(NodeTable(), ["node-1"])
    with entry.plugin.guest(Pod("other", "default/other", b"POD"), nodes, "bind"):
        end = Beside(lambda: cycles.begin(Profile("default", [entry])))
        delay(0.2)
        assert not end.is_over
    end.end()
    assert "default" in cycles.calls


def test_a_plugin_that_has_no_part_after_permit_leaves_its_guest_to_others_while_the_extender_binds(
    cycles: Cycles,
) -> None:
    """Binding takes far longer than Permit, and all pods of a group come at once."""
    entry = cycles.entry("a", steps(), FAIL, ["reserve", "permit"], timeout=0.5, instances=1)
    profile = Profile("default", [entry])
    binding = Binding(POD, Nodes(NodeTable(), ["node-1"]), time.monotonic() + LONG)
    other = Pod("other", "default/other", b"POD")

    def bind_another(_: Mapping[str, str]) -> None:
        cycles.begin(profile, 1.0, other)

    BindingCycle(profile, binding, None, bind_another).begin()
    assert cycles.calls == [*called("prefilter", "reserve", "permit", plugins="a") * 2, "default"]


def test_a_plugin_whose_failures_are_ignored_is_not_waited_for(cycles: Cycles) -> None:
    entry = cycles.entry("a", steps(), IGNORE, timeout=0.05, instances=2)
    with entry.plugin.guest(Pod("other", "default/other", b"POD"), Nodes(NodeTable(), ["node-1"]), "bind"):
        assert cycles.bind(Profile("default", [entry])) == ""
        assert cycles.calls == ["default"]


# -- annotations -----------------------------------------------------------------------------------

ANNOTATES = "annotates_from_config"
ANNOTATED = Pod("uid-of-web-7", "default/web-7", encode_pod({"metadata": {"name": "web-7"}}))


def giving(cycles: Cycles, *configs: str, policy: FailurePolicy = FAIL, points: Sequence[str] | None = None) -> Profile:
    """Plugins a, b, c that give annotations. A configuration is a character, and `key=value` with spaces between."""
    return Profile(
        "default",
        [
            cycles.entry(name, config.replace("=", "\n").replace(" ", "\n"), policy, points, ANNOTATES)
            for name, config in zip("abc", configs, strict=False)
        ],
    )


def test_the_annotations_of_all_plugins_are_those_of_the_bind(cycles: Cycles) -> None:
    profile = giving(cycles, "-x=1 y=2 ", "-", "-z=3 y=2 ")
    assert cycles.bind(profile, pod=ANNOTATED) == ""
    assert cycles.annotations == {"x": "1", "y": "2", "z": "3"}
    reserved = [f"{plugin} {export}" for plugin in "abc" for export in ("reserve", "bindingannotations")]
    assert cycles.calls == [*reserved, "default"]


def test_plugins_that_contradict_each_other_stop_the_bind(cycles: Cycles) -> None:
    profile = giving(cycles, "-x=1 ", "-x=1 ", "-y=0 x=2 ")
    assert cycles.bind(profile, pod=ANNOTATED) == (
        "plugins a and c give annotation x different values; leave it to one of them"
    )
    assert cycles.calls[-3:] == UNRESERVED


def test_a_plugin_is_asked_for_annotations_only_where_it_has_reserved(cycles: Cycles) -> None:
    profile = giving(cycles, "-x=1 ", "ry=2 ", "-z=3 ")
    assert cycles.bind(profile, pod=ANNOTATED) == "plugin b: reserve: Unschedulable"
    assert cycles.calls == ["a reserve", "a bindingannotations", "b reserve", *UNRESERVED]


@pytest.mark.parametrize("what", ["e", "t"])
def test_the_annotations_of_a_plugin_that_fails_are_left_out_where_that_is_ignored(cycles: Cycles, what: str) -> None:
    """One that reserved nothing is not asked at all."""
    assert cycles.bind(giving(cycles, "-x=1 ", f"{what}y=2 ", "-z=3 ", policy=IGNORE), pod=ANNOTATED) == ""
    assert cycles.annotations == {"x": "1", "z": "3"}
    assert ("b bindingannotations" in cycles.calls) == (what == "t")


@pytest.mark.parametrize(
    ("config", "cause"),
    [
        ("-x=1", "bindingannotations of node node-1: the last text does not end with NUL"),
        ("t", "bindingannotations of node node-1: trap: unreachable in bindingannotations"),
    ],
)
def test_annotations_that_cannot_be_had_stop_the_bind(cycles: Cycles, config: str, cause: str) -> None:
    assert cycles.bind(giving(cycles, "-x=1 ", config), pod=ANNOTATED) == failed(cause, guest=ANNOTATES)
    assert "default" not in cycles.calls


def test_annotations_that_are_too_long_for_the_pod_stop_the_bind(cycles: Cycles) -> None:
    annotations = {"there": "." * (MAX_ANNOTATIONS_BYTES - 5)}
    pod = ANNOTATED._replace(object=encode_pod({"metadata": {"annotations": annotations}}))
    assert cycles.bind(giving(cycles, "-x= ", "-"), pod=pod) == (
        "pod default/web-7 cannot have the annotations that plugins give it: its annotations would take 262145 bytes,"
        " at most 262144 are allowed"
    )
    assert cycles.calls[-2:] == called("unreserve", plugins="ba")


def test_a_plugin_without_the_extension_point_reserve_gives_none(cycles: Cycles) -> None:
    profile = giving(cycles, "-x=1 ", points=["preFilter"])
    assert (cycles.bind(profile, pod=ANNOTATED), cycles.annotations, cycles.calls) == ("", {}, ["default"])


def test_a_plugin_that_binds_sees_to_annotations_itself(cycles: Cycles) -> None:
    profile = giving(cycles, "-x=1 ")
    binds = cycles.entry("b", steps(bind="a"), FAIL)
    assert cycles.bind(Profile("default", [*profile.plugins, binds]), pod=ANNOTATED) == ""
    assert (cycles.annotations, "default" in cycles.calls) == ({}, False)
