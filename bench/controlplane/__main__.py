"""Build the control plane and print where it is."""

import sys

from .binaries import build
from .gobuild import BuildError

try:
    print(build().directory)
except BuildError as error:
    sys.exit(str(error))
