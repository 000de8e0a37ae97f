"""What outlives the process: the revisions of each plugin, their modules, the history of rollouts."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from extender.config.server import DEFAULT_STATE_BYTES
from extender.rollouts.revision import Revision
from extender.rollouts.rollout import Rollout
from extender.rollouts.state.folder import DAMAGE, MEND, Folder, FolderError
from extender.rollouts.state.history import History
from wasm_runtime.blob import Blob
from wasm_runtime.compile import directories
from wasm_runtime.compile.directories import DirectoryError

logger = logging.getLogger(__name__)

T = TypeVar("T")

MAX_REMOVED_S: Final = 7 * 24 * 3600.0
"""Seconds for which what is known of a plugin is kept that was taken out of the configuration; it may come back."""

CLOSE_TIMEOUT_S: Final = 5.0
"""How long the end of the process waits for a disk that hangs."""

MAX_REVISIONS: Final = 10
"""Revisions of a plugin, the active one included, that are kept to go back to."""


class PluginState(msgspec.Struct, rename="camel"):
    """What is known of a plugin of a profile after a restart. The oldest revisions are dropped."""

    active: Revision
    offered: str | None = None
    """The revision that its source gave last, whatever became of it."""
    revisions: list[Revision] = []
    """Those that were active, the newest first, `active` included; at most `MAX_REVISIONS`."""

    def __post_init__(self) -> None:
        self.revisions = self.revisions[:MAX_REVISIONS]

    @property
    def modules(self) -> set[str]:
        """The digests of all modules that it takes."""
        return {revision.module for revision in (self.active, *self.revisions)}


class Store:
    """What a configuration file's process keeps. May be used from any thread.

    It never raises for a fault of the disk: it says it in `problem` and in the log, and the process goes on. A damaged
    file is set aside or removed, which is logged, and counts as absent.
    """

    def __init__(self, files: _StateFiles | None, problem: str | None = None) -> None:
        self._files = files
        self.limit = files.limit if files else 0
        """Bytes of modules beyond which the oldest go that need not be kept."""
        self._lock = threading.Lock()
        self._last_id = 0
        self._id_lock = threading.Lock()  # Who wants a number does not wait for the disk.
        self.problem: str | None = None
        """Why nothing is kept now, and what mends that."""
        if problem:
            self._complain(problem)

    @classmethod
    def open(cls, directory: Path | None, config_file: Path, limit: int = DEFAULT_STATE_BYTES) -> Store:
        """The store of a configuration file, in a folder of its own below a directory, or `default_directory`.

        It is for modules of `limit` bytes.
        """
        try:
            folder = Folder.open(directory or default_directory(), config_file)
        except (FolderError, DirectoryError) as error:
            return cls(None, str(error))
        except OSError as error:
            return cls(None, _describe(error.filename, error))
        except ValueError:
            return cls(None, f"{str(directory)!r} is no path: it holds a NUL; {MEND}")
        except RuntimeError as error:  # There is no home.
            return cls(None, f"{error}; {MEND}")
        store = cls(_StateFiles(folder, limit))
        store._try(_StateFiles.measure, None)
        store._try(lambda files: files.folder.sign(), None)
        store._last_id = store._try(lambda files: files.history.check(), 0)
        return store

    def keep_module(self, module: Blob) -> None:
        """Keeps a module that a PluginState is about to name. Until then `save` does not delete it."""
        self._try(lambda files: files.keep_module(module), None)

    def module(self, digest: str) -> Blob | None:
        """The module of a digest, if it is kept."""
        return self._try(lambda files: files.module(digest), None)

    def save(self, profile: str, plugin: str, state: PluginState) -> None:
        """Keeps what is known of a plugin, durably, and removes modules that nobody names any more.

        What was kept before stays if the active module is not there: it is of more use.
        """

        def save(files: _StateFiles) -> None:
            files.save(_PluginFile(profile, plugin, state))
            self.problem = None

        self._try(save, None)

    def size(self, digest: str) -> int:
        """Bytes of the module of a digest, 0 if it is not kept. Does not wait for the disk."""
        files = self._files
        return files.sizes.get(digest, 0) if files else 0

    def expect(self, places: Collection[tuple[str, str]]) -> None:
        """Says which plugins there are, by profile and name: others go after a while. Does not wait for the disk."""
        if files := self._files:
            files.configured = frozenset(places)

    def load(self, profile: str, plugin: str) -> PluginState | None:
        """What is kept of a plugin."""
        return self._try(lambda files: files.load(profile, plugin), None)

    def append(self, rollout: Rollout) -> None:
        """Adds a rollout as it is now to the history."""
        self._try(lambda files: files.history.append(rollout), None)

    def history(self, limit: int = 100, profile: str | None = None, plugin: str | None = None) -> list[Rollout]:
        """The rollouts that were begun last, the newest first, each as it was added last."""
        return self._try(lambda files: files.history.last(limit, profile, plugin), [])

    def rollout(self, number: int) -> Rollout | None:
        """The rollout of a number, if it is in the history."""
        return self._try(lambda files: files.history.find(number), None)

    def next_id(self) -> int:
        """A number for a rollout, which no other one has had: milliseconds since 1970, or the next one up."""
        with self._id_lock:
            self._last_id = max(self._last_id + 1, time.time_ns() // 1_000_000)
            return self._last_id

    def close(self) -> None:
        """Keeps nothing more, and lets another process do so; while the disk hangs, only the end of ours does."""
        if self._lock.acquire(timeout=CLOSE_TIMEOUT_S):
            try:
                if self._files:
                    self._files.folder.close()
                self._files = None
            finally:
                self._lock.release()

    def _try(self, work: Callable[[_StateFiles], T], otherwise: T) -> T:
        with self._lock:
            if self._files is None:
                return otherwise
            try:
                return work(self._files)
            except OSError as error:
                self._complain(_describe(self._files.folder.path, error))
            except FolderError as error:
                self._complain(self.problem or str(error))  # What it follows from has been said.
            return otherwise

    def _complain(self, problem: str) -> None:
        if problem != self.problem:
            logger.warning("a restart will not know what is live now, nor the history: %s", problem)
        self.problem = problem


class _PluginFile(msgspec.Struct):
    """What a file in `slots` holds."""

    profile: str
    plugin: str
    state: PluginState = msgspec.field(name="kept")
    removed: float | None = None
    """Since when it is not configured any more, in seconds since 1970; None while it is."""

    @property
    def place(self) -> tuple[str, str]:
        """The profile's name and the plugin's."""
        return self.profile, self.plugin


class _StateFiles:
    """The files of a state directory: modules, plugins and the history. Methods raise OSError."""

    def __init__(self, folder: Folder, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self.sizes: dict[str, int] = {}
        """Bytes of each module, by its digest."""
        self.configured: Collection[tuple[str, str]] | None = None
        """The plugins that are; None if that is not known."""
        self.history = History(folder)
        self._modules = folder.path / "modules"
        self._slots = folder.path / "slots"
        self._unnamed: set[str] = set()
        """Modules that no plugin names yet."""

    def measure(self) -> None:
        """Finds out what is there."""
        self.sizes = {f"sha256:{path.stem}": path.stat().st_size for path in self._modules.glob("*.wasm")}

    def keep_module(self, module: Blob) -> None:
        if self.module(module.digest) is None:
            self.folder.write(self._module_path(module.digest), module.content)
        self.sizes[module.digest] = len(module.content)
        self._unnamed.add(module.digest)

    def module(self, digest: str) -> Blob | None:
        path = self._module_path(digest)
        try:
            module = Blob(path.read_bytes())
        except FileNotFoundError:
            return None
        if module.digest == digest:
            return module
        logger.warning("a module that was kept is removed: its digest is wrong", extra={"path": str(path)})
        path.unlink()
        self.sizes.pop(digest, None)
        return None

    def load(self, profile: str, plugin: str) -> PluginState | None:
        found = self._read(self._slot_path(profile, plugin))
        return found.state if found else None

    def save(self, plugin: _PluginFile) -> None:
        """Raises FolderError if the active module is not there."""
        module = self._module_path(plugin.state.active.module)
        if not module.exists():
            raise FolderError(f"{module} is gone; leave the files of a kwx that runs alone")
        self._write(plugin)
        self._unnamed -= plugin.state.modules
        self._sweep()

    def _write(self, plugin: _PluginFile) -> None:
        path = self._slot_path(*plugin.place)
        content = msgspec.json.encode(plugin)
        self.folder.write(path, _checksum(path, content) + content)

    def _sweep(self) -> None:
        """Removes what nobody needs any more, among it what a process that died was about to name."""
        plugins = [plugin for path in self._slots.glob("*.json") if (plugin := self._read(path))]
        named = self._unnamed.union(*(plugin.state.modules for plugin in plugins if self._is_configured(plugin)))
        self._sweep_removed([plugin for plugin in plugins if not self._is_configured(plugin)], named)
        spared = {self._module_path(digest) for digest in named}
        for path in self._modules.iterdir():
            if path not in spared:
                path.unlink()
                self.sizes.pop(f"sha256:{path.stem}", None)

    def _sweep_removed(self, plugins: Sequence[_PluginFile], named: set[str]) -> None:
        """Removes what is kept of plugins that are gone, if it is old or takes too much; else adds to what is named.

        Those that were removed last come first.
        """
        now = time.time()
        for plugin in sorted(plugins, key=lambda plugin: plugin.removed or now, reverse=True):
            if plugin.removed is None:
                plugin.removed = now
                self._write(plugin)
            takes = sum(self.sizes.get(digest, 0) for digest in named | plugin.state.modules)
            if now - plugin.removed >= MAX_REMOVED_S or takes > self.limit:
                self._slot_path(*plugin.place).unlink()
            else:
                named |= plugin.state.modules

    def _is_configured(self, plugin: _PluginFile) -> bool:
        return self.configured is None or plugin.place in self.configured

    def _read(self, path: Path) -> _PluginFile | None:
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        checksum, body = content[:_CHECKSUM], content[_CHECKSUM:]
        if checksum != _checksum(path, body):
            self.folder.set_aside(path, "its checksum is wrong")
            return None
        try:
            return msgspec.json.decode(body, type=_PluginFile)
        except DAMAGE as error:
            self.folder.set_aside(path, str(error))
            return None

    def _module_path(self, digest: str) -> Path:
        return self._modules / f"{digest.removeprefix('sha256:')}.wasm"

    def _slot_path(self, profile: str, plugin: str) -> Path:
        """Not named like the plugin: names may be too long for a file, or `..`, or differ in case only."""
        name = hashlib.sha256(f"{profile}/{plugin}".encode()).hexdigest()
        return self._slots / f"{name}.json"


_CHECKSUM: Final = 65
"""Bytes of a checksum."""


def _checksum(path: Path, content: bytes) -> bytes:
    """The first line of a file: SHA-256 in hex over its name and what follows."""
    return hashlib.sha256(path.name.encode() + content).hexdigest().encode() + b"\n"


def _describe(where: object, error: OSError) -> str:
    return f"{where}: {error.strerror}; {MEND}"


def default_directory() -> Path:
    """`$XDG_STATE_HOME/kwx`, else `~/.local/state/kwx`. Raises RuntimeError if there is no home."""
    return directories.of_user("XDG_STATE_HOME", "~/.local/state") / "kwx"
