"""Trampoline and driver: made from the tables, and complete."""

import ctypes
import itertools
import re
from importlib import resources
from typing import Any

import pytest
import wasmtime
from wasmtime import _bindings

from tests.wasm_runtime.conftest import Loader
from tests.wasm_runtime.guest_modules import SIGNATURES, binary, export, module, types
from tests.wasm_runtime.world import filter_nodes, once, world
from wasm_runtime import Fault, GuestError, WasmtimeEngine, abi, driver, wasmtime_capi
from wasm_runtime.abi import FunctionType, Import
from wasm_runtime.driver import layout
from wasm_runtime.engine import CallResult, NodeResults
from wasm_runtime.module.binary import interface

FUNCTIONS = list(driver.HOST_FUNCTIONS)


def zeros(function: Import) -> str:
    arguments = " (i32.const 0)" * len(driver.HOST_FUNCTIONS[function].params)
    call = f"(call ${function}{arguments})"
    return f"(drop {call})" if driver.HOST_FUNCTIONS[function].results else call


def test_host_functions_are_those_of_the_abi_and_three_of_wasi() -> None:
    assert [*abi.IMPORTS, *abi.WASI_HERE] == FUNCTIONS


def test_trampoline_exports_every_host_function_with_its_signature(engine: WasmtimeEngine) -> None:
    exports = engine.compile(binary(driver.trampoline())).exports
    assert exports == {
        "imports": "table",
        **{str(function): signature for function, signature in driver.HOST_FUNCTIONS.items()},
    }


def test_driver_defines_every_host_function_with_its_signature() -> None:
    text = resources.files(driver).joinpath("driver.wat").read_text()
    for function, signature in driver.HOST_FUNCTIONS.items():
        (head,) = re.findall(rf"\(func \${re.escape(str(function))}\s([^;]*?)\n    \(", text)
        params = re.findall(r"\(param \$\w+ (\w+)\)", head)
        results = re.findall(r"\(result (\w+)\)", head)
        assert FunctionType(tuple(params), tuple(results)) == signature, function


def test_driver_text_has_no_name_left_to_put_in() -> None:
    assert re.findall(r"[%@]\w+", driver.driver()) == []
    assert interface(binary(driver.driver())).exports == {
        "memory": "memory",
        "call": "memory",
        "snapshot": "memory",
        "index": FunctionType(("i32", "i32")),
        "once": FunctionType(("i32", "i32"), ("i64",)),
        "each": FunctionType(("i32",) * 8, ("i32",)),
        "tell": FunctionType(("i32",) * 4),
        "all": FunctionType(("i32",) * 10, ("i64",)),
    }


def test_driver_elements_are_the_host_functions_in_the_order_of_the_trampoline() -> None:
    (elements,) = re.findall(r"\(elem \(table \$imports\) \(i32.const 0\) func (.*)\)", driver.driver())
    assert elements.split() == [f"${function}" for function in FUNCTIONS]
    assert re.findall(r"\(i32.const (\d+)\)\)\)", driver.trampoline()) == [str(at) for at in range(len(FUNCTIONS))]


@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_each_host_function_can_be_called(load: Loader, function: Import) -> None:
    instance = load.instance(module(export("prefilter", zeros(function), "(i32.const 7)"), uses=[str(function)]))
    assert once(instance, world()) == CallResult(7, 0, "")


def test_a_guest_of_all_imports_and_all_exports_links(load: Loader) -> None:
    others = []
    signatures = {**{name: each.signature for name, each in abi.EXPORTS.items()}, **abi.RESIDENT}
    for name, signature in signatures.items():
        values = " ".join(f"({each}.const 0)" for each in signature.results)
        others.append(f'(func (export "{name}") {types(signature)} {values})' if name != "filter" else "")
    calls = map(zeros, FUNCTIONS)
    guest = module(*others, export("filter", *calls, "(i32.const 0)"), uses=map(str, FUNCTIONS))
    at = world({"node-a": b"A"}, names=["node-a", "unknown"])
    assert filter_nodes(load.plugin(guest), at) == NodeResults(2, b"", [], [])


@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_a_start_section_cannot_call_the_host_and_the_message_names_the_function(
    load: Loader, function: Import
) -> None:
    early = f"(func $early {zeros(function)}) (start $early)"
    with pytest.raises(GuestError) as caught:
        load.instance(module(early, export("filter", "(i32.const 0)"), uses=[str(function)]))
    assert str(caught.value) == f"instantiate: trap: indirect call to null in {function} < early"
    assert caught.value.fault is Fault.TRAP


def test_signatures_of_the_test_guests_are_those_of_the_abi() -> None:
    assert {**SIGNATURES, **{str(name): signature for name, signature in driver.HOST_FUNCTIONS.items()}} == SIGNATURES


def test_nothing_in_the_call_memory_overlaps() -> None:
    areas = [
        ("header", 0, ctypes.sizeof(layout.Header)),
        ("unreadable", layout.UNREADABLE, len("BUG: out of memory reading message")),
        ("null", layout.NULL, len("null")),
        ("heap", layout.HEAP, 0),
    ]
    for (name, at, length), (following, start, _) in itertools.pairwise(areas):
        assert at + length <= start, (name, following)


def test_every_document_has_a_place_in_the_header() -> None:
    end = layout.DOCUMENTS * 4 + 8 * len(abi.HostDocument)
    assert end == ctypes.sizeof(layout.Header)


class OtherFunction:
    """What the generated declaration of the call might become in another release."""

    argtypes: tuple[Any, ...] = wasmtime_capi._ARGUMENTS
    restype: Any = ctypes.POINTER(_bindings.wasmtime_error_t)


class OtherArguments(OtherFunction):
    argtypes = wasmtime_capi._ARGUMENTS[:-1]


class OtherOrder(OtherFunction):
    argtypes = tuple(wasmtime_capi._ARGUMENTS[at] for at in (0, 1, 3, 2, 4))


class OtherResult(OtherFunction):
    restype = None


class OtherUnion:
    _fields_ = (("i32", ctypes.c_int64), ("i64", ctypes.c_int64))


class SmallerUnion:
    _fields_ = (("i32", ctypes.c_int32),)


class TestCheckBindings:
    def test_accepts_the_installed_release(self) -> None:
        wasmtime_capi.check_bindings()

    @pytest.mark.parametrize(
        ("name", "declaration"),
        [
            ("_wasmtime_func_call_unchecked", OtherArguments),
            ("_wasmtime_func_call_unchecked", OtherOrder),
            ("_wasmtime_func_call_unchecked", OtherResult),
            ("wasmtime_val_raw", OtherUnion),
            ("wasmtime_val_raw", SmallerUnion),
        ],
    )
    def test_refuses_a_release_that_declares_them_otherwise(
        self, monkeypatch: pytest.MonkeyPatch, name: str, declaration: type
    ) -> None:
        monkeypatch.setattr(_bindings, name, declaration)
        with pytest.raises(ImportError) as caught:
            wasmtime_capi.check_bindings()
        assert str(caught.value) == (
            "this release of wasmtime declares the calls of its C API in a way that is not known;"
            " install the release that pyproject.toml names"
        )

    def test_a_stand_in_with_the_known_declaration_is_accepted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_bindings, "_wasmtime_func_call_unchecked", OtherFunction)
        wasmtime_capi.check_bindings()


def test_call_has_two_halves(engine: WasmtimeEngine) -> None:
    """Both halves of an i64 arrive as they left, the sign included."""
    store = wasmtime.Store(engine.native)
    store.set_epoch_deadline(1 << 60)
    text = (
        '(module (func (export "same") (param i32 i32) (result i64) (i64.or'
        " (i64.extend_i32_u (local.get 0)) (i64.shl (i64.extend_i32_u (local.get 1)) (i64.const 32)))))"
    )
    exported = wasmtime.Instance(store, wasmtime.Module(engine.native, text), []).exports(store)["same"]
    assert isinstance(exported, wasmtime.Func)
    same = wasmtime_capi.Function(store, exported, 2)
    for low in (0, 1, -1, 2**31 - 1, -(2**31), 2**32 - 1):
        for high in (0, 1, -1, 2**31 - 1, -(2**31)):
            assert same(low, high) == (high << 32) | (low & 0xFFFF_FFFF)
    store.close()
