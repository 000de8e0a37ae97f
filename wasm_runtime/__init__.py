"""Runs guests of kube-scheduler-wasm-extension. Usable alone: knows no HTTP and no Kubernetes client.

engine = WasmtimeEngine()
plugin = Plugin(engine, wasm, Settings("nodenumber"))
nodes = Nodes(node_table, names)
with plugin.guest(pod, nodes, "filter") as (guest, deadline):
    results = guest.filter(nodes, deadline)
"""

from wasm_runtime.engine import Settings
from wasm_runtime.engines.wasmtime import WasmtimeEngine
from wasm_runtime.errors import Fault, GuestError, ModuleError
from wasm_runtime.guests.guest import Guest, Pod
from wasm_runtime.guests.plugin import Plugin
from wasm_runtime.nodes.node_table import Nodes, NodeTable

__all__ = [
    "Fault",
    "Guest",
    "GuestError",
    "ModuleError",
    "NodeTable",
    "Nodes",
    "Plugin",
    "Pod",
    "Settings",
    "WasmtimeEngine",
]
