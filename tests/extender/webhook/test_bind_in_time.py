"""What bind answers if the default binder does not come back in time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from extender.cluster import PodKey
from tests.extender.kwx import plugin, profile
from tests.extender.rollouts.inside import Inside
from tests.patience import delay

BIND_TIMEOUT_S = 0.2
STEPS = plugin("binding_from_config", "aaaaafa", name="a")
NOT_KNOWN = (
    "it is not known whether pod default/web-7 is bound to node node-7: the bind did not end within server.bindTimeout;"
    " kube-scheduler tries the pod again, and the API server refuses one that is bound"
)


@dataclass
class Binder:
    """Takes part of its time on the loop, where nobody can end it, and the rest beside it."""

    on_loop_s: float
    ends: list[str] = field(default_factory=list)

    async def bind(self, pod: PodKey, node: str, _: Mapping[str, str]) -> None:
        delay(self.on_loop_s)  # As a guest that spins there.
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.ends.append(f"cancelled: {pod} to {node}")
            raise


@pytest.mark.parametrize("on_loop_s", [0.0, BIND_TIMEOUT_S + 1.5], ids=["beside-the-loop", "on-the-loop"])
def test_a_bind_that_takes_too_long_is_ended_and_said_to_be_unknown(tmp_path: Path, on_loop_s: float) -> None:
    binder = Binder(on_loop_s)
    with Inside(tmp_path, profile("default", STEPS), binder=binder, bind_timeout=BIND_TIMEOUT_S) as inside:
        inside.filter("web-7")
        assert inside.bind("web-7") == NOT_KNOWN
        inside.filter("web-8")
        assert binder.ends == ["cancelled: default/web-7 to node-7"]
