"""`kwx plugin` against `kwx serve`."""

from __future__ import annotations

import base64
import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from bench.controlplane.ports import free_port
from tests.extender import guests
from tests.extender.commands.command import Command, Ended
from tests.extender.commands.terminal import run_on_terminal
from tests.extender.kwx import KWX, Extender, condition, environment_of, plugin, profile
from tests.extender.objects import names_args
from tests.extender.sources.web import answer, serving
from tests.patience import PATIENCE_S, Beside
from wasm_runtime.blob import digest

OWN = ["swapped", "configured", "judged", "refused", "returned", "expected", "slow"]
LONG, LONG_PROFILE, LONG_NODES = "n" * 63, "p" * 253, [f"{'n' * 252}{at}" for at in (1, 7)]
"""Names that are as long as they may be."""
SLOW: dict[str, Any] = {"swap": {"shadowTime": "2s"}}
NODENUMBER = digest(guests.module("nodenumber"))
SHORT = NODENUMBER[7:19]


@pytest.fixture(scope="module")
def extender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    plugins = [plugin("nodenumber", name=name, **(SLOW if name == "slow" else {})) for name in OWN]
    profiles = [profile(entry["name"], entry) for entry in plugins]
    profiles += [profile(name, plugin("nodenumber", name="twice")) for name in ("default", "batch")]
    profiles.append(profile(LONG_PROFILE, plugin("nodenumber", name=LONG)))
    with Extender(tmp_path_factory.mktemp("remote"), *profiles) as extender:
        yield extender


Kwx = Command
"""Runs `kwx plugin` on the extender."""


@pytest.fixture
def kwx(extender: Extender, command: Command) -> Kwx:
    return lambda *arguments: command("plugin", *arguments, "--server", extender.admin_url)


def active(extender: Extender, name: str) -> str:
    """The beginning of the active revision."""
    return str(extender.admin.get(f"/api/v1/plugins/{name}").json()["revision"]["id"][7:19])


def timeless(text: str) -> str:
    """A table without its times, and without spaces at the ends of lines."""
    lines = [re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "WHEN", line).rstrip() for line in text.splitlines()]
    return "\n".join(lines)


def shown(ended: Ended, status: int = 0) -> str:
    assert ended.status == status, ended.stderr
    return timeless(ended.stdout)


def failed(ended: Ended) -> str:
    assert (ended.status, ended.stdout) == (1, "")
    return ended.stderr.removeprefix("kwx: ").rstrip()


STEPS = """\
fetching
fetched  module {module} of {origin}
verified
compiled now tried on requests
probed   {judged} recorded requests, {different} decided otherwise
"""


def test_the_plugins_are_listed_in_columns(extender: Extender, kwx: Kwx) -> None:
    assert (
        shown(kwx("list", "--profile", "batch"))
        == f"""\
Plugin  Profile  Revision      State   Failures  Source
twice   batch    {active(extender, "swapped")}  serves         0  file://./nodenumber.wasm"""
    )
    everything = json.loads(kwx("list", "--output", "json").stdout)
    assert everything == extender.admin.get("/api/v1/plugins").json()


def test_a_list_may_be_wide_yaml_or_names_alone(extender: Extender, kwx: Kwx) -> None:
    assert (
        shown(kwx("list", "--profile", "batch", "-o", "wide"))
        == f"""\
Plugin  Profile  Revision      State   Failures  Weight  Module        Policy  Exports         Source
twice   batch    {active(extender, "swapped")}  serves         0       1  {SHORT}  Fail    prescore,score  file://./nodenumber.wasm"""
    )
    names = [*OWN, "twice", LONG]
    assert shown(kwx("list", "-o", "name")).splitlines() == names
    assert yaml.safe_load(kwx("list", "-o", "yaml").stdout) == extender.admin.get("/api/v1/plugins").json()
    (one,) = extender.admin.get("/api/v1/plugins/refused/revisions").json()
    assert shown(kwx("revisions", "refused", "-o", "name")) == one["id"]
    heads, row = [line.split() for line in shown(kwx("revisions", "refused", "-o", "wide")).splitlines()]
    assert (heads, row[:3]) == (
        ["Revision", "Stage", "Module", "Signer", "Origin"],
        [one["id"], "active", one["module"]],
    )
    assert yaml.safe_load(kwx("show", "refused", "-o", "yaml").stdout)["name"] == "refused"


def test_what_is_not_as_it_should_be_is_told_once(command: Command, tmp_path: Path) -> None:
    far = {"name": "far", "guestURL": f"http://127.0.0.1:{free_port()}/m.wasm"}
    with Extender(tmp_path, profile("default", far)) as extender:
        (view,) = extender.admin.get("/api/v1/plugins").json()
        lines = shown(command("plugin", "list", "--server", extender.admin_url)).splitlines()
    status, reason, message = condition(view, "Ready")
    assert (status, reason, condition(view, "SourceReady")) == (
        "False",
        "NoRevision",
        ("False", "SourceFailed", message),
    )
    assert [line.split() for line in lines[:2]] == [
        ["Plugin", "Profile", "Revision", "State", "Failures", "Source"],
        ["far", "default", "missing", "0", far["guestURL"]],
    ]
    assert lines[2:] == [f"far of default: Ready=False (NoRevision): {message}"]


def test_a_plugin_is_shown_with_all_that_is_known(extender: Extender, kwx: Kwx) -> None:
    found = extender.admin.get("/api/v1/plugins/refused").json()
    rollout = found["rollout"]["id"]
    assert (
        shown(kwx("show", "refused"))
        == f"""\
Plugin   refused
Profile  refused
State    serves
Source   file://./nodenumber.wasm
Status   Ready=True (Serving)
         SourceReady=True (SourceAvailable)
         SourceInSync=True (SameRevision)
         RequirementsMet=True (Verified)
Weight   1
Exports  prescore, score
Revision {found["revision"]["id"]}
Module   {NODENUMBER}
Origin   {extender.folder}/nodenumber.wasm
Settings guestConfig:
         args: []
         logSeverity: 0
         weight: 1
         engine: wasmtime
         allowUnlimited: false
         failurePolicy: Fail
         timeout: 500ms
         memoryLimit: 256Mi
         tableLimit: 1048576
         outputLimit: 8Ki
         instances: 8
         extensionPoints: null
Rollout  {rollout}, active since WHEN UTC, by start"""
    )
    assert json.loads(kwx("show", "refused", "--output", "json").stdout) == found


def test_a_file_takes_over_and_is_taken_back(extender: Extender, kwx: Kwx, tmp_path: Path) -> None:
    module = tmp_path / "other.wasm"
    module.write_bytes(guests.constant_score(50))
    old = active(extender, "swapped")
    swapped = kwx("swap", "swapped", "--file", module, "--reason", "try it", "--expect", old)
    new = active(extender, "swapped")
    assert new != old
    assert (swapped.status, swapped.stderr) == (
        0,
        STEPS.format(module=digest(module.read_bytes())[7:19], origin="upload by local", judged=0, different=0)
        + f"warmed   revision {new}\nactive\n",
    )
    assert timeless(swapped.stdout) == (
        f"swapped of swapped: revision {new} is active\n"
        "there was no request to judge: nothing is known but that the candidate starts"
    )

    back = kwx("rollback", "swapped")
    assert shown(back) == f"swapped of swapped: revision {old} is active"
    assert back.stderr.splitlines()[-2:] == [f"warmed   revision {old}", "active"]
    rows = [line.split() for line in shown(kwx("revisions", "swapped")).splitlines() if not line.startswith(" ")]
    assert rows[0] == ["Revision", "Stage", "Module", "Origin"]
    assert sorted(row[:3] for row in rows[1:]) == sorted(
        [[old, "active", SHORT], [new, "draining", digest(module.read_bytes())[7:19]]]
    )
    assert (
        shown(kwx("history", "swapped"))
        == f"""\
Started (UTC)        Rollout
WHEN  swapped of swapped: {old} active, by local
WHEN  swapped of swapped: {new} rolled back, by local
                     try it
                     rolled back by local
WHEN  swapped of swapped: {old} replaced, by start"""
    )


@pytest.fixture(scope="module")
def key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory, key: ec.EllipticCurvePrivateKey) -> Iterator[Extender]:
    """One whose module must be signed with the key."""
    folder = tmp_path_factory.mktemp("signed")
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / "cosign.pub").write_bytes(public)
    start = guests.build("nodenumber", folder)
    start.with_suffix(".wasm.sig").write_bytes(_sign(key, start.read_bytes()))
    entry = plugin("nodenumber", source={"publicKey": "cosign.pub"})
    with Extender(folder, profile("default", entry)) as extender:
        yield extender


@pytest.mark.parametrize(
    ("score", "encode"),
    [
        (50, bytes),
        (51, base64.encodebytes),
        (52, lambda value: base64.encodebytes(value).replace(b"\n", b"\r\n")),
    ],
    ids=["bytes", "lines", "lines of Windows"],
)
def test_a_module_is_uploaded_with_its_signature(
    command: Command,
    tmp_path: Path,
    signed: Extender,
    key: ec.EllipticCurvePrivateKey,
    score: int,
    encode: Callable[[bytes], bytes],
) -> None:
    module, signature = tmp_path / "other.wasm", tmp_path / "other.sig"
    module.write_bytes(guests.constant_score(score))
    signature.write_bytes(encode(_sign(key, module.read_bytes())))
    upload = ["plugin", "swap", "nodenumber", "--file", module, "--server", signed.admin_url]
    assert "upload by local is not signed; expected a signature by " in command(*upload).stderr
    assert command(*upload, "--signature", signature).status == 0
    shown = signed.admin.get("/api/v1/plugins/nodenumber").json()["revision"]
    assert (shown["origin"], shown["module"], shown["signer"][:7]) == (
        "upload by local",
        digest(module.read_bytes()),
        "sha256:",
    )


def _sign(key: ec.EllipticCurvePrivateKey, content: bytes) -> bytes:
    return key.sign(content, ec.ECDSA(hashes.SHA256()))


def test_settings_are_yaml_and_json_is_the_rollout_only(extender: Extender, kwx: Kwx) -> None:
    settings = ["--set", "guestConfig={reverse: true}", "--set", "weight=3", "--set", "timeout=1s"]
    ended = kwx("swap", "configured", *settings, "--output", "json")
    assert ended.status == 0, ended.stderr
    rollout = json.loads(ended.stdout)
    found = extender.admin.get("/api/v1/plugins/configured").json()
    assert found["rollout"] == rollout
    given = {key: found["revision"]["settings"][key] for key in ("guestConfig", "weight", "timeout")}
    assert given == {"guestConfig": '{"reverse":true}', "weight": 3, "timeout": "1000ms"}


def test_without_a_wish_the_source_is_looked_at(extender: Extender, kwx: Kwx) -> None:
    ended = kwx("swap", "judged")
    assert shown(ended) == f"judged of judged: revision {active(extender, 'judged')} was active already"


def test_a_dry_run_shows_what_would_be_decided_otherwise(extender: Extender, kwx: Kwx) -> None:
    before = active(extender, "judged")
    extender.post("/profiles/judged/prioritize", names_args(["node-1", "node-7"]))
    ended = kwx("swap", "judged", "--set", "guestConfig={reverse: true}", "--dry-run")
    candidate = json.loads(kwx("history", "judged", "--limit", "1", "--output", "json").stdout)[0]["revision"][7:19]
    times = re.compile(r"\d+\.\d{3}$", re.MULTILINE)
    assert (
        times.sub("TIME", shown(ended))
        == f"""\
judged of judged: revision {candidate} could take over; nothing was changed
Verb        Judged  Alike  Different  Revision   Failed  Median, ms
prioritize       1      0          1  active          0       TIME
                                      candidate       0       TIME
prioritize of pod default/web-7: 2 nodes decided otherwise
Node    Active  Candidate
node-1  0       100
node-7  100     0"""
    )
    assert ended.stderr == (
        STEPS.format(module=SHORT, origin=f"{extender.folder}/nodenumber.wasm", judged=1, different=1) + "rehearsed\n"
    )
    assert active(extender, "judged") == before


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_nothing_is_lost_on_a_narrow_terminal(extender: Extender, columns: int) -> None:
    environment = environment_of(extender.folder) | {"KWX_ADMIN": extender.admin_url}

    def words(*arguments: str) -> list[str]:
        return run_on_terminal([KWX, "plugin", *arguments], columns, environment).split()

    row = [LONG, LONG_PROFILE, active(extender, LONG), "serves", "0", "file://./nodenumber.wasm"]
    headings = ["Plugin", "Profile", "Revision", "State", "Failures", "Source"]
    assert words("list", "--profile", LONG_PROFILE) == [*headings, *row]
    extender.post(f"/profiles/{LONG_PROFILE}/prioritize", names_args(LONG_NODES))
    shown = words("swap", LONG, "--set", "guestConfig={reverse: true}", "--dry-run")
    assert shown[-9:] == ["Node", "Active", "Candidate", LONG_NODES[0], "0", "100", LONG_NODES[1], "100", "0"]


def test_a_candidate_that_is_refused_is_a_failure_with_its_reason(kwx: Kwx, tmp_path: Path) -> None:
    module = tmp_path / "bad.wasm"
    module.write_text("no module")
    ended = kwx("swap", "refused", "--file", module)
    problem = "upload by local is no valid WebAssembly module: begins with b'no m', not with b'\\x00asm'"
    assert (ended.status, ended.stderr.splitlines()[-1]) == (1, f"kwx: refused of refused: {problem}")
    assert re.fullmatch(
        "refused of refused: revision [0-9a-f]{12} was refused; what served still serves\n", ended.stdout
    )
    as_json = kwx("swap", "refused", "--file", module, "--output", "json")
    assert (as_json.status, json.loads(as_json.stdout)["message"]) == (1, problem)


def test_a_rollout_that_is_not_waited_for_goes_on(extender: Extender, kwx: Kwx) -> None:
    begun = kwx("swap", "slow", "--set", "weight=2", "--no-wait")
    assert begun.stderr == ""
    assert re.fullmatch("slow of slow: revision [0-9a-f]{12} is on its way", shown(begun))
    late = kwx("swap", "slow", "--set", "weight=2", "--timeout", "50ms")
    assert late.status == 1
    assert re.fullmatch(
        r"kwx: not over after 50ms; rollout \d+ goes on in the extender; kwx plugin history slow tells how it ends",
        late.stderr.splitlines()[-1],
    )
    assert shown(kwx("swap", "slow", "--set", "weight=2")) == (
        f"slow of slow: revision {active(extender, 'slow')} is active\n"
        "there was no request to judge: nothing is known but that the candidate starts"
    )


def test_an_interrupt_leaves_the_rollout_going(extender: Extender) -> None:
    process = subprocess.Popen(
        [KWX, "plugin", "swap", "slow", "--set", "weight=9", "--server", extender.admin_url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=extender.folder,
        env=environment_of(extender.folder),
        start_new_session=True,
    )
    with process:
        assert process.stderr
        stages = (line for line in process.stderr if line.startswith("compiled"))
        Beside(lambda: next(stages)).end()
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=30)
    assert (process.returncode, stdout) == (128 + signal.SIGINT, "")
    assert re.fullmatch(
        r"kwx: rollout \d+ goes on in the extender; kwx plugin history slow tells how it ends",
        stderr.splitlines()[-1],
    )
    extender.wait_until(
        lambda: extender.admin.get("/api/v1/plugins/slow").json()["revision"]["settings"]["weight"] == 9
    )


def test_another_active_revision_than_expected_is_a_failure(extender: Extender, kwx: Kwx, tmp_path: Path) -> None:
    found = extender.admin.get("/api/v1/plugins/expected").json()["revision"]["id"]
    module = tmp_path / "other.wasm"
    module.write_bytes(guests.constant_score(50))
    for arguments in (["swap", "expected"], ["swap", "expected", "--file", module], ["rollback", "expected"]):
        assert failed(kwx(*arguments, "--expect", "01234567")) == (
            f"revision {found} of plugin expected is active, not sha256:01234567; look at it again"
        )


def test_what_the_extender_refuses_is_a_failure(kwx: Kwx) -> None:
    assert failed(kwx("show", "twice")) == (
        "plugin 'twice' is in the profiles default, batch; name one of them (profile)"
    )
    assert failed(kwx("rollback", "expected")) == "plugin expected has no earlier revision to go back to"
    assert failed(kwx("swap", "expected", "--revision", "x")) == (
        "revision: expected the id of a revision, or at least 8 digits of it, found 'x'"
    )


def test_where_nobody_answers_it_is_said_how_to_begin(command: Command) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert failed(command("plugin", "list", "--server", url)) == (
        f"no extender answers at {url}: [Errno 111] Connection refused;"
        " start one by kwx serve --config FILE, or name its admin address by --server"
    )


MEND = "; is that the admin address (server.adminAddress) of an extender?"


def test_what_answers_otherwise_is_no_extender(extender: Extender, command: Command) -> None:
    said = failed(command("plugin", "list", "--server", extender.url))
    assert said.startswith(f'{extender.url} answers with status 404: {{"error":"')
    assert said.endswith(MEND)


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (200, b"[1]", "[1]"),
        (200, b'[{"profile": "default"}]', '[{"profile": "default"}]'),
        (200, b"[" * 9999, "[" * 500),
        (200, b"\x1b[2J", "�[2J"),
        (307, b"", ""),
        (422, b'{"kind": "Status"}', '{"kind": "Status"}'),
        (500, b"[" * 9999, "[" * 500),
    ],
    ids=range(7),
)
def test_an_answer_that_is_none_is_quoted(command: Command, status: int, body: bytes, told: str) -> None:
    with serving() as web:
        web.pages["/api/v1/plugins"] = answer(status, body, Location="/elsewhere")
        said = failed(command("plugin", "list", "--server", web.url("")))
        assert said == f"{web.url('')} answers with status {status}: {told}{MEND}"


def test_events_that_are_none_end_the_command(command: Command, extender: Extender) -> None:
    begun = extender.admin.get("/api/v1/plugins/expected").json()["rollout"] | {"stage": "fetching", "id": 1}
    with serving() as web:
        web.pages |= {
            "/api/v1/plugins/expected/swap": answer(202, json.dumps(begun).encode()),
            "/api/v1/events?rollout=1&wait=5m": answer(200, b"data: {}\n\n", Content_Type="text/event-stream"),
        }
        assert failed(command("plugin", "swap", "expected", "--server", web.url(""))) == (
            "rollout 1 has begun, kwx plugin history expected tells how it ends;"
            f" {web.url('')} sends events that are none of an extender's{MEND}"
        )


def test_the_extender_may_be_named_by_the_environment(extender: Extender, tmp_path: Path) -> None:
    result = subprocess.run(
        [KWX, "plugin", "list", "--profile", "none", "--output", "json"],
        capture_output=True,
        text=True,
        check=False,
        env=environment_of(tmp_path) | {"KWX_ADMIN": extender.admin_url},
        timeout=PATIENCE_S,
    )
    there = ", ".join(each["name"] for each in extender.admin.get("/api/v1/profiles").json())
    assert (result.returncode, result.stdout, result.stderr) == (
        1,
        "",
        f"kwx: no profile is named 'none'; there are: {there}\n",
    )


TOKEN = "a-token-that-writes"


def test_a_token_is_read_from_a_file(command: Command, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(f"{TOKEN},alice,write\n")
    mine = tmp_path / "mine"
    mine.write_text(f"{TOKEN}\n")
    with Extender(tmp_path, profile("default", plugin("nodenumber")), server={"adminTokens": "tokens"}) as extender:
        server = ["--server", extender.admin_url]
        assert failed(command("plugin", "list", *server)) == (
            "a bearer token of server.adminTokens is needed; give one by --token-file"
        )
        swapped = command("plugin", "swap", "nodenumber", "--token-file", mine, "--output", "json", *server)
        assert json.loads(swapped.stdout)["requestedBy"] == "alice"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["list", "--server", "127.0.0.1:8889"], "expected a URL such as http://127.0.0.1:8889"),
        (["list", "--server", "http://me:secret@127.0.0.1"], "expected a URL such as http://127.0.0.1:8889"),
        (["swap", "a", "--file", "x", "--url", "y"], "--file, --url and --revision exclude each other"),
        (["swap", "a", "--signature", "x"], "--signature is for --file"),
        (["swap", "a", "--file", "/none"], "/none cannot be read: No such file or directory"),
        (["swap", "a", "--set", "weight"], "weight: expected KEY=VALUE"),
        (["swap", "a", "--set", "weight=1", "--set", "weight=2"], "weight=2: weight comes twice"),
        (["swap", "a", "--set", "timeout=2020-01-01"], "timeout=2020-01-01: Object of type date is not JSON"),
        (["swap", "a", "--set", f"guestConfig={'[' * 5000}"], "maximum recursion depth exceeded"),
        (["swap", "a", "--timeout", "5"], "expected a duration such as 500ms or 2s, at most 1h, found '5'"),
        (["list", "--token-file", "/none"], "/none cannot be read: No such file or directory"),
        (["rollback"], "Missing argument 'NAME'."),
    ],
)
def test_wrong_usage_is_told(command: Command, arguments: list[str], problem: str) -> None:
    ended = command("plugin", *arguments)
    assert (ended.status, ended.stdout) == (2, "")
    words = " ".join(ended.stderr.replace("│", " ").split())
    assert problem in words
    assert "secret" not in words


@pytest.mark.parametrize("content", [f"{TOKEN},alice,write\n", "\n"])
def test_a_token_file_without_just_a_token_is_refused_unquoted(command: Command, tmp_path: Path, content: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(content)
    ended = command("plugin", "list", "--token-file", file)
    assert (ended.status, ended.stdout) == (2, "")
    assert "expected a token and nothing else" in " ".join(ended.stderr.replace("│", " ").split())
    assert TOKEN not in ended.stderr
