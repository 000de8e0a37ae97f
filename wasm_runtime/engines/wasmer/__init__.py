"""The wasmer engine, for CPython 3.10: host functions in Python, and next to no limits."""

try:
    import wasmer  # noqa: F401
    import wasmer_compiler_cranelift  # noqa: F401
except ImportError as error:
    raise ImportError(
        "engine wasmer needs CPython 3.10 and the packages of the extra `wasmer`"
        " (pip install 'kube-wasm-extender[wasmer]'); on any other Python use engine: wasmtime"
    ) from error

from wasm_runtime.engines.wasmer.engine import WasmerEngine

__all__ = ["WasmerEngine"]
