"""`kwx` as a user runs it: its commands, and `kwx serve` as a process on free ports."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import msgspec
import yaml

from bench.controlplane.process import LAUNCHER, isolated_environment
from tests.extender import guests
from tests.patience import PATIENCE_S, wait_until

KWX = Path(sys.executable).with_name("kwx")
ON_PURPOSE = {"X-Requested-With": "tests"}
"""The headers of a GET that occupies one of a few places, where there are no tokens."""
OUR_FAULT = "a request failed for a fault of our own"


def run(*arguments: str | Path, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command, with the output of both streams."""
    return subprocess.run(
        [KWX, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=home,
        env=environment_of(home) | environment,
    )


def environment_of(home: Path) -> dict[str, str]:
    """An environment with a home of its own, and the compiled code of all tests."""
    return isolated_environment(home) | {"XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"]}


def plugin(guest: str, settings: str = "", *, name: str = "", **more: Any) -> dict[str, Any]:
    """A plugin as the configuration has it; `guest` is an example or a guest of this folder."""
    return {"name": name or guest, "guestURL": f"file://./{guest}.wasm", "guestConfig": settings, **more}


def failure(failing: Mapping[str, Any], cause: str) -> str:
    """The message of a plugin's failure: its name, the revision of its module, the cause."""
    return f"plugin {failing['name']} ({guests.revision(Path(failing['guestURL']).stem)}): {cause}"


def profile(name: str, *plugins: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A profile as the configuration has it."""
    return {"name": name, "plugins": list(plugins), **more}


def configuration(*profiles: Mapping[str, Any], **sections: Any) -> dict[str, Any]:
    """A configuration that listens on ports which the system chooses."""
    return {
        "apiVersion": "kwx.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "server": {"address": "127.0.0.1:0", "adminAddress": "127.0.0.1:0"} | sections.pop("server", {}),
        "profiles": list(profiles),
        **sections,
    }


def write(folder: Path, content: Mapping[str, Any]) -> Path:
    """Writes a configuration and the modules that it names into a folder."""
    for each in content["profiles"]:
        for entry in each["plugins"]:
            _provide(folder, Path(entry["guestURL"]).stem)
    file = folder / "extender.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file


def _provide(folder: Path, guest: str) -> None:
    if guests.example(guest).exists() or (guests.FOLDER / f"{guest}.wat").exists():
        guests.build(guest, folder)


def condition(view: Mapping[str, Any], kind: str) -> tuple[str, str, str]:
    """Status, reason and message of a condition of what the admin API shows."""
    (found,) = [each for each in view["conditions"] if each["type"] == kind]
    return found["status"], found["reason"], found["message"]


class Extender:
    """`kwx serve` in a folder of its own; a context manager that ends it.

    Leaving it asserts that the process was still up, ended with status 0 at SIGTERM, or was killed by `kill`, logged
    JSON only and met no fault of its own. Another one in the same folder goes on where it was.
    """

    def __init__(
        self, folder: Path, *profiles: Mapping[str, Any], tls: ssl.SSLContext | None = None, **sections: Any
    ) -> None:
        """`tls` is how its clients know it and what they show."""
        self.folder = folder
        self._tls = tls
        self.config = write(folder, configuration(*profiles, **sections))
        self._log = folder / "extender.log"
        self._status = 0
        leash = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid())]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*leash, *self.program, "serve", "--config", str(self.config)],
                cwd=folder,
                env=environment_of(folder),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def __enter__(self) -> Extender:
        try:
            self.wait_until(lambda: self.events("serving"))
        except BaseException:
            self.process.kill()
            self.process.wait(PATIENCE_S)
            raise
        (serving,) = self.events("serving")
        self.url, self.admin_url = serving["verbs"], serving["admin"]
        self.client = client(self.url, self._tls)
        self.admin = client(self.admin_url, self._tls)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.client.close()
        self.admin.close()
        status = self.stop()
        if kind is None:
            assert status == self._status, self._log.read_text()
            assert self.events(OUR_FAULT) == []

    @property
    def program(self) -> Sequence[str]:
        """The beginning of the command, in the place of `kwx`."""
        return [str(KWX)]

    @property
    def address(self) -> tuple[str, int]:
        """Where the verbs are."""
        url = httpx.URL(self.url)
        assert url.port
        return url.host, url.port

    def post(self, path: str, request: Any) -> Any:
        """Asks a verb; the answer must be 200. `request` is JSON as bytes or what becomes JSON."""
        body = request if isinstance(request, bytes) else msgspec.json.encode(request)
        answer = self.client.post(path, content=body)
        assert answer.status_code == httpx.codes.OK, answer.text
        return answer.json()

    def refuse(self, path: str, body: bytes | Iterable[bytes]) -> tuple[int, str]:
        """Asks what cannot be answered: the status, and the message of the body."""
        answer = self.client.post(path, content=body)
        assert list(answer.json()) == ["error"]
        return answer.status_code, answer.json()["error"]

    def log(self) -> list[dict[str, Any]]:
        """The lines of the log until now."""
        return [msgspec.json.decode(line) for line in self._log.read_bytes().splitlines(keepends=True) if b"\n" in line]

    def events(self, event: str) -> list[dict[str, Any]]:
        """The lines of the log with one message."""
        return [line for line in self.log() if line["event"] == event]

    def wait_until(self, condition: Callable[[], object], timeout: float = PATIENCE_S) -> None:
        """Waits for something that the running process does."""

        def is_so() -> object:
            assert self.process.poll() is None, self._log.read_text()
            return condition()

        wait_until(is_so, self._log.read_text, timeout)

    def kill(self) -> None:
        """Ends the process where it is, as the kernel does with one that takes too much memory."""
        assert self.process.poll() is None, self._log.read_text()
        self.process.kill()
        self._status = -signal.SIGKILL

    def stop(self) -> int:
        """Ends the process as Kubernetes does: its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait(PATIENCE_S)


def client(url: str, tls: ssl.SSLContext | None = None) -> httpx.Client:
    """A client that holds every answer to a Content-Length."""
    return httpx.Client(
        base_url=url,
        trust_env=False,
        verify=tls or False,
        timeout=30,
        headers={"Content-Type": "application/json"} | ON_PURPOSE,
        event_hooks={"response": [_check_length]},
    )


def _check_length(answer: httpx.Response) -> None:
    body = answer.read()
    assert answer.headers["content-length"] == str(len(body))
    assert "transfer-encoding" not in answer.headers


def problems(result: subprocess.CompletedProcess[str], config: Path) -> Sequence[str]:
    """The lines by which a command refused a configuration, without the name of the file in each."""
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(f"kwx: {config}: "), result.stderr
    lines = result.stderr.removeprefix("kwx: ").splitlines()
    assert all(line.startswith(f"{config}: ") for line in lines), result.stderr
    return [line.removeprefix(f"{config}: ") for line in lines]
