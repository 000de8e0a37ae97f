"""CPU time and memory of processes."""

from __future__ import annotations

from collections.abc import Mapping

import psutil


class Usage:
    """What processes take that stay while it is used. They have no children then: ours compiles before it is ready."""

    def __init__(self, processes: Mapping[str, int]) -> None:
        """`processes` are ids by the name that a process has in the figures."""
        self._processes = {name: psutil.Process(pid) for name, pid in processes.items()}
        self._peaks = dict.fromkeys(processes, 0)

    def cpu(self) -> dict[str, float]:
        """Seconds of processor until now, in user and in system mode."""
        times = {name: process.cpu_times() for name, process in self._processes.items()}
        return {name: each.user + each.system for name, each in times.items()}

    def look(self) -> None:
        """Notes how much memory of each process is resident now."""
        for name, process in self._processes.items():
            self._peaks[name] = max(self._peaks[name], process.memory_info().rss)

    def peaks(self) -> Mapping[str, int]:
        """The most bytes that were resident whenever `look` was called."""
        return self._peaks
