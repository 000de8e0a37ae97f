"""Makes plugins of modules."""

from __future__ import annotations

from typing import NamedTuple

from extender.config import PluginConfig, RuntimeConfig
from extender.rollouts.engines import EngineError, Engines
from extender.scheduling.profile import mend
from wasm_runtime.abi import Severity
from wasm_runtime.blob import Blob
from wasm_runtime.engine import Handle, Settings
from wasm_runtime.errors import GuestError, ModuleError
from wasm_runtime.guests.plugin import Observer, Plugin, Sink
from wasm_runtime.nodes.node_table import NodeTable


class LoadError(Exception):
    """A plugin's module cannot be used. Has every reason."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class _Outside(NamedTuple):
    """What guests have to do with the rest of the process."""

    sink: Sink = lambda *_: None
    observer: Observer = lambda *_: None
    handle: Handle | None = None


class PluginFactory:
    """Makes plugins of modules, for a process with its limits, its log and its pods that wait."""

    def __init__(
        self,
        settings: RuntimeConfig,
        sink: Sink = lambda *_: None,
        observer: Observer = lambda *_: None,
        handle: Handle | None = None,
    ) -> None:
        """Raises CacheError or EngineError."""
        self._engines = Engines(settings)
        self.module_limit = settings.module_limit
        """Bytes of a module."""
        self._outside = _Outside(sink, observer, handle)

    def make(
        self, module: Blob, origin: str, plugin: PluginConfig, nodes: NodeTable | None = None, *, trial: bool = False
    ) -> Plugin:
        """A plugin that has started, and whose guest knows the nodes if there are any. Raises LoadError.

        What guests of a `trial` log and record goes nowhere, nor is it measured, and they have no say over pods that
        wait. `origin` is what the messages begin with.
        """
        outside = _Outside() if trial else self._outside
        try:
            made = Plugin(
                self._engines.get(plugin.engine),
                module,
                _settings(plugin),
                extension_points=plugin.extension_points,
                sink=outside.sink,
                observer=outside.observer,
                handle=outside.handle,
                nodes=nodes,
            )
        except EngineError as error:
            raise LoadError([f"cannot run on engine {plugin.engine}: {error}"]) from error
        except ModuleError as error:
            raise LoadError([f"{origin} {problem}" for problem in error.problems]) from error
        except GuestError as error:
            raise LoadError([f"{origin} does not start: {error}{mend(error)}"]) from error
        if plugin.extension_points is not None and not made.exports:
            made.close()
            points = ", ".join(plugin.extension_points) or "none"
            raise LoadError([f"{origin} has nothing to call at the extensionPoints that are given ({points})"])
        return made

    def clone(self, plugin: Plugin, nodes: NodeTable, *, trial: bool = False) -> Plugin:
        """Another plugin of the same module and settings, with guests of its own. Raises LoadError."""
        try:
            return plugin.clone(*(_Outside() if trial else self._outside), nodes=nodes)
        except GuestError as error:
            raise LoadError([f"plugin {plugin.name} does not start: {error}{mend(error)}"]) from error

    def close(self) -> None:
        """Ends what is being compiled; it raises LoadError where that was asked for."""
        self._engines.close()


def _settings(plugin: PluginConfig) -> Settings:
    return Settings(
        name=plugin.name,
        config=plugin.guest_config,
        args=plugin.args,
        log_severity=Severity(plugin.log_severity),
        memory_limit=plugin.memory_limit,
        table_limit=plugin.table_limit,
        output_limit=plugin.output_limit,
        timeout=plugin.timeout,
        instances=plugin.instances,
    )
