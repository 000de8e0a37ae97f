"""Builds happen once, and a build that cannot happen says what mends it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.controlplane import BuildError, binaries, gobuild
from bench.controlplane.gobuild import GoToolchain, compile_program, required_version
from bench.peers import gopeer
from tests.manifests.overlay import CHECKOUT
from tests.patience import PATIENCE_S, Beside, delay, wait_until

ETCD = binaries.MODULES / "etcd"


def fake_go(directory: Path, script: str) -> None:
    """A `go` in `directory` that does what the shell script says."""
    program = directory / "go"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_without_go_the_mend_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No `go` on PATH is an error before anything starts."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match=r"`go` was not found: install Go 1\.26\.0 or newer"):
        binaries.build()


def test_an_old_go_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version found and the version needed are both named."""
    fake_go(tmp_path, """echo '{"GOVERSION": "go1.19.8", "GOOS": "linux", "GOARCH": "amd64"}'""")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match=r"go1\.19\.8 is too old .* install Go 1\.26\.0"):
        GoToolchain.find(ETCD)


def test_a_go_that_does_not_end_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one does that waits for a download."""
    fake_go(tmp_path, "exec /bin/sleep 60")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(gobuild, "GO_TIMEOUT_S", 0.2)
    with pytest.raises(BuildError) as caught:
        gobuild.module_directory(ETCD, "example.com/module")
    assert str(caught.value) == (
        "`go mod download -json example.com/module` has not ended within 0.2 s:"
        " see whether Go reaches what it downloads from (`go env GOPROXY`)"
    )


def test_a_failed_build_shows_the_end_of_its_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler's last lines are in the error, not its first."""
    fake_go(tmp_path, "i=0; while [ $i -lt 100 ]; do echo line $i; i=$((i+1)); done; exit 3")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError) as caught:
        compile_program(ETCD, "some/package", tmp_path / "out", "", "etcd 1.2.3")
    lines = str(caught.value).splitlines()
    assert lines[0] == "`go build` of etcd 1.2.3 failed with exit status 3:"
    assert lines[1:] == [f"line {number}" for number in range(60, 100)]


def test_a_long_build_says_that_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Silence never lasts longer than the interval: the build ends once three lines have said that it goes on."""
    enough = tmp_path / "enough"
    fake_go(tmp_path, f"for i in $(/usr/bin/seq 1000); do [ -e {enough} ] && exit 0; /bin/sleep 0.02; done; exit 3")
    say, said = gobuild.say, []

    def count(line: str) -> None:
        say(line)
        said.append(line)
        if len(said) == 4:
            enough.touch()

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(gobuild, "PROGRESS_INTERVAL_S", 0.1)
    monkeypatch.setattr(gobuild, "say", count)
    compile_program(ETCD, "some/package", tmp_path / "out", "", "etcd 1.2.3")
    begun, *progress, ended = (re.sub(r"\d+ s$", "N s", line) for line in capsys.readouterr().err.splitlines())
    assert (begun, ended) == ("building etcd 1.2.3 …", "built etcd 1.2.3 in N s")
    assert set(progress) == {"building etcd 1.2.3 … N s"}


def test_a_build_ends_with_the_command(tmp_path: Path) -> None:
    """By SIGTERM."""
    has_begun, held = tmp_path / "begun", tmp_path / "held"
    os.mkfifo(held)
    toolchain = """echo '{"GOVERSION": "go1.99.0", "GOOS": "linux", "GOARCH": "amd64"}'"""
    compiling = f"exec 3>{held}; : >{has_begun}; exec /bin/sleep 600"
    fake_go(tmp_path, f'if [ "$1" = env ]; then {toolchain}; else {compiling}; fi')
    released = Beside(held.read_bytes)  # Ends when Go has.
    command = subprocess.Popen(
        [sys.executable, "-m", "bench.controlplane"],
        cwd=CHECKOUT,
        env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(has_begun.exists, "a build")
    command.terminate()
    _, told = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 128 + signal.SIGTERM
    assert [line.partition(" ")[0] for line in told.splitlines()] == ["building", "building"]
    assert released.end() == b""


def test_concurrent_callers_build_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All get the one finished directory; none sees a half-built one."""
    builds: list[Path] = []

    def slow_build(directory: Path, _programs: object) -> None:
        builds.append(directory)
        delay(0.3)
        directory.mkdir()

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(binaries, "_build_into", slow_build)
    results = [caller.end() for caller in [Beside(binaries.build) for _ in range(4)]]
    control_plane, scheduler = builds
    assert results == [binaries.Binaries(control_plane, scheduler / "kube-scheduler")] * 4


def test_the_key_follows_the_toolchain() -> None:
    """Another Go or another platform is another build; the versions can be read off the name."""
    keys = {
        binaries.cache_key(binaries.CONTROL_PLANE, GoToolchain(version, platform))
        for version in ("go1.26.0", "go1.27.0")
        for platform in ("linux-amd64", "linux-arm64")
    }
    assert len(keys) == 4
    assert all(f"{program.name}-{program.version}-" in key for key in keys for program in binaries.CONTROL_PLANE)


def test_a_scheduler_of_each_minor_is_built_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One control plane serves them all: its directory stays, whichever scheduler is asked for."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(binaries, "_build_into", lambda directory, _programs: directory.mkdir())
    built = [binaries.build(minor) for minor in binaries.SCHEDULERS]
    assert len({each.directory for each in built}) == 1
    assert [each.kube_scheduler.parent.name.split("-go")[0] for each in built] == [
        f"kube-scheduler-{program.version}" for program in binaries.SCHEDULERS.values()
    ]


def test_the_folder_of_a_minor_has_a_release_of_it() -> None:
    releases = [program.version for program in binaries.SCHEDULERS.values()]
    assert [binaries.minor_of(release) for release in releases] == list(binaries.SCHEDULERS)


def test_no_scheduler_is_newer_than_the_api_server() -> None:
    """It would wait for kinds of objects that the API server does not have, and never become ready."""
    versions = {program.name: program.version for program in binaries.CONTROL_PLANE}
    assert binaries.minor_of(versions["kube-apiserver"]) == binaries.NEWEST


def test_peers_are_measured_beside_a_stock_scheduler_of_their_release() -> None:
    """What is different then is the extender or the plugin alone."""
    assert binaries.SCHEDULERS[binaries.NEWEST].version == required_version(gopeer.MODULE, "k8s.io/kubernetes")
    assert binaries.SCHEDULERS["1.34"].version == required_version(gopeer.COSCHEDULING, "k8s.io/kubernetes")
