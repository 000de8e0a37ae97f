"""wasmer is an extra that nobody has to have."""

import importlib
import subprocess
import sys

import pytest

from tests.patience import PATIENCE_S

PACKAGE = "wasm_runtime.engines.wasmer"

WITHOUT_IT = (
    "engine wasmer needs CPython 3.10 and the packages of the extra `wasmer`"
    " (pip install 'kube-wasm-extender[wasmer]'); on any other Python use engine: wasmtime"
)


@pytest.mark.parametrize("missing", ["wasmer", "wasmer_compiler_cranelift"])
def test_without_its_packages_an_import_says_what_to_do(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    for name in [name for name in sys.modules if name.startswith(PACKAGE)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError) as caught:
        importlib.import_module(PACKAGE)
    assert str(caught.value) == WITHOUT_IT


def test_nothing_else_imports_it() -> None:
    imports = "import sys, wasm_runtime, extender.commands.cli, extender.serve.process"
    program = f"{imports}; print([n for n in sys.modules if 'wasmer' in n])"
    assert (
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE_S
        ).stdout
        == "[]\n"
    )
