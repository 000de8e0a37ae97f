"""Where plugins are made of modules."""

from __future__ import annotations

import stat
from pathlib import Path

from extender.config import PluginConfig, RuntimeConfig
from extender.profile import mend
from extender.registry.engines import EngineError, Engines
from wasm_runtime.abi import Severity
from wasm_runtime.engine import Handle, Settings
from wasm_runtime.errors import GuestError, ModuleError
from wasm_runtime.plugin import Observer, Plugin, Sink, digest
from wasm_runtime.snapshot import Snapshot


class LoadError(Exception):
    """A plugin's module cannot be used. Has every reason."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class Workshop:
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
        self._module_limit = settings.module_limit
        self._sink = sink
        self._observer = observer
        self._handle = handle

    def read(self, path: Path) -> bytes:
        """The module in a file. Raises LoadError."""
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise LoadError([f"{path} is no regular file; name a .wasm file"])
            if status.st_size > self._module_limit:
                raise LoadError([f"{path} has {status.st_size} bytes, runtime.moduleLimit allows {self._module_limit}"])
            return path.read_bytes()
        except ValueError as error:
            raise LoadError([f"{str(path)!r} is no path: it holds a NUL"]) from error
        except OSError as error:
            hint = "; build it or mend the path" if isinstance(error, FileNotFoundError) else ""
            raise LoadError([f"{path} cannot be read: {error.strerror}{hint}"]) from error

    def make(self, wasm: bytes, path: Path, plugin: PluginConfig, nodes: Snapshot | None = None) -> Plugin:
        """A plugin that has started, and whose guest knows the nodes if there are any. Raises LoadError."""
        if plugin.digest and digest(wasm) != plugin.digest:
            raise LoadError([f"{path} has digest {digest(wasm)}, the configuration allows only {plugin.digest}"])
        try:
            made = Plugin(
                self._engines.get(plugin.engine),
                wasm,
                _settings(plugin),
                extension_points=plugin.extension_points,
                sink=self._sink,
                observer=self._observer,
                handle=self._handle,
                nodes=nodes,
            )
        except EngineError as error:
            raise LoadError([f"cannot run on engine {plugin.engine}: {error}"]) from error
        except ModuleError as error:
            raise LoadError([f"{path} {problem}" for problem in error.problems]) from error
        except GuestError as error:
            raise LoadError([f"{path} does not start: {error}{mend(error)}"]) from error
        if plugin.extension_points is not None and not made.exports:
            made.close()
            points = ", ".join(plugin.extension_points) or "none"
            raise LoadError([f"{path} has nothing to call at the extensionPoints that are given ({points})"])
        return made

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
