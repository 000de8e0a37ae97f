"""The policies that the extender is shipped with: their cases, on every engine, and what holds for each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.sdk_guest import policy_cases
from tests.sdk_guest.plugins import MakePlugin, without
from tests.sdk_guest.policy_cases import Case
from wasm_runtime import Plugin, Settings
from wasm_runtime.abi import Code, Severity
from wasm_runtime.engine import Engine, Log
from wasm_runtime.guests.guest import Status

ROOT: Final = Path(__file__).parents[2]
GPU_PACK: Final = ROOT / "sdk-guest" / "policies" / "gpu-pack"

DEVICES: Final = "gpu-pack.kwx.dev/devices"

Load = Callable[..., Plugin]


@pytest.fixture
def logged() -> list[tuple[Severity, str]]:
    """What guests logged."""
    return []


@pytest.fixture
def load(each_engine: Engine, make_plugin: MakePlugin, logged: list[tuple[Severity, str]]) -> Load:
    """Makes a plugin of gpu-pack, for a host that tells of pods or for one that does not."""
    wasm = (ROOT / "extender" / "policies" / "gpu_pack.wasm").read_bytes()

    def load(config: str = "", *, tells_pods: bool = True) -> Plugin:
        return make_plugin(
            each_engine,
            without(wasm, *(() if tells_pods else ("podschanged", "podbuffer"))),
            Settings("gpu-pack", config=config, timeout=30.0, instances=1),
            sink=lambda _plugin, _pod, journal: logged.extend(
                (each.severity, each.message) for each in journal.records if isinstance(each, Log)
            ),
        )

    return load


CASES: Final = policy_cases.read(GPU_PACK / "cases.yaml")


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_gpu_pack_says_what_its_cases_have(load: Load, case: Case) -> None:
    plugin = load(msgspec.json.encode(case.guestConfig).decode())
    at = policy_cases.world_of(case)
    assert policy_cases.answers(plugin, at) == case.expect
    for node, devices in case.bind.items():
        status, annotations = policy_cases.reserve(plugin, at, node)
        assert status == Status(Code.SUCCESS)
        assert annotations == ({} if devices is None else {DEVICES: devices}), node


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ('{"resources": []}', '"resources" must have 1 to 16 names'),
        ('{"resources": "nvidia.com/gpu"}', '"resources" must be a list of strings'),
        ('{"nodePolicy": "pack"}', '"nodePolicy" must be binpack or spread'),
    ],
)
def test_a_configuration_that_is_wrong_is_told(load: Load, config: str, reason: str) -> None:
    with pytest.raises(Exception, match=reason):
        policy_cases.answers(load(config), policy_cases.world_of(CASES[0]))


def test_without_pods_all_gpus_count_as_free_and_the_log_says_so_once(
    load: Load, logged: list[tuple[Severity, str]]
) -> None:
    plugin = load(tells_pods=False)
    for _ in range(3):
        expected = {"busy": 12, "shared": 12, "free": 12, "small": 25, "without": 0}
        assert policy_cases.answers(plugin, policy_cases.world_of(CASES[0])) == expected
    assert logged == [(Severity.WARNING, "the host has told of no pods on nodes: all nodes count as empty")]
