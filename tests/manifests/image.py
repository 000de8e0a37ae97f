"""The image of the manifests, as far as it can be had without a container engine: its files, its user, its commands."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from subprocess import Popen
from typing import NamedTuple

from tests.patience import PATIENCE_S

from .overlay import CHECKOUT, MANIFESTS

INSTALL_TIMEOUT_S = 300
STOP_TIMEOUT_S = 30

_AS_THE_IMAGE = """
for volume in $VOLUMES; do mount --bind "$volume" "$volume"; done
mount -o remount,bind,ro /
exec unshare --user --map-user="$1" --map-group="$2" -- "${@:3}"
"""
"""A script that runs a command as a user and group, to which all of the machine but the volumes is read-only."""


class Instruction(NamedTuple):
    """A line of the Dockerfile."""

    name: str
    words: Sequence[str]
    stage: int
    """Which `FROM` it follows, from 0."""


class Dockerfile:
    """The Dockerfile of the manifests, parsed."""

    def __init__(self) -> None:
        self.instructions = list(_instructions((MANIFESTS / "Dockerfile").read_text()))
        self._ignore = list(_rules((MANIFESTS / "Dockerfile.dockerignore").read_text()))

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of the image, but for PATH."""
        pairs = (word.split("=", 1) for word in self._words("ENV"))
        return {key: value for key, value in pairs if key != "PATH"}

    @property
    def user(self) -> tuple[str, str]:
        """The numbers of its user and group."""
        (words,) = self._words("USER")
        user, group = words.split(":")
        return user, group

    @property
    def command(self) -> list[str]:
        """The default command of the image."""
        return [word for name in ("ENTRYPOINT", "CMD") for word in json.loads(" ".join(self._words(name)))]

    def copy(self, stage: int, target: Path) -> None:
        """Copies what a stage takes out of the checkout, below `target`. A source without any file is an error."""
        for instruction in self.instructions:
            if (instruction.name, instruction.stage) == ("COPY", stage) and "--from" not in instruction.words[0]:
                *sources, place = instruction.words
                for source in sources:
                    self._copy(source, place, target)

    def _copy(self, pattern: str, place: str, target: Path) -> None:
        """Copies as COPY does: of a folder, its contents."""
        copied = 0
        for source in CHECKOUT.glob(pattern):
            for file in filter(Path.is_file, source.rglob("*") if source.is_dir() else [source]):
                if self._is_sent(file.relative_to(CHECKOUT)):
                    inside = file.relative_to(source) if source.is_dir() else Path(file.name)
                    beside = target / place.lstrip("/") / inside
                    beside.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(file, beside)
                    copied += 1
        assert copied, f"COPY {pattern} finds no file that .dockerignore lets in"

    def _is_sent(self, path: Path) -> bool:
        """Whether .dockerignore lets a file in: the last rule about it, or about a folder that it is in, counts."""
        places = [PurePosixPath(path), *PurePosixPath(path).parents]
        about = [is_sent for pattern, is_sent in self._ignore if any(pattern.fullmatch(str(each)) for each in places)]
        return about[-1] if about else True

    def _words(self, name: str) -> list[str]:
        return [word for each in self.instructions if each.name == name for word in each.words]


def _instructions(text: str) -> Iterator[Instruction]:
    stage = -1
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for line in lines.replace("\\\n", " ").splitlines():
        if line.strip():
            name, *words = line.split()
            stage += name == "FROM"
            yield Instruction(name, words, stage)


def _rules(text: str) -> Iterator[tuple[re.Pattern[str], bool]]:
    """Each pattern, and whether what it matches is sent. https://docs.docker.com/build/concepts/context/"""
    for line in text.splitlines():
        if line and not line.startswith("#"):
            pattern = re.escape(line.removeprefix("!")).replace(r"\*\*/", "(.*/)?").replace(r"\*", "[^/]*")
            yield re.compile(pattern), line.startswith("!")


class Image:
    """The image's files in a folder. The libraries that it would install are those of the tests."""

    def __init__(self, folder: Path) -> None:
        self.dockerfile = Dockerfile()
        self.root = folder / "image"
        self.home = folder / "source"
        self.environment = self.root / "venv"
        self.dockerfile.copy(0, self.home)
        self.dockerfile.copy(1, self.root)
        venv.create(self.environment, with_pip=True)
        self.packages = Path(sysconfig.get_path("purelib", vars={"base": str(self.environment)}))
        (self.packages / "libraries.pth").write_text(sysconfig.get_path("purelib"))
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "."]
        subprocess.run(
            [self.environment / "bin" / "python", *install], check=True, cwd=self.home, timeout=INSTALL_TIMEOUT_S
        )
        shutil.rmtree(self.home)

    @contextmanager
    def running(self, command: Sequence[str], volumes: Mapping[str, Path], log: Path) -> Iterator[Popen[bytes]]:
        """A command of the image, run as its user; only the volumes, by their place in it, can be written to.

        Standard output and errors go to `log`. Afterwards it is no more.
        """
        program = self.environment / "bin" / command[0]
        as_the_image = ["unshare", "--user", "--map-root-user", "--mount", "bash", "-euc", _AS_THE_IMAGE, "image"]
        variables = {"TMPDIR": "/tmp", "HOME": "/", **self.dockerfile.environment}
        placed = {key: _placed(value, volumes) for key, value in variables.items()}
        for volume in volumes.values():
            volume.mkdir(exist_ok=True)
        with log.open("wb") as output:
            process = Popen(
                [*as_the_image, *self.dockerfile.user, str(program), *command[1:]],
                cwd="/",
                env=placed | {"PATH": os.environ["PATH"], "VOLUMES": " ".join(map(str, volumes.values()))},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(PATIENCE_S)
                raise


def _placed(path: str, volumes: Mapping[str, Path]) -> str:
    """Where a path of the image is on this machine, if it is in a volume."""
    for place, volume in volumes.items():
        if PurePosixPath(path).is_relative_to(place):
            return str(volume / PurePosixPath(path).relative_to(place))
    return path


def has_namespaces() -> bool:
    """Whether this machine lets us have a read-only view of itself."""
    command = ["unshare", "--user", "--map-root-user", "--mount", "mount", "-o", "remount,bind,ro", "/"]
    if sys.platform != "linux":
        return False
    return subprocess.run(command, check=False, capture_output=True, timeout=PATIENCE_S).returncode == 0
