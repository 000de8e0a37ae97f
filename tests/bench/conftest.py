"""The extender in Go, and the nodes that it is asked about."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.client import Connection
from bench.peers.apiserver import Cluster, api_server
from bench.peers.gopeer import go_extender

NODES = 12
"""Three of each instance type, one of them in each zone."""


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """An API server with NODES nodes that stay as they are."""
    with api_server(NODES) as running:
        yield running


@pytest.fixture(scope="session")
def peer(cluster: Cluster) -> Iterator[Connection]:
    """A connection to the extender in Go."""
    with go_extender(cluster.url) as port, Connection(port) as connection:
        yield connection
