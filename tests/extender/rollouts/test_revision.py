"""What tells one revision of a plugin from another, and what is kept of its configuration."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from pydantic import ValidationError

from extender.config import PluginConfig
from extender.rollouts.revision import NEXT, REVISED, Revision, RolloutStage, configure, settings_of
from extender.rollouts.rollout import Rollout

MODULE, OTHER = (f"sha256:{digit * 64}" for digit in "12")
NAMED: dict[str, Any] = {"name": "plugin", "guestURL": "file://./plugin.wasm"}

SETTINGS: dict[str, Any] = {
    "guestConfig": '{"reverse":true}',
    "args": ["plugin", "-v"],
    "logSeverity": 2,
    "weight": 7,
    "engine": "wasmer",
    "allowUnlimited": True,
    "failurePolicy": "Ignore",
    "timeout": "1.5s",
    "memoryLimit": "64Mi",
    "tableLimit": 1000,
    "outputLimit": "16Ki",
    "instances": 3,
    "extensionPoints": ["filter", "score"],
}
"""A value for each key that is part of a revision, none of them the usual one."""

APART: dict[str, Any] = {
    "guestURL": "https://modules.example/plugin.wasm",
    "digest": OTHER,
    "source": {"interval": "1m", "timeout": "2s", "caFile": "ca.pem", "publicKey": "key.pub"},
    "swap": {
        "slowdownFactor": 9,
        "slowdownFloor": "4ms",
        "shadowTime": "5s",
        "shadowRequests": 6,
        "rollback": "manual",
        "rollbackTime": "7s",
        "rollbackFailures": 8,
        "rollbackShare": 0.5,
        "wakePods": True,
    },
}
"""What is no part of it: where modules come from, and how they swap."""


def plugin(**settings: Any) -> PluginConfig:
    return PluginConfig.model_validate(NAMED | settings)


def setting(name: str) -> dict[str, Any]:
    """One of `SETTINGS`; `engine` and `allowUnlimited` are valid together only."""
    names = ("engine", "allowUnlimited") if name in {"engine", "allowUnlimited"} else (name,)
    return {each: SETTINGS[each] for each in names}


USUAL = Revision.of(MODULE, plugin(), "plugin.wasm")


def test_every_key_of_a_plugin_is_part_of_its_revisions_or_is_not() -> None:
    known = {str(field.alias) for field in PluginConfig.model_fields.values()}
    assert {*SETTINGS, *APART, "name"} == known
    assert len(SETTINGS) == len(REVISED)


@pytest.mark.parametrize("name", SETTINGS)
def test_each_setting_makes_another_revision(name: str) -> None:
    revision = Revision.of(MODULE, plugin(**setting(name)), "plugin.wasm")
    assert revision.id != USUAL.id
    assert revision.settings != USUAL.settings


@pytest.mark.parametrize("name", APART)
def test_where_modules_come_from_and_how_they_swap_makes_none(name: str) -> None:
    assert Revision.of(MODULE, plugin(**{name: APART[name]}), "plugin.wasm") == USUAL


def test_another_module_is_another_revision() -> None:
    other = Revision.of(OTHER, plugin(), "plugin.wasm")
    assert (other.id != USUAL.id, other.settings) == (True, USUAL.settings)


def test_the_name_the_origin_and_the_signer_are_no_part_of_the_id() -> None:
    assert Revision.of(MODULE, plugin(name="other"), "upload by alice", "sha256:key").id == USUAL.id


def test_an_id_is_the_same_in_every_process_and_every_version() -> None:
    """Else a later process would take what its source has always given for news, and replace an upload by it.

    A new key of plugins changes it, which the release notes have to say.
    """
    assert USUAL.id == "sha256:9c5fb240c9120372ea3b0983e8233696d61726a7fe3bce1728af33ac141ae897"


@pytest.mark.parametrize("name", SETTINGS)
def test_a_revision_configures_a_plugin_as_it_was(name: str) -> None:
    was = plugin(**setting(name))
    revision = msgspec.json.decode(msgspec.json.encode(Revision.of(MODULE, was, "plugin.wasm")), type=Revision)
    assert revision.configure(plugin()) == was
    assert revision.configure(plugin(**APART)) == plugin(**setting(name), **APART)
    assert USUAL.configure(was) == plugin()


def test_all_settings_together_survive() -> None:
    was = plugin(**SETTINGS, **APART)
    assert configure(plugin(**APART), settings_of(was)) == was
    assert (was.timeout, was.memory_limit, was.output_limit) == (1.5, 64 * 1024**2, 16 * 1024)


@pytest.mark.parametrize("text", ["0.001ms", "1ms", "333ms", "0.1s", "1.1s", "59m", "1h"])
def test_durations_survive(text: str) -> None:
    was = plugin(timeout=text, source={"interval": "1h", "timeout": text}, swap={"shadowTime": text})
    assert configure(was, settings_of(was)) == was


def test_some_settings_can_be_changed() -> None:
    assert configure(plugin(**SETTINGS), {"weight": 9, "timeout": "2s"}) == plugin(
        **SETTINGS | {"weight": 9, "timeout": "2s"}
    )


def test_settings_that_are_wrong_are_refused() -> None:
    with pytest.raises(ValidationError, match="weight"):
        configure(plugin(), {"weight": 0})


def rollout(stage: RolloutStage) -> Rollout:
    return Rollout(id=1, profile="default", plugin="plugin", by="source", stage=stage, began=1.0, changed=1.0)


OVER = {
    RolloutStage.ACTIVE,
    RolloutStage.DRAINING,
    RolloutStage.RETIRED,
    RolloutStage.FAILED,
    RolloutStage.REHEARSED,
    RolloutStage.UNCHANGED,
}


@pytest.mark.parametrize("stage", RolloutStage)
def test_a_rollout_goes_on_to_the_stages_that_may_follow_and_to_no_other(stage: RolloutStage) -> None:
    """What is live never fails any more; it drains."""
    at = rollout(stage)
    assert at.is_over is (stage in OVER)
    for following in RolloutStage:
        if following in NEXT[stage]:
            further = at.at(following, problem="because")
            assert msgspec.structs.replace(further, changed=1.0, settled=None) == msgspec.structs.replace(
                at, stage=following, problem="because"
            )
            assert further.changed > 1.0
            is_settled = further.succeeded is not at.succeeded
            assert further.settled == (further.changed if is_settled else None)
        else:
            with pytest.raises(ValueError, match=f"^{following.value} does not follow {stage.value}$"):
                at.at(following)
