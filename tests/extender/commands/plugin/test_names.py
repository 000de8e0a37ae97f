"""The names of plugins, as a shell that completes `kwx plugin` gets them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from bench.controlplane.ports import free_port
from extender.commands.cli import app
from extender.commands.plugin import names
from extender.commands.plugin.remote import LOCAL
from tests.extender.kwx import Extender, plugin, profile
from tests.patience import PATIENCE_S, join


@pytest.fixture(scope="module")
def extender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    profiles = [
        profile("default", plugin("nodenumber", name="digits"), plugin("nodenumber", name="twice")),
        profile("batch", plugin("nodenumber", name="twice")),
    ]
    with Extender(tmp_path_factory.mktemp("names"), *profiles) as extender:
        yield extender


def completed(line: str, admin_url: str, **more: str) -> tuple[str, str]:
    """What bash gets for the last word of a line, and what is shown on the terminal beside it."""
    words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    environment = {"_KWX_COMPLETE": "complete_bash", "KWX_ADMIN": admin_url, **words, **more}
    ended = CliRunner().invoke(app, [], prog_name="kwx", env=environment)
    return ended.stdout, ended.stderr


def test_each_name_is_told_once(extender: Extender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "ASKING_TIMEOUT_S", PATIENCE_S)
    assert completed("kwx plugin show ", extender.admin_url) == ("digits\ntwice\n", "")
    assert completed("kwx plugin history tw", extender.admin_url) == ("twice\n", "")
    assert completed("kwx call filter a.wasm pod.json --plugin d", extender.admin_url) == ("digits\n", "")


def test_there_is_no_word_of_what_cannot_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "ASKING_TIMEOUT_S", PATIENCE_S)
    nobody = f"http://127.0.0.1:{free_port()}"
    assert completed("kwx plugin show ", nobody) == ("\n", "")
    assert completed("kwx plugin show ", nobody, KWX_TOKEN_FILE=str(tmp_path / "none")) == ("\n", "")


def test_who_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "ASKING_TIMEOUT_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"http://127.0.0.1:{silent.getsockname()[1]}"
        ctx: Any = SimpleNamespace(obj=None, params=LOCAL._replace(server=server)._asdict())
        assert names.complete_plugins(ctx) == []
        (asking,) = [each for each in threading.enumerate() if each.name == "completion"]
    join(asking)
