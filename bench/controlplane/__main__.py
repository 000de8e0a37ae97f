"""Build the control plane and kube-schedulers, and print where they are: `python -m bench.controlplane [MINOR …]`."""

import signal
import sys
from types import FrameType
from typing import NoReturn

from .binaries import NEWEST, SCHEDULERS, build
from .gobuild import BuildError


def leave(number: int, _: FrameType | None) -> NoReturn:
    """Ends what runs, a build included."""
    sys.exit(128 + number)


signal.signal(signal.SIGTERM, leave)
minors = sys.argv[1:] or [NEWEST]
if unknown := set(minors) - SCHEDULERS.keys():
    sys.exit(f"no supported kube-scheduler: {', '.join(sorted(unknown))}; there are {', '.join(SCHEDULERS)}")
try:
    found = [build(minor) for minor in minors]
except BuildError as error:
    sys.exit(str(error))
print(found[0].directory, *(binaries.kube_scheduler for binaries in found), sep="\n")
