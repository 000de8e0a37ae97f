"""The functions of WASI preview 1.

Source: https://github.com/WebAssembly/WASI/blob/main/legacy/preview1/witx/wasi_snapshot_preview1.witx
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from wasm_runtime.abi import WASI, FunctionType, Import

_PARAMETERS: Final = {
    "args_get": "ii",
    "args_sizes_get": "ii",
    "clock_res_get": "ii",
    "clock_time_get": "iIi",
    "environ_get": "ii",
    "environ_sizes_get": "ii",
    "fd_advise": "iIIi",
    "fd_allocate": "iII",
    "fd_close": "i",
    "fd_datasync": "i",
    "fd_fdstat_get": "ii",
    "fd_fdstat_set_flags": "ii",
    "fd_fdstat_set_rights": "iII",
    "fd_filestat_get": "ii",
    "fd_filestat_set_size": "iI",
    "fd_filestat_set_times": "iIIi",
    "fd_pread": "iiiIi",
    "fd_prestat_dir_name": "iii",
    "fd_prestat_get": "ii",
    "fd_pwrite": "iiiIi",
    "fd_read": "iiii",
    "fd_readdir": "iiiIi",
    "fd_renumber": "ii",
    "fd_seek": "iIii",
    "fd_sync": "i",
    "fd_tell": "ii",
    "fd_write": "iiii",
    "path_create_directory": "iii",
    "path_filestat_get": "iiiii",
    "path_filestat_set_times": "iiiiIIi",
    "path_link": "iiiiiii",
    "path_open": "iiiiiIIii",
    "path_readlink": "iiiiii",
    "path_remove_directory": "iii",
    "path_rename": "iiiiii",
    "path_symlink": "iiiii",
    "path_unlink_file": "iii",
    "poll_oneoff": "iiii",
    "proc_exit": "i",
    "proc_raise": "i",
    "random_get": "ii",
    "sched_yield": "",
    "sock_accept": "iii",
    "sock_recv": "iiiiii",
    "sock_send": "iiiii",
    "sock_shutdown": "ii",
}
"""A letter a parameter: `i` is an i32, `I` an i64."""

_TYPES: Final = {"i": "i32", "I": "i64"}
_RESULTS: Final[Mapping[str, tuple[str, ...]]] = {"proc_exit": ()}
"""Of those functions that return no error number."""

FUNCTIONS: Final[Mapping[Import, FunctionType]] = {
    Import(WASI, name): FunctionType(tuple(map(_TYPES.__getitem__, letters)), _RESULTS.get(name, ("i32",)))
    for name, letters in _PARAMETERS.items()
}
"""Every one, as a guest imports it."""
