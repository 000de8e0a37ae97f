"""Become another program that the kernel kills when the process that started us dies (on Linux).

Usage: launcher.py PARENT_PID PROGRAM [ARGUMENT ...]. A program of its own rather than a `preexec_fn`, which
is unsafe in a process with threads; the process id stays the same.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(parent: int, command: list[str]) -> None:
    """Replace this process by `command`, tied to the life of the process `parent`."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit("the process that asked for this one is gone")
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
