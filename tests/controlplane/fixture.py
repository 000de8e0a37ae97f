"""One control plane for all tests of a session, and the kube-schedulers that are tested with it.

A test that asks for `cluster`, or for `kube_scheduler` itself, runs with the newest supported minor; with the oldest as
well if it is marked `oldest`; with the minor of `--scheduler` alone if that is given. If it is marked `newest`, it is
left out where that is another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from bench.controlplane import NEWEST, OLDEST, SCHEDULERS, BuildError, ControlPlane, build
from bench.controlplane.binaries import build_scheduler

OPTION = "--scheduler"

POD_GROUPS = (
    "--feature-gates=GenericWorkload=true",
    "--runtime-config=scheduling.k8s.io/v1beta1=true",
    "--disable-admission-plugins=PodGroupProtection",  # Nobody would take its finalizer off again.
)
"""Flags by which the API server has PodGroups, which it does not by default."""


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """A control plane without nodes and without a scheduler; tests add theirs and `clear` afterwards."""
    with ControlPlane(api_server_flags=POD_GROUPS) as running:
        yield running


@pytest.fixture
def kube_scheduler(request: pytest.FixtureRequest) -> Path:
    """The program of the minor that the test is run with."""
    return build_scheduler(request.param)


@pytest.fixture
def cluster(control_plane: ControlPlane, kube_scheduler: Path) -> Iterator[ControlPlane]:
    """The control plane without leftovers, whose scheduler is of the minor that the test is run with."""
    control_plane.clear()
    yield control_plane.with_scheduler(kube_scheduler)
    control_plane.clear()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Registers OPTION."""
    told = "run the tests that ask for a kube-scheduler, and no others, with this minor"
    parser.addoption(OPTION, choices=list(SCHEDULERS), help=told)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Makes a test for each minor that it concerns."""
    if "kube_scheduler" in metafunc.fixturenames:
        oldest = [OLDEST] if metafunc.definition.get_closest_marker("oldest") else []
        chosen = metafunc.config.getoption(OPTION)
        minors = [chosen] if chosen else [*oldest, NEWEST]
        if metafunc.definition.get_closest_marker("newest"):
            left_out = pytest.mark.skip(f"not for a kube-scheduler that is older than {NEWEST}: run make test")
            minors = [minor if minor == NEWEST else pytest.param(minor, marks=left_out) for minor in minors]
        metafunc.parametrize("kube_scheduler", minors, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the tests that the minor of OPTION does not concern."""
    if config.getoption(OPTION):
        config.hook.pytest_deselected(items=[item for item in items if "kube_scheduler" not in _fixtures(item)])
        items[:] = [item for item in items if "kube_scheduler" in _fixtures(item)]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds the programs that tests need: the first time takes longer than any test may."""
    if session.config.option.collectonly:
        return
    functions = [item for item in session.items if isinstance(item, pytest.Function)]
    asking = [item for item in functions if "kube_scheduler" in item.fixturenames]
    minors = {str(item.callspec.params["kube_scheduler"]) for item in asking}
    if minors or any("control_plane" in item.fixturenames for item in functions):
        with suppress(BuildError):  # Those tests tell.
            for minor in [NEWEST, *minors]:
                build(minor)


def _fixtures(item: pytest.Item) -> list[str]:
    return getattr(item, "fixturenames", [])
