from __future__ import annotations

import os
import socket
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender import config
from extender.config import (
    Address,
    ConfigError,
    FailurePolicy,
    PluginConfig,
    RuntimeConfig,
    SourceConfig,
    SwapConfig,
    TlsConfig,
)
from extender.rollouts import load
from tests.extender import guests, kwx
from wasm_runtime.abi import Severity
from wasm_runtime.blob import digest

HEAD = "apiVersion: kwx.dev/v1alpha1\nkind: ExtenderConfiguration\n"
NODENUMBER = digest(guests.module("nodenumber"))
SCHEMES = "expected a URL that begins with one of file://, http://, https://, oci://"
ZEROS = f"sha256:{'0' * 64}"

MODULES = (
    "error_status",
    "no_extension_point",
    "no_memory",
    "reject",
    "trap_at_start",
    "unknown_import",
    "wrong_signature",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Modules of all kinds, to be named by configurations beside them."""
    folder = tmp_path_factory.mktemp("config")
    for name in MODULES:
        guests.build(name, folder)
    whole = guests.module("nodenumber")
    (folder / "nodenumber.wasm").write_bytes(whole)
    (folder / "half.wasm").write_bytes(whole[: len(whole) // 2])
    (folder / "empty.wasm").write_bytes(b"")
    (folder / "text.wasm").write_bytes(b"hello")
    (folder / "component.wasm").write_bytes(b"\0asm\x0d\0\x01\0")
    (folder / "folder.wasm").mkdir()
    (folder / "modules").mkdir()
    (folder / "modules" / "score.wasm").write_bytes(whole)
    return folder


def of_plugins(*plugins: str) -> str:
    """A configuration with one profile of plugins, each as a mapping in YAML's flow style."""
    return f"{HEAD}profiles:\n- name: default\n  plugins:\n" + "".join(f"  - {{{plugin}}}\n" for plugin in plugins)


def of_module(name: str, more: str = "") -> str:
    """A configuration with the plugin `p` of a module beside it."""
    return of_plugins(f"name: p, guestURL: 'file://./{name}.wasm'{more}")


def with_setting(setting: str) -> str:
    """A configuration with one plugin that has a setting."""
    if setting.startswith("guestURL: "):
        return of_module("nodenumber").replace("guestURL: 'file://./nodenumber.wasm'", setting)
    return of_module("nodenumber", f", {setting}")


GOOD = of_module("nodenumber")
PLUGIN = "profiles[0].plugins[0]"
EXPORTS = (
    "enqueue, prefilter, addpod, removepod, filter, postfilter, prescore, score, normalizescore, reserve,"
    " bindingannotations, unreserve, permit, prebind, bind, postbind"
)
POINTS = "enqueue, preFilter, filter, postFilter, preScore, score, reserve, permit, preBind, bind, postBind"

REFUSED: dict[str, tuple[str, list[str]]] = {
    "unknown key at the top": (f"{GOOD}profile: []\n", ["profile: unknown key; did you mean profiles?"]),
    "unknown key of a section": (
        f"{GOOD}server: {{adress: 'localhost:1'}}\n",
        ["server.adress: unknown key; did you mean address?"],
    ),
    "unknown key of a plugin": (
        with_setting("guestUrl: x"),
        [f"{PLUGIN}.guestUrl: unknown key; did you mean guestURL?"],
    ),
    "wrong types": (
        with_setting("weight: heavy, args: a, timeout: 5, failurePolicy: 7, logSeverity: []"),
        [
            f"{PLUGIN}.args: expected a list, found 'a'",
            f"{PLUGIN}.logSeverity: input should be 0, 1, 2 or 3, found []",
            f"{PLUGIN}.weight: input should be a valid integer, found 'heavy'",
            f"{PLUGIN}.failurePolicy: input should be 'Fail' or 'Ignore', found 7",
            f"{PLUGIN}.timeout: expected a duration such as 500ms or 2s, at most 1h, found 5",
        ],
    ),
    "another digest than the pin": (
        with_setting(f"digest: '{ZEROS}'"),
        [
            f"{PLUGIN}.guestURL: plugin p: {{folder}}/nodenumber.wasm has digest {NODENUMBER},"
            f" the configuration allows only {ZEROS}"
        ],
    ),
    "names that come twice": (
        f"""{HEAD}profiles:
- {{name: a, plugins: [{{name: p, guestURL: 'file://nodenumber.wasm'}}, {{name: p, guestURL: 'file://nodenumber.wasm'}}]}}
- {{name: b, plugins: [{{name: p, guestURL: 'file://nodenumber.wasm'}}]}}
- {{name: a, plugins: [{{name: q, guestURL: 'file://nodenumber.wasm'}}, {{name: r, guestURL: 'file://nodenumber.wasm'}}]}}
""",
        [
            "profiles: names must differ, found a more than once",
            "profiles[0].plugins: names must differ, found p more than once",
        ],
    ),
    "no plugins": (
        f"{HEAD}profiles:\n- {{name: a, plugins: []}}\n- {{name: b}}\n",
        ["profiles[0].plugins: expected at least one item, found []", "profiles[1].plugins: is required"],
    ),
    "bad YAML": (
        "profiles:\n\t- name: a\n",
        [
            "is no YAML: while scanning for the next token found character '\\t' that cannot start any token"
            ' in "<unicode string>", line 2, column 1: - name: a ^'
        ],
    ),
    "every kind of module at once": (
        of_plugins(
            *(
                f"name: {name}, guestURL: 'file://{name}.wasm'"
                for name in ("nope", "folder", "no_memory", "nodenumber")
            ),
            "name: pinned, guestURL: 'file://nodenumber.wasm', digest: '" + ZEROS + "'",
            *(f"name: {name}, guestURL: 'file://{name}.wasm'" for name in ("wrong_signature", "unknown_import")),
            *(
                f"name: {name}, guestURL: 'file://{name}.wasm'"
                for name in ("no_extension_point", "trap_at_start", "text")
            ),
        ),
        [
            f"{PLUGIN}.guestURL: plugin nope: {{folder}}/nope.wasm cannot be read:"
            " No such file or directory; build it or mend the path",
            "profiles[0].plugins[1].guestURL: plugin folder: {folder}/folder.wasm is no regular file;"
            " name a .wasm file",
            "profiles[0].plugins[2].guestURL: plugin no_memory: {folder}/no_memory.wasm exports no memory named"
            " 'memory': the host hands everything to a guest through it",
            f"profiles[0].plugins[4].guestURL: plugin pinned: {{folder}}/nodenumber.wasm has digest {NODENUMBER},"
            f" the configuration allows only {ZEROS}",
            "profiles[0].plugins[5].guestURL: plugin wrong_signature: {folder}/wrong_signature.wasm exports filter as"
            " () -> (i64), the ABI has () -> (i32)",
            "profiles[0].plugins[5].guestURL: plugin wrong_signature: {folder}/wrong_signature.wasm exports score as"
            " () -> (i32), the ABI has () -> (i64)",
            "profiles[0].plugins[6].guestURL: plugin unknown_import: {folder}/unknown_import.wasm imports"
            " k8s.io/scheduler/currentPodName, which the host does not have; the nearest that it has is"
            " k8s.io/scheduler/currentNodeName",
            "profiles[0].plugins[6].guestURL: plugin unknown_import: {folder}/unknown_import.wasm imports"
            " k8s.io/klog/severity as () -> (i64), the host has () -> (i32)",
            "profiles[0].plugins[7].guestURL: plugin no_extension_point: {folder}/no_extension_point.wasm exports no"
            f" extension point; it needs at least one of {EXPORTS}",
            "profiles[0].plugins[8].guestURL: plugin trap_at_start: {folder}/trap_at_start.wasm does not start:"
            " _initialize: trap: unreachable in func[0]",
            "profiles[0].plugins[9].guestURL: plugin text: {folder}/text.wasm is no valid WebAssembly module:"
            " begins with b'hell', not with b'\\x00asm'",
        ],
    ),
    "top nodes": (
        f"""
{HEAD}
profiles:
- {{name: none, topNodes: 0, plugins: [{{name: a, guestURL: 'file://./nodenumber.wasm'}}]}}
- {{name: many, topNodes: 101, plugins: [{{name: a, guestURL: 'file://./nodenumber.wasm'}}]}}
- {{name: text, topNodes: '1', plugins: [{{name: a, guestURL: 'file://./nodenumber.wasm'}}]}}
""",
        [
            "profiles[0].topNodes: input should be greater than or equal to 1, found 0",
            "profiles[1].topNodes: input should be less than or equal to 100, found 101",
            "profiles[2].topNodes: input should be a valid integer, found '1'",
        ],
    ),
    "top nodes without a score": (
        f"""
{HEAD}
profiles:
- {{name: scores, topNodes: 1, plugins: [{{name: a, guestURL: 'file://./nodenumber.wasm'}}]}}
- {{name: filters, topNodes: 1, plugins: [{{name: a, guestURL: 'file://./reject.wasm'}}]}}
""",
        [
            "profiles[1].topNodes: the best nodes are chosen by score, and no plugin of profile filters scores: leave"
            " out topNodes, or have a plugin that exports score (see kwx inspect) and whose extensionPoints do not"
            " leave it out",
        ],
    ),
    "results of a simulator": (
        f"""
{HEAD}
server: {{decisions: 0}}
profiles:
- {{name: a, simulatorResults: true, plugins: [{{name: a, guestURL: 'file://./nodenumber.wasm'}}]}}
""",
        [
            "profiles[0].simulatorResults: they come with a bind; set cluster.mode to kubeconfig, in-cluster or"
            " dry-run",
            "profiles[0].simulatorResults: they are made of decisions, of which server.decisions keeps none; set it to"
            " 1 or more",
        ],
    ),
    "everything at once": (
        f"""
kind: Extender
server: {{address: here, maxRequestBytes: lots, port: 8888, bindTimeout: soon}}
runtime: {{stackLimit: 1Ki, modulLimit: 1Mi, compileTimeout: 0s}}
cluster: {{mode: nowhere}}
profiles:
- name: default
  scoreRange: 50
  plugins:
  - {{name: a, guestURL: 'file://./nope.wasm', weigth: 3}}
  - {{name: b, guestURL: 'file://./no_memory.wasm', digest: short}}
  - {{name: b, guestURL: 'file://./nodenumber.wasm', digest: '{ZEROS}'}}
  - {{name: c, instances: 0, tableLimit: many, outputLimit: 1}}
  - {{name: 'd e', guestURL: ftp://example.org/d.wasm, extensionPoints: [Filter]}}
""",
        [
            "apiVersion: is required",
            "kind: input should be 'ExtenderConfiguration', found 'Extender'",
            "server.address: expected an address such as 127.0.0.1:8888, found 'here'",
            "server.maxRequestBytes: expected a size such as 256Mi, found 'lots'",
            "server.bindTimeout: expected a duration such as 500ms or 2s, at most 1h, found 'soon'",
            "server.port: unknown key",
            "runtime.stackLimit: input should be greater than or equal to 65536, found '1Ki'",
            "runtime.compileTimeout: expected a duration such as 500ms or 2s, at most 1h, found '0s'",
            "runtime.modulLimit: unknown key; did you mean moduleLimit?",
            "cluster.mode: input should be 'none', 'dry-run', 'kubeconfig' or 'in-cluster', found 'nowhere'",
            "profiles[0].scoreRange: input should be 10 or 100, found 50",
            f"{PLUGIN}.weigth: unknown key; did you mean weight?",
            "profiles[0].plugins[1].digest: string should match pattern '^sha256:[0-9a-f]{{64}}$', found 'short'",
            "profiles[0].plugins[3].guestURL: is required",
            "profiles[0].plugins[3].tableLimit: input should be a valid integer, found 'many'",
            "profiles[0].plugins[3].outputLimit: input should be greater than or equal to 1024, found 1",
            "profiles[0].plugins[3].instances: input should be greater than or equal to 1, found 0",
            "profiles[0].plugins[4].name: string should match pattern"
            " '^[A-Za-z0-9]([A-Za-z0-9._-]{{0,61}}[A-Za-z0-9])?$', found 'd e'",
            "profiles[0].plugins[4].guestURL: expected a URL that begins with one of file://, http://, https://, oci://,"
            " found 'ftp://example.org/d.wasm'",
            f"profiles[0].plugins[4].extensionPoints: 'Filter' is no extension point; expected {POINTS}",
            "profiles[0].plugins: names must differ, found b more than once",
            f"{PLUGIN}.guestURL: plugin a: {{folder}}/nope.wasm cannot be read:"
            " No such file or directory; build it or mend the path",
            "profiles[0].plugins[1].guestURL: plugin b: {folder}/no_memory.wasm exports no memory named 'memory':"
            " the host hands everything to a guest through it",
            f"profiles[0].plugins[2].guestURL: plugin b: {{folder}}/nodenumber.wasm has digest {NODENUMBER},"
            f" the configuration allows only {ZEROS}",
        ],
    ),
}
"""What is wrong with a file, the file, and every problem that is named at once."""

THROUGH_SERVE = (
    "unknown key of a plugin",
    "wrong types",
    "another digest than the pin",
    "names that come twice",
    "bad YAML",
    "every kind of module at once",
    "everything at once",
)
"""Files that are given to the command too; together they have every kind of problem."""


def written(folder: Path, name: str) -> Path:
    file = folder / f"{name.replace(' ', '-')}.yaml"
    file.write_text(REFUSED[name][0])
    return file


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_is_refused_with_all_its_problems(folder: Path, name: str) -> None:
    file = written(folder, name)
    with pytest.raises(ConfigError) as refused:
        load(file)
    assert list(refused.value.problems) == [problem.format(folder=folder) for problem in REFUSED[name][1]]


def test_serve_says_all_problems_and_ends_with_status_1(folder: Path) -> None:
    def serve(name: str) -> list[str]:
        file = written(folder, name)
        return list(kwx.problems(kwx.run("serve", "--config", file, home=folder), file))

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as executor:
        for name, problems in zip(THROUGH_SERVE, executor.map(serve, THROUGH_SERVE), strict=True):
            assert problems == [problem.format(folder=folder) for problem in REFUSED[name][1]]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"\xff\xfe", "cannot be read: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    ],
)
def test_serve_refuses_what_is_no_text_file(tmp_path: Path, content: bytes | None, problem: str) -> None:
    file = tmp_path / "extender.yaml"
    if content is not None:
        file.write_bytes(content)
    assert kwx.problems(kwx.run("serve", "--config", file, home=tmp_path), file) == [problem]


@pytest.mark.parametrize("key", ["address", "adminAddress"])
def test_serve_refuses_a_port_that_is_in_use(folder: Path, key: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        file = folder / f"{key}-in-use.yaml"
        server = {"address": "127.0.0.1:0", "adminAddress": "127.0.0.1:0"} | {key: taken}
        file.write_text(f"{GOOD}server: {server}\n")
        result = kwx.run("serve", "--config", file, home=folder)
    assert kwx.problems(result, file) == [f"server.{key}: cannot listen on {taken}: Address already in use"]


def test_serve_refuses_an_address_of_another_machine(folder: Path) -> None:
    file = folder / "elsewhere.yaml"
    file.write_text(f"{GOOD}server: {{address: '127.0.0.1:0', adminAddress: '192.0.2.1:8888'}}\n")
    result = kwx.run("serve", "--config", file, home=folder)
    assert kwx.problems(result, file) == [
        "server.adminAddress: cannot listen on 192.0.2.1:8888: Cannot assign requested address"
    ]


def test_serve_refuses_a_kubeconfig_that_is_not_there(folder: Path) -> None:
    file = folder / "cluster.yaml"
    file.write_text(
        f"{GOOD}server: {{address: '127.0.0.1:0', adminAddress: '127.0.0.1:0'}}\n"
        f"cluster: {{mode: kubeconfig, kubeconfig: {folder}/nope}}\n"
    )
    result = kwx.run("serve", "--config", file, home=folder)
    assert (result.returncode, result.stdout, result.stderr) == (
        1,
        "",
        f"kwx: {file}: cluster.kubeconfig: kubeconfig {folder}/nope does not exist:"
        " set cluster.kubeconfig to a file that does, or cluster.mode to in-cluster, dry-run or none\n",
    )


# -- one setting at a time -------------------------------------------------------------------------

SETTINGS = [
    ("weight: 0", "weight: input should be greater than or equal to 1, found 0"),
    ("weight: 1001", "weight: input should be less than or equal to 1000, found 1001"),
    ("weight: 1.5", "weight: input should be a valid integer, found 1.5"),
    ("weight: true", "weight: input should be a valid integer, found True"),
    ("weight: '2'", "weight: input should be a valid integer, found '2'"),
    ("weight: null", "weight: input should be a valid integer, found None"),
    ("logSeverity: 4", "logSeverity: input should be 0, 1, 2 or 3, found 4"),
    ("timeout: 0s", "timeout: expected a duration such as 500ms or 2s, at most 1h, found '0s'"),
    ("timeout: 5 s", "timeout: expected a duration such as 500ms or 2s, at most 1h, found '5 s'"),
    ("timeout: -1s", "timeout: expected a duration such as 500ms or 2s, at most 1h, found '-1s'"),
    ("memoryLimit: 64MB", "memoryLimit: expected a size such as 256Mi, found '64MB'"),
    ("memoryLimit: 1023Ki", "memoryLimit: input should be greater than or equal to 1048576, found '1023Ki'"),
    ("memoryLimit: true", "memoryLimit: expected a size such as 256Mi, found True"),
    ("tableLimit: 0", "tableLimit: input should be greater than or equal to 1, found 0"),
    ("tableLimit: 16777217", "tableLimit: input should be less than or equal to 16777216, found 16777217"),
    ("tableLimit: 1Ki", "tableLimit: input should be a valid integer, found '1Ki'"),
    ("outputLimit: 1023", "outputLimit: input should be greater than or equal to 1024, found 1023"),
    ("outputLimit: 1025Ki", "outputLimit: input should be less than or equal to 1048576, found '1025Ki'"),
    ("outputLimit: much", "outputLimit: expected a size such as 256Mi, found 'much'"),
    ("instances: 0", "instances: input should be greater than or equal to 1, found 0"),
    ("instances: 257", "instances: input should be less than or equal to 256, found 257"),
    ("instances: true", "instances: input should be a valid integer, found True"),
    ("engine: v8", "engine: input should be 'wasmtime' or 'wasmer', found 'v8'"),
    ("allowUnlimited: 2", "allowUnlimited: input should be a valid boolean, unable to interpret input, found 2"),
    ("failurePolicy: fail", "failurePolicy: input should be 'Fail' or 'Ignore', found 'fail'"),
    ("extensionPoints: filter", "extensionPoints: expected a list, found 'filter'"),
    ("extensionPoints: [score, prefilter]", f"extensionPoints: 'prefilter' is no extension point; expected {POINTS}"),
    ("args: [a, 1]", "args[1]: input should be a valid string, found 1"),
    ('args: ["a\\0b"]', "args[0]: expected text without NUL, which ends an argument"),
    ('args: ["\\ud800"]', "args[0]: expected UTF-8"),
    ('guestConfig: "\\ud800"', "guestConfig: expected UTF-8"),
    ("guestConfig: 5", "guestConfig: input should be a valid string, found 5"),
    ("guestConfig: [a]", "guestConfig: input should be a valid string, found ['a']"),
    ("guestConfig: null", "guestConfig: input should be a valid string, found None"),
    ("digest: 'sha256:ABC'", "digest: string should match pattern '^sha256:[0-9a-f]{64}$', found 'sha256:ABC'"),
    ("guestURL: ./a.wasm", f"guestURL: {SCHEMES}, found './a.wasm'"),
    ("guestURL: 'file://'", "guestURL: expected file:// and a path, such as file://./plugin.wasm, found 'file://'"),
    ("guestURL: 5", "guestURL: input should be a valid string, found 5"),
    ("scoreRange: 10", "scoreRange: unknown key"),
    (
        "guestURL: 'https://ana:secret@modules.example/a.wasm'",
        "guestURL: a URL must not hold a login, which would be logged; put it into a netrc file",
    ),
    (
        "guestURL: 'oci://registry.example'",
        "guestURL: expected oci://REGISTRY/REPOSITORY with :TAG or @sha256:DIGEST, such as"
        " oci://registry.example/policies/spread:v2, found 'oci://registry.example'",
    ),
    ("source: {interval: 1ms}", "source.interval: input should be greater than or equal to 0.1, found '1ms'"),
    ("source: {publickey: cosign.pub}", "source.publickey: unknown key; did you mean publicKey?"),
    ("swap: {slowdownFactor: 0.5}", "swap.slowdownFactor: input should be greater than or equal to 1, found 0.5"),
    ("swap: {shadowRequests: 0}", "swap.shadowRequests: input should be greater than or equal to 1, found 0"),
    ("swap: {rollback: never}", "swap.rollback: input should be 'automatic' or 'manual', found 'never'"),
    ("swap: {rollbackShare: 1.5}", "swap.rollbackShare: input should be less than or equal to 1, found 1.5"),
    ("swap: {shadowTme: 1s}", "swap.shadowTme: unknown key; did you mean shadowTime?"),
    (
        "swap: {wakePods: true}",
        "swap.wakePods: needs an API server to write to; set cluster.mode to kubeconfig or in-cluster",
    ),
    ("failurePolcy: Fail", "failurePolcy: unknown key; did you mean failurePolicy?"),
    (f"guestConfig: {'x' * 90}, args: {'y' * 90}", f"args: expected a list, found '{'y' * 76}..."),
]  # fmt: skip


@pytest.mark.parametrize(("setting", "problem"), SETTINGS)
def test_a_bad_setting_is_named_by_its_key_with_what_was_expected(folder: Path, setting: str, problem: str) -> None:
    file = folder / "setting.yaml"
    file.write_text(with_setting(setting))
    with pytest.raises(ConfigError) as refused:
        load(file)
    assert list(refused.value.problems) == [f"{PLUGIN}.{problem}"]
    assert str(refused.value) == f"{file}: {PLUGIN}.{problem}"


def test_extension_points_at_which_nothing_is_called_are_refused(folder: Path) -> None:
    for points in ("filter, postFilter", "reserve", ""):
        file = folder / "points.yaml"
        file.write_text(with_setting(f"extensionPoints: [{points}]"))
        with pytest.raises(ConfigError) as refused:
            load(file)
        given = points or "none"
        assert list(refused.value.problems) == [
            f"{PLUGIN}.guestURL: plugin p: {folder}/nodenumber.wasm has nothing to call at the extensionPoints that"
            f" are given ({given})"
        ]


SECTIONS = [
    ("profiles: []", "profiles: expected at least one item, found []"),
    ("profiles: {}", "profiles: expected a list, found {}"),
    ("profiles: [5]", "profiles[0]: expected a mapping, found 5"),
    ("profiles: [{name: a, plugins: [null]}]", "profiles[0].plugins[0]: expected a mapping, found None"),
    ("server: null", "server: expected a mapping, found None"),
    ("server: {address: 'a:65536'}", "server.address: expected an address such as 127.0.0.1:8888, found 'a:65536'"),
    ("server: {address: '::1:8888'}", "server.address: expected an address such as 127.0.0.1:8888, found '::1:8888'"),
    ("server: {maxRequestBytes: 0}", "server.maxRequestBytes: expected a size such as 256Mi, found 0"),
    ("server: {bindTimeout: 4}", "server.bindTimeout: expected a duration such as 500ms or 2s, at most 1h, found 4"),
    (
        "server: {address: '0.0.0.0:8888'}",
        "server: address 0.0.0.0:8888 is off loopback, where whoever reaches it decides for every pod: set tls, or"
        " accept that by allowUnencrypted: true",
    ),
    (
        "server: {allowUnencrypted: true}",
        "server: allowUnencrypted is for an address off loopback without tls; leave it out",
    ),
    (
        "server: {address: '0.0.0.0:1', tls: {certFile: a, keyFile: b}, allowUnencrypted: true}",
        "server: allowUnencrypted is for an address off loopback without tls; leave it out",
    ),
    (
        "server: {replicas: 2}",
        "server.replicas: input should be 'none', 'standby' or 'shared', found 2",
    ),
    ("server: {tls: {certFile: a}}", "server.tls.keyFile: is required"),
    (
        "server: {adminTLS: {certFile: a, keyFile: b, clientCaFile: c}}",
        "server.adminTLS.clientCaFile: unknown key; did you mean clientCAFile?",
    ),
    (
        "server: {tls: {certFile: a, keyFile: b, clientNames: [CN:scheduler]}}",
        "server.tls: clientNames needs clientCAFile: only a certificate that a CA has signed names anybody",
    ),
    (
        "server: {tls: {certFile: a, keyFile: b, clientCAFile: c, clientNames: [scheduler]}}",
        "server.tls.clientNames[0]: string should match pattern '^(CN|DNS|URI):.+$', found 'scheduler'",
    ),
    ("runtime: 1Mi", "runtime: expected a mapping, found '1Mi'"),
    ("runtime: {stackLimit: 63Ki}", "runtime.stackLimit: input should be greater than or equal to 65536, found '63Ki'"),
    ("runtime: {stackLimit: 3Mi}", "runtime.stackLimit: input should be less than or equal to 2097152, found '3Mi'"),
    ("runtime: {moduleLimit: 0}", "runtime.moduleLimit: expected a size such as 256Mi, found 0"),
    (
        "runtime: {compileTimeout: 2h}",
        "runtime.compileTimeout: expected a duration such as 500ms or 2s, at most 1h, found '2h'",
    ),
    ("runtime: {cacheLimit: -1}", "runtime.cacheLimit: expected a size such as 256Mi, found -1"),
    ("runtime: {stackLimt: 1Mi}", "runtime.stackLimt: unknown key; did you mean stackLimit?"),
    ("cluster: []", "cluster: expected a mapping, found []"),
    ("cluster: {mode: 0}", "cluster.mode: input should be 'none', 'dry-run', 'kubeconfig' or 'in-cluster', found 0"),
    (
        "cluster: {kubeconfig: ~no-such-user/config}",
        "cluster.kubeconfig: ~no-such-user/config: Could not determine home directory.",
    ),
    (
        "cluster: {staleAfter: 90}",
        "cluster.staleAfter: expected a duration such as 500ms or 2s, at most 1h, found 90",
    ),
    (
        "cluster: {notSyncedPolicy: ignore}",
        "cluster.notSyncedPolicy: input should be 'Fail' or 'Ignore', found 'ignore'",
    ),
    ("apiVersion: kwx.dev/v1", "apiVersion: input should be 'kwx.dev/v1alpha1', found 'kwx.dev/v1'"),
    ("Kind: x", "Kind: unknown key; did you mean kind?"),
    ("5: x", "[5]: keys should be strings, found 5"),
    ("on: x", "[1]: keys should be strings, found True"),
]  # fmt: skip


@pytest.mark.parametrize(("section", "problem"), SECTIONS)
def test_a_bad_section_is_named_by_its_key(folder: Path, section: str, problem: str) -> None:
    content: dict[Any, Any] = yaml.safe_load(GOOD) | yaml.safe_load(section)
    file = folder / "section.yaml"
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(ConfigError) as refused:
        load(file)
    assert list(refused.value.problems) == [problem]


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("file://empty.wasm", "{folder}/empty.wasm is no valid WebAssembly module: "),
        ("file://half.wasm", "{folder}/half.wasm is no valid WebAssembly module: "),
        ("file://component.wasm", "{folder}/component.wasm is a WebAssembly component, not a core module: "),
        ("file://good.yaml", "{folder}/good.yaml is no valid WebAssembly module: "),
        ("file:///dev/zero", "/dev/zero is no regular file; name a .wasm file"),
        ("file://nodenumber.wasm/x", "{folder}/nodenumber.wasm/x cannot be read: Not a directory"),
        ("file://~nobody-of-that-name/x", "{folder}/~nobody-of-that-name/x cannot be read: No such file or directory"),
        ("file://a\0b", "'{folder}/a\\x00b' is no path: it holds a NUL"),
    ],
)
def test_what_is_no_module_is_refused(folder: Path, url: str, problem: str) -> None:
    (folder / "good.yaml").write_text(GOOD)
    file = folder / "module.yaml"
    content = kwx.configuration(kwx.profile("default", {"name": "p", "guestURL": url}))
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(ConfigError) as refused:
        load(file)
    (only,) = refused.value.problems
    assert only.startswith(f"{PLUGIN}.guestURL: plugin p: {problem.format(folder=folder)}")


@pytest.mark.parametrize(
    "text",
    ["a: [1", "? [1]\n: 2", "a: 2001-99-99", "a: \0", "a: !!python/object:os.system x", "a: 1\n---\nb: 2", "[" * 5_000],
    ids=range(7),
)
def test_what_is_no_yaml_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "extender.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        config.read(file)
    (only,) = refused.value.problems
    assert only.startswith("is no YAML: ")
    assert "\n" not in only


LAUGHS = "a: &a [1, 2]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGED = "a: &a {k: 1}\n" + "".join(
    f"{new}: &{new} {{<<: [{', '.join([f'*{old}'] * 9)}]}}\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
LONG = f"a: &a {'x' * 10_000}\nb: [{', '.join(['*a'] * 200)}]\n"


@pytest.mark.parametrize("text", [LAUGHS, MERGED, LONG, "a: &a [*a]\n"], ids=["lists", "merges", "text", "itself"])
def test_aliases_make_no_more_than_a_million_characters(tmp_path: Path, text: str) -> None:
    file = tmp_path / "extender.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        config.read(file)
    (only,) = refused.value.problems
    assert only.startswith("is no YAML: the aliases stand for more than 1000000 characters in ")


def test_aliases_of_moderate_size_are_read(tmp_path: Path) -> None:
    file = tmp_path / "extender.yaml"
    plugin = "&p {guestURL: file://./a.wasm, guestConfig: &c {a: [1, 2]}, name: a}"
    file.write_text(f"{HEAD}profiles:\n- name: a\n  plugins: [{plugin}, {{<<: *p, name: b, guestConfig: *c}}]\n")
    (first, second) = config.read(file).profiles[0].plugins
    assert (second.guest_url, second.guest_config) == (first.guest_url, first.guest_config)


def test_a_key_that_comes_twice_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "extender.yaml"
    file.write_text("profiles:\n- name: a\n  plugins: []\n  plugins: []\n")
    with pytest.raises(ConfigError) as refused:
        config.read(file)
    assert list(refused.value.problems) == [
        "is no YAML: key 'plugins' comes twice in \"<unicode string>\", line 4, column 3: plugins: [] ^"
    ]


@pytest.mark.parametrize("text", ["", "- a\n", "a", "# nothing\n"])
def test_what_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "extender.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        config.read(file)
    assert str(refused.value) == f"{file}: expected a mapping with apiVersion, kind and profiles"


@pytest.mark.parametrize(("section", "limit"), [("", 64 * 1024 * 1024), ("runtime: {moduleLimit: 1Mi}", 1024 * 1024)])
def test_a_module_larger_than_its_limit_is_refused_unread(folder: Path, section: str, limit: int) -> None:
    with (folder / "huge.wasm").open("wb") as huge:
        huge.truncate(limit + 1)
    file = folder / "huge.yaml"
    file.write_text(f"{of_module('huge')}{section}\n")
    with pytest.raises(ConfigError) as refused:
        load(file)
    assert list(refused.value.problems) == [
        f"{PLUGIN}.guestURL: plugin p: {folder}/huge.wasm has {limit + 1} bytes, runtime.moduleLimit allows {limit}"
    ]


def test_a_module_that_takes_too_long_to_compile_is_refused(tmp_path: Path) -> None:
    (tmp_path / "slow.wasm").write_bytes(guests.constant_score(61))
    file = tmp_path / "slow.yaml"
    file.write_text(f"{of_module('slow')}runtime: {{compileTimeout: 1ms}}\n")
    with pytest.raises(ConfigError) as refused:
        load(file)
    assert list(refused.value.problems) == [
        f"{PLUGIN}.guestURL: plugin p: {tmp_path}/slow.wasm takes longer to compile than its limit of 0.001 s;"
        " make it smaller or raise runtime.compileTimeout"
    ]


@pytest.mark.parametrize("content", [GOOD, of_module("nodenumber", ", weight: 0")])
def test_compiled_code_is_not_kept_where_others_can_write(folder: Path, tmp_path: Path, content: str) -> None:
    kept = tmp_path / "kwx" / "compiled"
    kept.mkdir(parents=True)
    kept.chmod(0o777)
    file = folder / "cache.yaml"
    file.write_text(content)
    result = kwx.run("serve", "--config", file, home=tmp_path, XDG_CACHE_HOME=str(tmp_path))
    assert kwx.problems(result, file)[-1] == (
        f"{kept} can be written by others (mode 777), and the code kept there is run; chmod 700 it"
    )


# -- engines ---------------------------------------------------------------------------------------

UNLIMITED = (
    "engine wasmer knows no deadline and no limit of memory, and stops the whole process while a guest runs, health"
    " included: use wasmtime, or accept it by allowUnlimited: true"
)
NEEDLESS = "allowUnlimited is for engine wasmer; engine wasmtime keeps the limits"


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("engine: wasmer", UNLIMITED),
        ("engine: wasmer, allowUnlimited: false", UNLIMITED),
        ("allowUnlimited: true", NEEDLESS),
        ("engine: wasmtime, allowUnlimited: true", NEEDLESS),
    ],
)
def test_an_engine_without_limits_is_had_by_saying_so_and_not_by_accident(
    folder: Path, setting: str, problem: str
) -> None:
    file = folder / "engine.yaml"
    file.write_text(of_plugins(f"name: p, guestURL: 'file://nodenumber.wasm', {setting}", "name: q, guestURL: x"))
    with pytest.raises(ConfigError) as refused:
        load(file)
    assert list(refused.value.problems) == [
        f"{PLUGIN}: {problem}",
        f"profiles[0].plugins[1].guestURL: {SCHEMES}, found 'x'",
    ]


def test_an_engine_that_cannot_be_imported_is_named_with_what_it_needs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wasmer", None)
    monkeypatch.delitem(sys.modules, "wasm_runtime.engines.wasmer", raising=False)
    file = folder / "wasmer.yaml"
    file.write_text(with_setting("engine: wasmer, allowUnlimited: true"))
    with pytest.raises(ConfigError) as refused:
        load(file)
    assert list(refused.value.problems) == [
        f"{PLUGIN}.guestURL: plugin p: cannot run on engine wasmer: engine wasmer needs CPython 3.10 and the packages"
        " of the extra `wasmer` (pip install 'kube-wasm-extender[wasmer]'); on any other Python use engine: wasmtime"
    ]


# -- what is accepted ------------------------------------------------------------------------------

EVERY_KEY = f"""
apiVersion: kwx.dev/v1alpha1
kind: ExtenderConfiguration
server:
  address: 127.0.0.1:8888        # the verbs
  adminAddress: "[::1]:8889"     # health
  maxRequestBytes: 32Mi
  bindTimeout: 2500ms
  stateDirectory: ~/.local/state/kwx
  adminTokens: tokens.csv
  tls: {{certFile: tls.crt, keyFile: tls.key, clientCAFile: ca.crt, clientNames: [CN:scheduler]}}
  adminTLS: {{certFile: admin.crt, keyFile: admin.key}}
  allowUnencrypted: false
runtime:
  stackLimit: 512Ki
  moduleLimit: 32M
  compileTimeout: 2m
  cacheLimit: 5Gi
cluster:
  mode: none
  kubeconfig: ~/.kube/other
  staleAfter: 90s
  notSyncedPolicy: Ignore
profiles:
- name: default
  scoreRange: 100
  simulatorResults: false
  plugins:
  - name: nodenumber
    guestURL: file://./nodenumber.wasm
    digest: {NODENUMBER}
    guestConfig: '{{"reverse": false}}'
    args: [nodenumber, -v]
    logSeverity: 2
    weight: 3
    engine: wasmtime
    allowUnlimited: false
    failurePolicy: Ignore
    timeout: 1.5s
    memoryLimit: 64Mi
    tableLimit: 4096
    outputLimit: 16Ki
    instances: 3
    extensionPoints: [filter, score]
    source: {{interval: 5s, timeout: 20s, caFile: ca.crt}}
    swap:
      slowdownFactor: 2.5
      slowdownFloor: 3ms
      shadowTime: 1m
      shadowRequests: 100
      rollback: manual
      rollbackTime: 2m
      rollbackFailures: 5
      rollbackShare: 0.5
      wakePods: false
"""


def test_every_key_is_read(folder: Path) -> None:
    file = folder / "every-key.yaml"
    file.write_text(EVERY_KEY)
    loaded = load(file)
    loaded.close()
    configuration = loaded.configuration
    assert configuration.server.address == Address("127.0.0.1", 8888)
    assert configuration.server.admin_address == Address("::1", 8889)
    assert str(configuration.server.admin_address) == "[::1]:8889"
    assert configuration.server.max_request_bytes == 32 * 1024 * 1024
    assert configuration.server.bind_timeout == 2.5
    assert configuration.runtime == RuntimeConfig(
        stackLimit="512Ki", moduleLimit="32M", compileTimeout="2m", cacheLimit="5Gi"
    )
    assert configuration.server.admin_tokens == Path("tokens.csv")
    assert configuration.server.tls == TlsConfig(
        certFile="tls.crt", keyFile="tls.key", clientCAFile="ca.crt", clientNames=("CN:scheduler",)
    )
    assert configuration.server.admin_tls == TlsConfig(certFile="admin.crt", keyFile="admin.key")
    assert configuration.server.state_directory == Path("~/.local/state/kwx").expanduser()
    assert (configuration.cluster.mode, configuration.cluster.kubeconfig) == (
        "none",
        Path("~/.kube/other").expanduser(),
    )
    assert (configuration.cluster.stale_after, configuration.cluster.not_synced_policy) == (90, FailurePolicy.IGNORE)
    (profile,) = configuration.profiles
    assert (profile.name, profile.score_range) == ("default", 100)
    assert profile.plugins == (
        PluginConfig(
            name="nodenumber",
            guestURL="file://./nodenumber.wasm",
            digest=NODENUMBER,
            guestConfig='{"reverse": false}',
            args=("nodenumber", "-v"),
            logSeverity=Severity.ERROR,
            weight=3,
            engine="wasmtime",
            failurePolicy=FailurePolicy.IGNORE,
            timeout="1.5s",
            memoryLimit="64Mi",
            tableLimit=4096,
            outputLimit="16Ki",
            instances=3,
            extensionPoints=("filter", "score"),
            source=SourceConfig(interval="5s", timeout="20s", caFile="ca.crt"),
            swap=SwapConfig(
                slowdownFactor=2.5,
                slowdownFloor="3ms",
                shadowTime="1m",
                shadowRequests=100,
                rollback="manual",
                rollbackTime="2m",
                rollbackFailures=5,
                rollbackShare=0.5,
                wakePods=False,
            ),
        ),
    )
    settings = profile.plugins[0]
    assert (settings.source.interval, settings.swap.slowdown_floor, settings.swap.shadow_time) == (5, 0.003, 60)
    assert (settings.timeout, settings.memory_limit, settings.output_limit) == (1.5, 64 * 1024 * 1024, 16 * 1024)


def test_what_is_left_out_has_its_default(folder: Path) -> None:
    file = folder / "least.yaml"
    file.write_text(GOOD)
    configuration = config.read(file)
    assert configuration.server.address == Address("127.0.0.1", 8888)
    assert configuration.server.admin_address == Address("127.0.0.1", 8889)
    assert configuration.server.max_request_bytes == 64 * 1024 * 1024
    assert (configuration.cluster.mode, configuration.cluster.kubeconfig) == (
        "none",
        Path("~/.kube/config").expanduser(),
    )
    assert (configuration.cluster.stale_after, configuration.cluster.not_synced_policy) == (None, FailurePolicy.FAIL)
    assert configuration.server.bind_timeout == 4.0
    assert (configuration.server.tls, configuration.server.admin_tls) == (None, None)
    assert configuration.server.allow_unencrypted is False
    runtime = configuration.runtime
    assert (runtime.stack_limit, runtime.module_limit) == (1024 * 1024, 64 * 1024 * 1024)
    assert (runtime.compile_timeout, runtime.cache_limit) == (60.0, 512 * 1024 * 1024)
    (profile,) = configuration.profiles
    (plugin,) = profile.plugins
    assert profile.score_range == 10
    assert (plugin.digest, plugin.guest_config, plugin.args, plugin.extension_points) == (None, "", (), None)
    assert (plugin.log_severity, plugin.weight, plugin.engine) == (Severity.INFO, 1, "wasmtime")
    assert (plugin.table_limit, plugin.output_limit, plugin.instances) == (1024 * 1024, 8 * 1024, 8)
    assert plugin.allow_unlimited is False
    assert (plugin.failure_policy, plugin.timeout, plugin.memory_limit) == (
        FailurePolicy.FAIL,
        0.5,
        256 * 1024 * 1024,
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("'{\"reverse\":  true}'", '{"reverse":  true}'),
        ("{reverse: true, deep: {a: [1, 2.5, null, 'größer']}}", '{"reverse":true,"deep":{"a":[1,2.5,null,"größer"]}}'),
        ("{}", "{}"),
        ("''", ""),
        ("{2: a, 2026-01-02: b}", '{"2":"a","2026-01-02":"b"}'),
        ("no JSON at all", "no JSON at all"),
    ],
)  # fmt: skip
def test_a_guests_configuration_is_a_text_or_a_mapping_passed_on_as_json(folder: Path, value: str, text: str) -> None:
    file = folder / "guest-config.yaml"
    file.write_text(with_setting(f"guestConfig: {value}"))
    assert config.read(file).profiles[0].plugins[0].guest_config == text


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file://./modules/score.wasm", "{folder}/modules/score.wasm"),
        ("file://modules/score.wasm", "{folder}/modules/score.wasm"),
        ("file://../a/score.wasm", "{folder}/../a/score.wasm"),
        ("file:///abs/score.wasm", "/abs/score.wasm"),
        ("file://~/score.wasm", "/home/of/user/score.wasm"),
    ],
)
def test_the_path_of_a_module_is_relative_to_the_file_that_names_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, url: str, path: str
) -> None:
    monkeypatch.setenv("HOME", "/home/of/user")
    monkeypatch.chdir(folder)
    plugin = PluginConfig(name="p", guestURL=url)
    assert config.guest_path(folder / "extender.yaml", plugin) == Path(path.format(folder=folder))
    assert config.guest_path(Path("extender.yaml"), plugin) == Path(path.format(folder=folder))


def test_a_module_is_found_from_any_working_directory(folder: Path, tmp_path: Path) -> None:
    content = f"{of_module('modules/score')}server: {{address: '127.0.0.1:0', adminAddress: '127.0.0.1:0'}}\n"
    (folder / "relative.yaml").write_text(textwrap.dedent(content))
    for home, file in (
        (folder / "modules", "../relative.yaml"),
        (tmp_path, folder / "relative.yaml"),
    ):
        assert kwx.run("scheduler-config", "--config", file, home=home).returncode == 0


def test_a_byte_order_mark_is_no_part_of_the_file(folder: Path) -> None:
    file = folder / "bom.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert config.read(file).profiles[0].name == "default"
