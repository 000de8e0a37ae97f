"""The programs of the control plane, built from the Go module proxy once and kept outside the checkout."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

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

MODULES = Path(__file__).parent
KWOK_STAGES = (
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


def _kubernetes(name: str) -> Program:
    stamped = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return Program(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}", "k8s.io/kubernetes", stamped)


PROGRAMS = (
    Program("etcd", "etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
    _kubernetes("kube-apiserver"),
    _kubernetes("kube-scheduler"),
    _kubernetes("kubectl"),
    Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok"),
)


@dataclass(frozen=True, slots=True)
class Binaries:
    """A directory with all of PROGRAMS, and kwok's own stages for nodes and pods in one file."""

    directory: Path

    @property
    def etcd(self) -> Path:
        """The etcd server."""
        return self.directory / "etcd"

    @property
    def kube_apiserver(self) -> Path:
        """The API server."""
        return self.directory / "kube-apiserver"

    @property
    def kube_scheduler(self) -> Path:
        """The stock scheduler."""
        return self.directory / "kube-scheduler"

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


def build() -> Binaries:
    """Return the programs, building them first where the cache has none for these modules and this Go.

    The first build takes minutes and says on standard error how far it is; afterwards this takes
    milliseconds. Processes that ask at the same time build once. Raises BuildError.
    """
    toolchain = GoToolchain.find(MODULES / "kubernetes")
    directory = cache_root() / cache_key(toolchain)
    if not directory.is_dir():
        directory.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(_beside(directory, ".lock"), "the control plane"):
            if not directory.is_dir():
                _build_into(directory)
    return Binaries(directory)


def cache_root() -> Path:
    """Where builds are kept, by the XDG base directory specification."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kwx" / "controlplane"


def cache_key(toolchain: GoToolchain) -> str:
    """A name that changes with whatever changes the programs: versions, Go, platform, module files, flags."""
    versions = dict.fromkeys(f"{program.folder}-{program.version}" for program in PROGRAMS)
    recipe = hashlib.sha256(repr((PROGRAMS, KWOK_STAGES, BUILD_FLAGS, BUILD_ENVIRONMENT)).encode())
    for file in sorted(MODULES.glob("*/go.*")):
        recipe.update(file.read_bytes())
    return "-".join([*versions, toolchain.version, toolchain.platform, recipe.hexdigest()[:12]])


def _build_into(directory: Path) -> None:
    started = time.monotonic()
    say(f"building the control plane in {directory}; once, about eight minutes on two cores")
    partial = _beside(directory, ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    for program in PROGRAMS:
        title = f"{program.name} {program.version}"
        compile_program(MODULES / program.folder, program.package, partial / program.name, program.ldflags, title)
    _collect_stages(Binaries(partial).kwok_stages)
    partial.rename(directory)
    say(f"built the control plane in {time.monotonic() - started:.0f} s")


def _collect_stages(target: Path) -> None:
    """The kwok program has no stages of its own: its release takes them from the module's kustomize folder."""
    stages = module_directory(MODULES / "kwok", "sigs.k8s.io/kwok") / "kustomize" / "stage"
    target.write_text("---\n".join((stages / f"{name}.yaml").read_text() for name in KWOK_STAGES))


def _beside(directory: Path, suffix: str) -> Path:
    return directory.with_name(directory.name + suffix)
