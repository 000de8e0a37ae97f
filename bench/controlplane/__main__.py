"""Build the control plane and kube-schedulers, and print where they are: `python -m bench.controlplane [MINOR …]`."""

import sys

from .binaries import NEWEST, SCHEDULERS, build
from .gobuild import BuildError

minors = sys.argv[1:] or [NEWEST]
if unknown := set(minors) - SCHEDULERS.keys():
    sys.exit(f"no supported kube-scheduler: {', '.join(sorted(unknown))}; there are {', '.join(SCHEDULERS)}")
try:
    found = [build(minor) for minor in minors]
except BuildError as error:
    sys.exit(str(error))
print(found[0].directory, *(binaries.kube_scheduler for binaries in found), sep="\n")
