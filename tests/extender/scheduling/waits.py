"""Waits on Permit without guests: the test says what plugins would."""

from __future__ import annotations

from collections.abc import Callable

from extender.scheduling.bind import BindingCycle
from extender.scheduling.binding_guests import Binding
from wasm_runtime.guests.guest import Pod
from wasm_runtime.nodes.node_table import Nodes, NodeTable

LONG = 60.0
"""Seconds that no test waits for."""

NODES = NodeTable()


def pod(name: str) -> Pod:
    return Pod(f"uid-of-{name}", f"default/{name}", name.encode())


class Cycle(BindingCycle):
    """A binding cycle at Permit, whose plugins answer what `says` gives, by the plugin's name."""

    def __init__(self, name: str, says: Callable[[str], bool | None] = lambda _: False, deadline: float = 1e9) -> None:
        """The plugin `asked-once` is not asked again."""
        self.binding = Binding(pod(name), Nodes(NODES, ["node-1"]), deadline)
        self._says = says

    def asks_again(self, plugin: str) -> bool:
        return plugin != "asked-once"

    def permit_again(self, plugin: str, is_over: Callable[[], bool]) -> bool | None:
        return None if is_over() else self._says(plugin)
