from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.commands.scheduler_config import Choices, build
from extender.rollouts import load
from extender.rollouts.registration import Registration
from tests.extender import kwx
from tests.extender.kwx import plugin, profile

BOTH = [profile("default", plugin("accelerator"), plugin("nodenumber"))]
ALL_VERBS = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "preemptVerb": "preempt"}
BIND = {"bindVerb": "bind"}
EVERY = plugin("every_export")


def built(folder: Path, profiles: Sequence[Mapping[str, Any]], choices: Choices, **sections: Any) -> dict[str, Any]:
    with closing(load(kwx.write(folder, kwx.configuration(*profiles, **sections)))) as loaded:
        return build(Registration.of(loaded.configuration, loaded.live), choices)


def expected(schedulers: Sequence[str] = ("default-scheduler",), **extender: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": True},
        "profiles": [{"schedulerName": name} for name in schedulers],
        "extenders": [
            {
                "urlPrefix": "http://127.0.0.1:0",
                "weight": 1,
                "nodeCacheCapable": False,
                "httpTimeout": "5s",
                "ignorable": False,
            }
            | extender
        ],
    }


@pytest.mark.parametrize(
    ("mode", "extender"),
    [
        ("none", ALL_VERBS),
        ("dry-run", ALL_VERBS),
        ("kubeconfig", ALL_VERBS | BIND | {"nodeCacheCapable": True}),
        ("in-cluster", ALL_VERBS | BIND | {"nodeCacheCapable": True}),
    ],
)
def test_the_cluster_mode_decides_about_bind_and_the_shape_of_requests(
    tmp_path: Path, mode: str, extender: dict[str, Any]
) -> None:
    profiles = [profile("default", plugin("accelerator"), EVERY)]
    assert built(tmp_path, profiles, Choices(), cluster={"mode": mode}) == expected(**extender)


@pytest.mark.parametrize("point", ["reserve", "permit", "preBind", "bind", "postBind"])
def test_bind_is_registered_for_a_plugin_with_a_part_in_it(tmp_path: Path, point: str) -> None:
    profiles = [profile("default", plugin("every_export", extensionPoints=[point]))]
    answer = built(tmp_path, profiles, Choices(), cluster={"mode": "in-cluster"})
    assert answer == expected(filterVerb="filter", **BIND, nodeCacheCapable=True)


def test_who_decides_about_groups_sees_all_nodes(tmp_path: Path) -> None:
    profiles = [profile("default", plugin("tell_groups")), profile("plain", plugin("accelerator"))]
    answer = built(tmp_path, profiles, Choices(), cluster={"mode": "in-cluster"})
    assert answer["profiles"] == [
        {"schedulerName": "default-scheduler", "percentageOfNodesToScore": 100},
        {"schedulerName": "plain"},
    ]


def test_bind_is_left_to_the_scheduler_where_no_plugin_has_a_part_in_it(tmp_path: Path) -> None:
    answer = built(tmp_path, BOTH, Choices(), cluster={"mode": "in-cluster"})
    assert answer == expected(**ALL_VERBS, nodeCacheCapable=True)


def test_an_extender_without_bind_may_be_ignorable(tmp_path: Path) -> None:
    answer = built(tmp_path, BOTH, Choices(ignorable=True), cluster={"mode": "in-cluster"})
    assert answer == expected(**ALL_VERBS, nodeCacheCapable=True, ignorable=True)


@pytest.mark.parametrize(
    ("profiles", "verbs"),
    [
        ([profile("default", plugin("nodenumber"))], {"prioritizeVerb": "prioritize"}),
        ([profile("default", plugin("accelerator"))], {"filterVerb": "filter", "preemptVerb": "preempt"}),
        ([profile("default", plugin("postfilter_from_config", "00"))], {"preemptVerb": "preempt"}),
        (
            [profile("default", plugin("prefilter_from_config", "00", extensionPoints=["preFilter"]))],
            {"filterVerb": "filter", "preemptVerb": "preempt"},
        ),
        ([profile("default", plugin("every_export", extensionPoints=["score"]))], {"prioritizeVerb": "prioritize"}),
        ([profile("default", plugin("nodenumber"), topNodes=1)], {"filterVerb": "filter"}),
        (
            [profile("default", plugin("nodenumber"), topNodes=5)],
            {"filterVerb": "filter", "prioritizeVerb": "prioritize"},
        ),
        (
            [profile("default", plugin("nodenumber"), topNodes=1), profile("other", plugin("nodenumber"))],
            {"filterVerb": "filter", "prioritizeVerb": "prioritize"},
        ),
    ],
)
def test_only_verbs_that_a_plugin_serves_are_registered(
    tmp_path: Path, profiles: list[dict[str, Any]], verbs: dict[str, str]
) -> None:
    names = [each["name"].replace("default", "default-scheduler") for each in profiles]
    assert built(tmp_path, profiles, Choices(node_cache_capable=False)) == expected(names, **verbs)


def test_bind_is_registered_where_pods_get_annotations_by_it(tmp_path: Path) -> None:
    profiles = [profile("default", plugin("accelerator"), simulatorResults=True)]
    found = built(tmp_path, profiles, Choices(), cluster={"mode": "in-cluster"})
    assert found["extenders"][0]["bindVerb"] == "bind"


def test_names_are_enough_where_no_plugin_reads_nodes(tmp_path: Path) -> None:
    names_only = [profile("default", plugin("nodenumber"))]
    assert built(tmp_path, names_only, Choices()) == expected(prioritizeVerb="prioritize", nodeCacheCapable=True)


def test_verbs_of_all_profiles_and_their_scheduler_names_are_registered_once(tmp_path: Path) -> None:
    profiles = [
        profile("gpu", plugin("accelerator")),
        profile("default", plugin("nodenumber")),
        profile("default-scheduler", plugin("nodenumber")),
    ]
    assert built(tmp_path, profiles, Choices()) == expected(["gpu", "default-scheduler"], **ALL_VERBS)


@pytest.mark.parametrize(
    ("timeouts", "http_timeout"),
    [
        (["500ms"], "5s"),
        (["2s"], "5s"),
        (["2001ms"], "5002ms"),
        (["2s", "3s"], "11s"),
        (["1250ms", "1s"], "5500ms"),
        (["1h"], "7201s"),
    ],
)
def test_kube_scheduler_waits_longer_than_all_plugins_may_take_in_both_halves_of_preempt(
    tmp_path: Path, timeouts: list[str], http_timeout: str
) -> None:
    plugins = [plugin("nodenumber", name=f"p{at}", timeout=timeout) for at, timeout in enumerate(timeouts)]
    profiles = [profile("small", plugin("nodenumber")), profile("default", *plugins)]
    answer = built(tmp_path, profiles, Choices())
    assert answer["extenders"][0]["httpTimeout"] == http_timeout


@pytest.mark.parametrize(
    ("bind_timeout", "http_timeout"),
    [("1s", "5s"), ("4s", "5s"), ("4500ms", "5500ms"), ("9s", "10s")],
)
def test_kube_scheduler_waits_longer_than_bind_may_take(tmp_path: Path, bind_timeout: str, http_timeout: str) -> None:
    profiles = [profile("default", plugin("accelerator"), EVERY)]
    sections = {"server": {"bindTimeout": bind_timeout}, "cluster": {"mode": "kubeconfig"}}
    assert built(tmp_path, profiles, Choices(), **sections) == expected(
        **ALL_VERBS, **BIND, nodeCacheCapable=True, httpTimeout=http_timeout
    )


@pytest.mark.parametrize(("bind_timeout", "http_timeout"), [("9001ms", "10001ms"), ("10m", "601s"), ("1h", "3601s")])
def test_bind_has_an_entry_of_its_own_where_it_may_take_much_longer(
    tmp_path: Path, bind_timeout: str, http_timeout: str
) -> None:
    """kube-scheduler has one timeout for all verbs of an entry, and judges no other pod while it waits for filter."""
    profiles = [profile("default", plugin("accelerator"), EVERY)]
    sections = {"server": {"bindTimeout": bind_timeout}, "cluster": {"mode": "kubeconfig"}}
    answer = built(tmp_path, profiles, Choices(), **sections)
    (judging,) = expected(**ALL_VERBS, nodeCacheCapable=True)["extenders"]
    (binding,) = expected(**BIND, nodeCacheCapable=True, httpTimeout=http_timeout)["extenders"]
    assert answer["extenders"] == [judging, binding]


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("127.0.0.1:8888", "http://127.0.0.1:8888"),
        ("0.0.0.0:9000", "http://127.0.0.1:9000"),
        ("[::]:9000", "http://127.0.0.1:9000"),
        ("[::1]:9000", "http://[::1]:9000"),
        ("extender.example:80", "http://extender.example:80"),
    ],
)
def test_the_url_is_where_the_verbs_listen(tmp_path: Path, address: str, url: str) -> None:
    more = {} if address.startswith(("127.", "[::1]")) else {"allowUnencrypted": True}
    answer = built(tmp_path, BOTH, Choices(), server={"address": address, **more})
    assert answer["extenders"][0]["urlPrefix"] == url


TLS = {"certFile": "tls.crt", "keyFile": "tls.key"}
CA = {"clientCAFile": "ca.crt"}
WHERE = "/etc/kubernetes/kwx"
SHOWN = {"certFile": f"{WHERE}/tls.crt", "keyFile": f"{WHERE}/tls.key"}


@pytest.mark.parametrize(
    ("tls", "choices", "config"),
    [
        (TLS, Choices(), {"caFile": f"{WHERE}/ca.crt"}),
        (TLS | CA, Choices(), {"caFile": f"{WHERE}/ca.crt"} | SHOWN),
        (
            TLS | CA,
            Choices(ca_file="/a/ca", cert_file="/a/cert", key_file="/a/key", server_name="kwx.example"),
            {"caFile": "/a/ca", "certFile": "/a/cert", "keyFile": "/a/key", "serverName": "kwx.example"},
        ),
    ],
)
def test_with_tls_kube_scheduler_knows_the_extender_and_shows_what_it_asks_for(
    tmp_path: Path, tls: dict[str, str], choices: Choices, config: dict[str, str]
) -> None:
    answer = built(tmp_path, BOTH, choices, server={"address": "0.0.0.0:8888", "tls": tls})
    (extender,) = answer["extenders"]
    assert extender["urlPrefix"] == "https://127.0.0.1:8888"
    assert (extender["enableHTTPS"], extender["tlsConfig"]) == (True, config)


def test_options_of_tls_are_refused_where_the_verbs_have_none(tmp_path: Path) -> None:
    file = kwx.write(tmp_path, kwx.configuration(*BOTH))
    result = kwx.run("scheduler-config", "--config", file, "--ca-file=ca.crt", home=tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (
        1,
        "",
        "kwx: --ca-file, --cert-file, --key-file and --server-name are for verbs with TLS: set server.tls, or leave"
        " them out\n",
    )


def test_who_registers_verbs_that_anybody_may_ask_is_told(tmp_path: Path) -> None:
    server = {"address": "0.0.0.0:8888", "tls": TLS}
    file = kwx.write(tmp_path, kwx.configuration(*BOTH, server=server))
    result = kwx.run("scheduler-config", "--config", file, home=tmp_path)
    assert (result.returncode, result.stderr) == (
        0,
        "kwx: server.tls has no clientCAFile: whoever reaches the port decides for every pod; set it, and give"
        " kube-scheduler a client certificate\n",
    )


@pytest.mark.parametrize("more", [{"allowUnencrypted": True}, {"tls": TLS}])
def test_no_bind_verb_is_printed_for_an_extender_that_refuses_bind(tmp_path: Path, more: dict[str, Any]) -> None:
    profiles = [profile("default", plugin("every_export", extensionPoints=["permit"]))]
    server = {"address": "0.0.0.0:8888", **more}
    file = kwx.write(tmp_path, kwx.configuration(*profiles, server=server, cluster={"mode": "in-cluster"}))
    result = kwx.run("scheduler-config", "--config", file, home=tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (
        1,
        "",
        "kwx: server.address: plugin every_export of profile default has a part in binding (permit), and off loopback"
        " bind is refused to clients without a certificate: set server.tls.clientCAFile, or leave out those exports by"
        " extensionPoints\n",
    )


YAML = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: /etc/kubernetes/scheduler.conf
leaderElection:
  leaderElect: false
profiles:
- schedulerName: default-scheduler
extenders:
- urlPrefix: http://extender.kube-system:8888
  filterVerb: filter
  prioritizeVerb: prioritize
  preemptVerb: preempt
  bindVerb: bind
  weight: 7
  nodeCacheCapable: false
  httpTimeout: 5s
  ignorable: false
"""
OPTIONS = (
    "--full-nodes",
    "--weight=7",
    "--url=http://extender.kube-system:8888",
    "--kubeconfig=/etc/kubernetes/scheduler.conf",
    "--no-leader-election",
)


def test_the_command_prints_yaml(tmp_path: Path) -> None:
    file = kwx.write(tmp_path, kwx.configuration(profile("default", EVERY), cluster={"mode": "in-cluster"}))
    result = kwx.run("scheduler-config", "--config", file, *OPTIONS, home=tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (0, YAML, "")


NOTES = """\
kwx: profile default has topNodes 1: scores of in-tree plugins (topology spread, preferred affinity, image locality and\
 others) do not count; what in-tree plugins require counts as ever
kwx: profile five has topNodes 5: scores of in-tree plugins (topology spread, preferred affinity, image locality and\
 others) count among these 5 alone; what in-tree plugins require counts as ever
kwx: with topNodes this extender has to be the last of the extenders, behind ignorable ones as well: another that\
 rejects the nodes that are left keeps the pod pending, though it would have kept others
"""


def test_what_top_nodes_give_up_is_said_beside_the_yaml(tmp_path: Path) -> None:
    profiles = [profile("default", plugin("nodenumber"), topNodes=1), profile("five", plugin("nodenumber"), topNodes=5)]
    result = kwx.run("scheduler-config", "--config", kwx.write(tmp_path, kwx.configuration(*profiles)), home=tmp_path)
    assert (result.returncode, result.stderr) == (0, NOTES)
    (extender,) = yaml.safe_load(result.stdout)["extenders"]
    assert (extender["filterVerb"], extender["prioritizeVerb"]) == ("filter", "prioritize")


def test_the_command_prints_json_and_nothing_else(tmp_path: Path) -> None:
    file = kwx.write(tmp_path, kwx.configuration(profile("default", plugin("every_export"), plugin("talk"))))
    result = kwx.run("scheduler-config", "--config", file, "--output=json", "--node-cache-capable", home=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout) == expected(**ALL_VERBS, nodeCacheCapable=True)


def test_the_command_refuses_a_bad_configuration(tmp_path: Path) -> None:
    file = kwx.write(tmp_path, kwx.configuration(profile("default", plugin("no_memory"))))
    result = kwx.run("scheduler-config", "--config", file, "--output=json", home=tmp_path)
    assert list(kwx.problems(result, file)) == [
        f"profiles[0].plugins[0].guestURL: plugin no_memory: {tmp_path}/no_memory.wasm exports no memory named"
        " 'memory': the host hands everything to a guest through it"
    ]


def test_the_command_refuses_an_ignorable_extender_that_may_refuse_to_bind(tmp_path: Path) -> None:
    """kube-scheduler would bind the pod by itself."""
    profiles = [
        profile("default", EVERY, plugin("accelerator")),
        profile("gang", plugin("every_export", name="gang", extensionPoints=["permit"])),
    ]
    file = kwx.write(tmp_path, kwx.configuration(*profiles, cluster={"mode": "in-cluster"}))
    result = kwx.run("scheduler-config", "--config", file, "--ignorable", home=tmp_path)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        "kwx: --ignorable: plugin every_export of profile default has a part in binding (reserve, bindingannotations,"
        " unreserve, permit, prebind, bind, postbind) and plugin gang of profile gang has a part in binding (permit),"
        " and kube-scheduler binds by itself what an ignorable extender refuses to bind: leave out --ignorable, or"
        " those exports by extensionPoints\n"
    )
