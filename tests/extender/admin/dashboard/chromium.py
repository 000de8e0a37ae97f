"""Chromium, driven by its DevTools protocol."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import pytest
import websocket

from tests.patience import PATIENCE_S, wait_until

PROGRAM: Final = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NEEDED: Final = pytest.mark.skipif(not PROGRAM, reason="there is no Chromium: apt-get install chromium")
"""The mark of tests that drive it."""

KEYS: Final = {"Tab": (9, ""), "Enter": (13, "\r"), "Space": (32, " ")}
"""The keys that are pressed: Windows' number of each, and what it types."""

_OPTIONS: Final = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync"
    " --disable-component-update --no-proxy-server --remote-debugging-port=0 --remote-allow-origins=*"
)


class Chromium:
    """A browser with one page; a context manager that ends it. Keeps what the page complains of."""

    def __init__(self, folder: Path) -> None:
        assert PROGRAM
        self._profile = folder / "chromium"
        self._log = folder / "chromium.log"
        with self._log.open("wb") as log:
            command = [PROGRAM, *_OPTIONS.split(), f"--user-data-dir={self._profile}", "about:blank"]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._numbers = count(1)
        self._is_loading = False
        self.complaints: list[str] = []

    def __enter__(self) -> Chromium:
        try:
            file = self._profile / "DevToolsActivePort"
            wait_until(lambda: file.exists() and file.read_text().count("\n"), self._log.read_text)
            port, path = file.read_text().split("\n")[:2]
            self._socket = websocket.create_connection(f"ws://127.0.0.1:{port}{path}", timeout=PATIENCE_S)
            self._session = ""
            target = self._ask("Target.createTarget", url="about:blank")["targetId"]
            self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log"):
                self._ask(f"{domain}.enable")
        except BaseException:
            self._process.kill()
            self._process.wait(PATIENCE_S)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()
        self._process.terminate()
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(PATIENCE_S)

    def open(self, url: str) -> None:
        """Shows a page, and waits until it is there and the browser says that it loads no more."""
        self._ask("Page.navigate", url=url)
        is_there = f"document.readyState == 'complete' && location.href.startsWith({json.dumps(url)})"
        wait_until(lambda: self.eval(is_there) and not self._is_loading, lambda: f"{url} is still loading")

    def until(self, expression: str) -> None:
        """Waits until a JavaScript expression is true in the page."""
        wait_until(lambda: self.eval(expression), lambda: f"{expression}\n{self.eval('document.body.innerText')}")

    def eval(self, expression: str) -> Any:
        """What a JavaScript expression gives; None while the page changes."""
        answer = self._ask("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer.get("result", {}).get("value")

    def resize(self, width: int) -> None:
        """Makes the page as wide as that many pixels."""
        self._ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )

    def scheme(self, name: str) -> None:
        """Prefers `light` or `dark`."""
        self._ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def press(self, key: str) -> None:
        """Presses and releases one of KEYS."""
        number, text = KEYS[key]
        for kind in ("keyDown", "keyUp"):
            typed = {"text": text} if kind == "keyDown" and text else {}
            name = text if key == "Space" else key
            self._ask("Input.dispatchKeyEvent", type=kind, key=name, code=key, windowsVirtualKeyCode=number, **typed)

    def type(self, text: str) -> None:
        """Types into what has the focus."""
        self._ask("Input.insertText", text=text)

    def choose(self, selector: str, file: Path) -> None:
        """Chooses a file, as the dialogue of an input does."""
        found = self._ask("Runtime.evaluate", expression=f"document.querySelector({json.dumps(selector)})")
        self._ask("DOM.setFileInputFiles", files=[str(file)], objectId=found["result"]["objectId"])

    def controls(self) -> list[tuple[str, str]]:
        """Role and name of each thing that can have the focus, as a screen reader has them."""
        nodes = {each["nodeId"]: each for each in self._ask("Accessibility.getFullAXTree")["nodes"]}

        def below(each: dict[str, Any]) -> Iterator[dict[str, Any]]:
            yield each
            for child in each.get("childIds", ()):
                yield from below(nodes[child])

        return [
            (each["role"]["value"], each["name"]["value"])
            for each in below(next(iter(nodes.values())))
            if any(one["name"] == "focusable" for one in each.get("properties", ()))
        ]

    def screenshot(self) -> bytes:
        """The page as PNG."""
        return base64.b64decode(self._ask("Page.captureScreenshot")["data"])

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        session = {"sessionId": self._session} if self._session else {}
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters} | session))
        while True:
            message: dict[str, Any] = json.loads(self._socket.recv())
            if message.get("method") in {"Page.frameStartedLoading", "Page.frameStoppedLoading"}:
                self._is_loading = message["method"] == "Page.frameStartedLoading"
            is_told = message.get("method") in {"Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"}
            if is_told and message["params"].get("entry", {}).get("level") != "verbose":  # Such is advice.
                self.complaints.append(json.dumps(message["params"]))
            if message.get("id") == number:
                result: dict[str, Any] = message.get("result", {})
                return result
