"""The clock and the memory of a guest, looked at around each call: wasmer interrupts no guest and bounds none."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from wasm_runtime.engine import MEBIBYTE, Settings
from wasm_runtime.engines.wasmer.host import Host
from wasm_runtime.engines.wasmer.trap import describe
from wasm_runtime.engines.wasmer.wasi import ExitError
from wasm_runtime.errors import NO_NODE_DATA, Fault, GuestError

T = TypeVar("T")


class Guard:
    """Runs what is the guest's, and says what went wrong."""

    def __init__(self, host: Host, settings: Settings) -> None:
        self._host = host
        self._settings = settings

    def run(self, export: str, deadline: float, does: Callable[[], T]) -> T:
        """Runs something, and looks at memory and clock afterwards. Raises GuestError."""
        memory = self._host.memory
        try:
            result = does()
        except (RuntimeError, ExitError) as error:
            raise self._guest_error(export, error) from None
        finally:
            memory.rest()
        if len(memory) > self._settings.memory_limit:
            raise GuestError(Fault.MEMORY, export, self._held)
        if time.monotonic() > deadline:
            cause = f"returned after {self._timeout}: wasmer interrupts no guest"
            raise GuestError(Fault.DEADLINE, export, cause, fatal=False)
        return result

    def check_time(self, export: str, deadline: float) -> None:
        """Raises GuestError if there is no time left to call the guest."""
        if time.monotonic() > deadline:
            cause = f"not called: {self._timeout} was over"
            raise GuestError(Fault.DEADLINE, export, cause, node=self._host.node.decode(), fatal=False)

    @property
    def _timeout(self) -> str:
        return f"its timeout of {self._settings.timeout * 1000:.0f} ms"

    @property
    def _held(self) -> str:
        used, limit = len(self._host.memory), self._settings.memory_limit
        return f"its memory has grown to {used // MEBIBYTE} of {limit // MEBIBYTE} MiB"

    def _guest_error(self, export: str, error: Exception) -> GuestError:
        host, failure = self._host, describe(error)
        node, output = host.node.decode(), str(host.output)
        if host.is_data_absent:
            return GuestError(Fault.NO_NODE_DATA, export, NO_NODE_DATA, node=node, fatal=True)
        if isinstance(host.error, MemoryError):
            return GuestError(Fault.LIMIT, export, beyond(host.error), node=node, output=output, fatal=True)
        if failure.fault is Fault.TRAP and 2 * len(host.memory) >= self._settings.memory_limit:
            failure = failure._replace(fault=Fault.MEMORY, cause=f"{failure.cause}; {self._held}")
        return GuestError(
            failure.fault,
            export,
            failure.cause,
            node=node,
            output=output,
            exit_code=failure.exit_code,
            trap=failure.trap,
        )


def beyond(error: MemoryError) -> str:
    """What is wrong where the host runs out of what it takes."""
    return f"more than the host gives or takes in one call: {error}"
