"""The programs of the control plane, built from the Go module proxy once and kept outside the checkout."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .gobuild import (
    BUILD_ENVIRONMENT,
    BUILD_FLAGS,
    GoToolchain,
    compile_program,
    exclusive,
    module_directory,
    required_version,
    say,
)

MODULES: Final = Path(__file__).parent
KWOK_STAGES: Final = (
    "node/fast/node-initialize",
    "node/heartbeat-with-lease/node-heartbeat-with-lease",
    "pod/fast/pod-ready",
    "pod/fast/pod-complete",
    "pod/fast/pod-delete",
)


@dataclass(frozen=True, slots=True)
class Program:
    """One program: its file name, the folder of its go.mod, its main package, and the Go module it belongs to.

    `version_packages` are the packages whose gitVersion, gitMajor and gitMinor the linker sets: built from
    the module proxy they would say v0.0.0-master, which kubectl complains about.
    """

    name: str
    folder: str
    package: str
    module: str
    version_packages: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """The release that is built, for example `1.36.3`."""
        return required_version(MODULES / self.folder, self.module)

    @property
    def ldflags(self) -> str:
        """The linker's flags: no symbol tables, and the version."""
        major, minor, _ = self.version.split(".", 2)
        values = {"gitVersion": f"v{self.version}", "gitMajor": major, "gitMinor": minor}
        stamps = [f"-X {package}.{key}={value}" for package in self.version_packages for key, value in values.items()]
        return " ".join(["-s", "-w", *stamps])


def _kubernetes(name: str, folder: str) -> Program:
    stamped = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return Program(name, folder, f"k8s.io/kubernetes/cmd/{name}", "k8s.io/kubernetes", stamped)


def minor_of(release: str) -> str:
    """The minor of a release: `1.36` of `1.36.3`."""
    return ".".join(release.split(".")[:2])


def _age(minor: str) -> list[int]:
    return [int(part) for part in minor.split(".")]


CONTROL_PLANE: Final = (
    Program("etcd", "etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
    _kubernetes("kube-apiserver", "kubernetes"),
    _kubernetes("kubectl", "kubernetes"),
    Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok"),
)
SCHEDULERS: Final = {
    minor: _kubernetes("kube-scheduler", f"schedulers/{minor}")
    for minor in sorted((file.parent.name for file in MODULES.glob("schedulers/*/go.mod")), key=_age)
}
"""The kube-scheduler of each supported minor, the oldest first."""
OLDEST, *_, NEWEST = SCHEDULERS


@dataclass(frozen=True, slots=True)
class Binaries:
    """A directory with all of CONTROL_PLANE, and kwok's own stages for nodes and pods in one file; a scheduler."""

    directory: Path
    kube_scheduler: Path
    """The stock scheduler."""

    @property
    def etcd(self) -> Path:
        """The etcd server."""
        return self.directory / "etcd"

    @property
    def kube_apiserver(self) -> Path:
        """The API server."""
        return self.directory / "kube-apiserver"

    @property
    def kubectl(self) -> Path:
        """The command line client."""
        return self.directory / "kubectl"

    @property
    def kwok(self) -> Path:
        """The controller that plays the kubelets of fake nodes."""
        return self.directory / "kwok"

    @property
    def kwok_stages(self) -> Path:
        """What kwok makes of nodes and pods: YAML documents of kind Stage."""
        return self.directory / "stages.yaml"


def build(scheduler: str = NEWEST) -> Binaries:
    """Return the programs, with the kube-scheduler of a minor, building first what the cache does not have.

    It has none for other module files or another Go. The first build takes minutes and says on standard error how far
    it is; afterwards this takes milliseconds. Processes that ask at the same time build once. Raises BuildError.
    """
    directory = _built(CONTROL_PLANE, "the control plane", "about eight minutes")
    return Binaries(directory, build_scheduler(scheduler))


def build_scheduler(minor: str) -> Path:
    """Return the kube-scheduler of a minor in SCHEDULERS, as `build` does."""
    program = SCHEDULERS[minor]
    return _built([program], f"kube-scheduler {program.version}", "about three minutes") / program.name


def cache_root() -> Path:
    """Where builds are kept, by the XDG base directory specification."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kwx" / "controlplane"


def cache_key(programs: Sequence[Program], toolchain: GoToolchain) -> str:
    """A name that changes with whatever changes the programs: versions, Go, platform, module files, flags."""
    versions = [f"{program.name}-{program.version}" for program in programs]
    recipe = hashlib.sha256(repr((programs, KWOK_STAGES, BUILD_FLAGS, BUILD_ENVIRONMENT)).encode())
    for folder in dict.fromkeys(program.folder for program in programs):
        for file in sorted((MODULES / folder).glob("go.*")):
            recipe.update(file.read_bytes())
    return "-".join([*versions, toolchain.version, toolchain.platform, recipe.hexdigest()[:12]])


def _built(programs: Sequence[Program], title: str, duration: str) -> Path:
    """The directory of the programs, of the cache or freshly built."""
    directory = cache_root() / cache_key(programs, GoToolchain.find(MODULES / programs[0].folder))
    if not directory.is_dir():
        directory.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(_beside(directory, ".lock"), title):
            if not directory.is_dir():
                say(f"building {title} in {directory}; once, {duration} on two cores")
                _build_into(directory, programs)
    return directory


def _build_into(directory: Path, programs: Sequence[Program]) -> None:
    partial = _beside(directory, ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    for program in programs:
        title = f"{program.name} {program.version}"
        compile_program(MODULES / program.folder, program.package, partial / program.name, program.ldflags, title)
        if program.name == "kwok":
            _collect_stages(partial / "stages.yaml")
    partial.rename(directory)


def _collect_stages(target: Path) -> None:
    """The kwok program has no stages of its own: its release takes them from the module's kustomize folder."""
    stages = module_directory(MODULES / "kwok", "sigs.k8s.io/kwok") / "kustomize" / "stage"
    target.write_text("---\n".join((stages / f"{name}.yaml").read_text() for name in KWOK_STAGES))


def _beside(directory: Path, suffix: str) -> Path:
    return directory.with_name(directory.name + suffix)
