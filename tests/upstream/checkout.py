"""The checkout of kube-scheduler-wasm-extension that tests may be given."""

import os
from pathlib import Path

import pytest

CHECKOUT = Path(os.environ.get("KWX_UPSTREAM", ""))

with_checkout = pytest.mark.skipif(
    not os.environ.get("KWX_UPSTREAM"),
    reason="there is no checkout of kube-scheduler-wasm-extension:"
    " git clone https://github.com/kubernetes-sigs/kube-scheduler-wasm-extension, and set KWX_UPSTREAM to its path",
)
