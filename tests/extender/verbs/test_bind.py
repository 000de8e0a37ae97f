from __future__ import annotations

from pathlib import Path

from tests.extender.kwx import Extender, plugin, profile
from tests.extender.objects import binding_args

PROFILES = (profile("default", plugin("nodenumber")), profile("other", plugin("trap")))


def test_without_a_cluster_bind_is_an_error_that_says_what_to_configure(tmp_path: Path) -> None:
    cause = (
        "cannot bind pod default/web-7 to node node-7: bind needs an API server and cluster.mode is none;"
        " set cluster.mode to kubeconfig or in-cluster, or take bindVerb out of the scheduler's extender"
    )
    with Extender(tmp_path, *PROFILES) as extender:
        assert extender.post("/bind", binding_args()) == {"Error": cause}
        assert extender.post("/profiles/other/bind", binding_args()) == {"Error": cause}
        lines = extender.events(f"bind failed: {cause}")
        assert [(line["level"], line["pod"], line["node"]) for line in lines] == [
            ("error", "default/web-7", "node-7"),
            ("error", "default/web-7", "node-7"),
        ]


def test_a_dry_run_succeeds_and_logs_what_would_be_bound(tmp_path: Path) -> None:
    with Extender(tmp_path, *PROFILES, cluster={"mode": "dry-run"}) as extender:
        assert extender.post("/bind", binding_args("node-7")) == {"Error": ""}
        assert extender.post("/profiles/other/bind", binding_args("node-8")) == {"Error": ""}
        lines = extender.events("dry run: would bind the pod")
        assert [(line["level"], line["pod"], line["uid"], line["node"]) for line in lines] == [
            ("info", "default/web-7", "uid-of-web-7", "node-7"),
            ("info", "default/web-7", "uid-of-web-7", "node-8"),
        ]
