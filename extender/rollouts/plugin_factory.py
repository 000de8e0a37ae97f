"""Makes plugins of modules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from extender.config import PluginConfig, Replicas, RuntimeConfig, guest_schema
from extender.rollouts.engines import EngineError, Engines
from extender.scheduling.profile import mend
from extender.scheduling.verbs import VERBS
from wasm_runtime.abi import Severity
from wasm_runtime.blob import Blob
from wasm_runtime.engine import Handle, Settings
from wasm_runtime.errors import GuestError, ModuleError
from wasm_runtime.guests.plugin import Observer, Plugin, Sink
from wasm_runtime.module import metadata
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
        replicas: Replicas = Replicas.NONE,
    ) -> None:
        """Raises CacheError or EngineError."""
        self._replicas = replicas
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
        except GuestError as error:  # It may have read what its schema does not allow: that says more.
            problems = config_problems(module, origin, plugin.guest_config)
            raise LoadError(problems or [f"{origin} does not start: {error}{mend(error)}"]) from error
        if problems := config_problems(module, origin, plugin.guest_config):
            made.close()
            raise LoadError(problems)
        if plugin.extension_points is not None and not made.exports:
            made.close()
            points = ", ".join(plugin.extension_points) or "none"
            raise LoadError([f"{origin} has nothing to call at the extensionPoints that are given ({points})"])
        if self._replicas is Replicas.SHARED and (parts := list(_stateful_parts(made))):
            made.close()
            raise LoadError(
                [
                    f"{origin} cannot serve with server.replicas: shared, where each verb may reach another replica:"
                    f" {'; '.join(parts)}. Give each kube-scheduler an extender of its own, with replicas: standby"
                ]
            )
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


def _stateful_parts(plugin: Plugin) -> Iterator[str]:
    """What of a plugin needs to know what earlier verbs have answered."""
    if points := [export for export in VERBS["bind"].exports if plugin.runs(export)]:
        yield f"it has a part in binding ({', '.join(points)})"
    if plugin.wants_pods or plugin.wants_groups:
        yield "it counts pods, and one replica does not know what another has just answered"


def config_problems(module: Blob, origin: str, guest_config: str) -> list[str]:
    """What a valid module's own schema does not allow in a guestConfig; nothing where it has none."""
    try:
        schema = bytes(metadata.read(module.content).config_schema)
        found = guest_schema.problems(guest_schema.read(schema), guest_config) if schema else []
    except ModuleError as error:
        return [f"{origin} {problem}" for problem in error.problems]
    except guest_schema.SchemaError as error:
        return [f"{origin} has a schema of its guestConfig that cannot be used: {error}"]
    return [f"{origin} does not accept this guestConfig: {problem}" for problem in found]


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
