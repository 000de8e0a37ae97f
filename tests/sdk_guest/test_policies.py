"""The policies that the extender is shipped with: their cases, on every engine that is there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import pytest

from extender.rollouts.plugin_factory import config_problems
from tests.extender.commands.command import Command
from tests.sdk_guest.plugins import without
from wasm_runtime.blob import Blob

ROOT: Final = Path(__file__).parents[2]
POLICIES: Final = ROOT / "sdk-guest" / "policies"
MODULES: Final = ROOT / "extender" / "policies"


@pytest.mark.parametrize("policy", sorted(file.parent.name for file in POLICIES.glob("*/cases.yaml")))
def test_a_policy_says_what_its_cases_have(command: Command, policy: str) -> None:
    ended = command("test", POLICIES / policy)
    assert (ended.status, ended.stderr) == (0, ""), ended.stdout


def test_every_policy_has_cases() -> None:
    assert {file.parent.name for file in POLICIES.glob("*/cases.yaml")} == {each.name for each in POLICIES.iterdir()}
    assert len(list(MODULES.glob("*.wasm"))) == len(list(POLICIES.iterdir()))


PROBLEMS: Final = {
    ("gang", '{"timeoutSeconds": 0}'): ["timeoutSeconds: 0 is less than the minimum of 1"],
    ("gang", '{"timeoutSeconds": 1, "patienceSeconds": 0}'): [],
    ("gang", '{"patienceSeconds": 2147483649}'): [
        "patienceSeconds: 2147483649 is greater than the maximum of 2147483648"
    ],
    ("gang", '{"patience": 1}'): ["Additional properties are not allowed ('patience' was unexpected)"],
    ("gang", '{"timeoutSeconds": "60"}'): ['timeoutSeconds: "60" is not of type "integer"'],
    ("gpu_pack", '{"resources": ["example.com/gpu"], "nodePolicy": "spread", "gpuPolicy": "spread"}'): [],
    ("gpu_pack", '{"resources": ["gpu"]}'): ['resources.0: "gpu" does not match "/"'],
    ("gpu_pack", '{"resources": []}'): ["resources: [] has less than 1 item"],
    ("gpu_pack", '{"gpuPolicy": ""}'): ['gpuPolicy: "" is not one of "binpack" or "spread"'],
    ("gpu_pack", '{"memoryLabel": null}'): ['memoryLabel: null is not of type "string"'],
    ("topology", '{"levels": ["zone"], "required": "zone", "preferred": "none", "nodePolicy": "none"}'): [],
    ("topology", '{"levels": []}'): ["levels: [] has less than 1 item"],
    ("topology", '{"levels": ["a", ""]}'): ['levels.1: "" is shorter than 1 character'],
    ("topology", '{"levels": ["a", "a"]}'): ['levels: ["a","a"] has non-unique elements'],
    ("topology", '{"nodePolicy": "pack"}'): ['nodePolicy: "pack" is not one of "spread", "binpack" or "none"'],
}
"""Configurations of policies, and what their schemas say of them."""


@pytest.mark.parametrize(("policy", "config"), PROBLEMS)
def test_a_configuration_is_checked_by_the_schema_in_the_module(policy: str, config: str) -> None:
    module = MODULES / f"{policy}.wasm"
    told = [f"{module} does not accept this guestConfig: {each}" for each in PROBLEMS[policy, config]]
    assert config_problems(Blob(module.read_bytes()), str(module), config) == told


@pytest.mark.parametrize("policy", sorted(each.name for each in POLICIES.iterdir()))
def test_the_keys_of_a_schema_are_the_options_of_the_readme(policy: str) -> None:
    (file,) = (POLICIES / policy).glob("*.config.schema.json")
    keys = json.loads(file.read_text())["properties"]
    options = (POLICIES / policy / "README.md").read_text().partition("\n## Options\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", options, re.MULTILINE) == list(keys)
    assert all({"default", "description"} <= each.keys() for each in keys.values())


def test_the_catalogue_has_every_module() -> None:
    page = (ROOT / "docs" / "reference" / "policies.md").read_text()
    modules = [*MODULES.glob("*.wasm"), *(ROOT / "extender" / "examples").glob("*.wasm")]
    assert [each.name for each in modules if f"`{each.name}`" not in page] == []
    assert [each.name for each in POLICIES.iterdir() if f"policies/{each.name}/README.md" not in page] == []


def test_the_policies_are_small() -> None:
    assert {file.stem: size for file in MODULES.glob("*.wasm") if (size := file.stat().st_size) > 200_000} == {}


def test_without_pods_all_gpus_count_as_free_and_the_log_says_so_once(command: Command, tmp_path: Path) -> None:
    """Of gpu-pack: other hosts do not tell of pods."""
    module = tmp_path / "untold.wasm"
    module.write_bytes(without((MODULES / "gpu_pack.wasm").read_bytes(), "podschanged", "podbuffer"))
    cases = tmp_path / "cases.yaml"
    cases.write_text("""
nodes: [{name: busy, allocatable: {nvidia.com/gpu: 8}}]
pods: [{name: trains, node: busy, requests: {nvidia.com/gpu: 6}}]
cases:
- name: The node counts as empty
  steps:
  - pod: {requests: {nvidia.com/gpu: 1}}
    expect: {busy: 12}
    logs: ['warning: the host has told of no pods on nodes: all nodes count as empty']
  - pod: {requests: {nvidia.com/gpu: 1}}
    expect: {busy: 12}
    logs: []
""")
    ended = command("test", "--module", module, cases)
    assert (ended.status, ended.stderr) == (0, ""), ended.stdout
