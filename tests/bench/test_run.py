"""The document of a run: written, read, described, and gone on with."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest

from bench import session
from bench.run import FILE, Run, RunError
from bench.schema import schema
from tests.bench import runs


@pytest.mark.parametrize("run", [runs.plugin(), runs.scheduler()], ids=["plugin", "scheduler"])
def test_a_run_that_was_written_is_read(run: Run, tmp_path: Path) -> None:
    run.save(tmp_path)
    assert Run.load(tmp_path) == Run.load(tmp_path / FILE) == run
    assert [file.name for file in tmp_path.iterdir()] == [FILE]
    jsonschema.validate(json.loads((tmp_path / FILE).read_text()), json.loads(schema()))


def test_the_schema_says_what_keys_mean() -> None:
    described = json.loads(schema())["$defs"]["Series"]["properties"]
    assert described["better"] == {"enum": ["higher", "lower"]}
    assert described["variant"] == {"type": "string"}
    assert described["parts"]["description"].startswith("The mean of each part (PARTS) in each round.")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "{file} cannot be read: No such file or directory; give the folder that a run wrote"),
        ("{", "{file} is no run of `kwx bench`: Input data was truncated"),
        ("{}", "{file} is no run of `kwx bench`: Object missing required field `level`"),
    ],
)
def test_what_is_no_run_is_refused(content: str | None, message: str, tmp_path: Path) -> None:
    file = tmp_path / FILE
    if content is not None:
        file.write_text(content)
    with pytest.raises(RunError) as caught:
        Run.load(tmp_path)
    assert str(caught.value) == message.format(file=file)


def test_another_release_s_run_is_refused(tmp_path: Path) -> None:
    msgspec.structs.replace(runs.plugin(), schema="kwx.dev/bench/v2").save(tmp_path)
    with pytest.raises(RunError) as caught:
        Run.load(tmp_path)
    expected = "has the schema 'kwx.dev/bench/v2', this release reads 'kwx.dev/bench/v1'"
    assert str(caught.value) == f"{tmp_path / FILE} {expected}"


def test_a_run_goes_on_in_its_folder_or_not_at_all(tmp_path: Path) -> None:
    new = msgspec.structs.replace(runs.plugin(), ended="", cases=[])
    begun = session.begin(new, tmp_path)
    assert begun == new
    assert session.begin(msgspec.structs.replace(new, begun="2026-02-01T00:00:00Z"), tmp_path) == new
    with pytest.raises(RunError) as caught:
        session.begin(msgspec.structs.replace(new, command="kwx bench plugin --full"), tmp_path)
    assert str(caught.value) == (
        f"{tmp_path} has a run with which this one cannot go on, for the command would differ: `{new.command}`;"
        " choose another folder"
    )
    msgspec.structs.replace(new, ended="2026-01-01T01:00:00Z").save(tmp_path)
    with pytest.raises(RunError) as caught:
        session.begin(new, tmp_path)
    assert str(caught.value) == f"{tmp_path} has a run that is done: choose another folder, or remove this one"


def test_a_folder_that_cannot_be_written_is_said_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "folder"
    with pytest.raises(RunError) as caught:
        session.begin(runs.plugin(), folder)
    assert str(caught.value) == f"the run cannot be written into {folder}: Not a directory"
