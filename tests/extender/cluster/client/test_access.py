"""What is wrong with a kubeconfig or a service account is said before anything is asked of a server."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest
from kubernetes.client import Configuration

from bench.peers.kubeconfig import write_kubeconfig
from extender.cluster import AccessError, ApiServer, pod_namespace
from extender.cluster.client import access
from extender.cluster.client.access import (
    from_kubeconfig,
    from_kubeconfigs,
    from_service_account,
    kubeconfig_files,
    proxy,
    tls_context,
)


def load_error(path: Path, context: str | None = None) -> str:
    """The message of a kubeconfig that cannot be loaded."""
    with pytest.raises(AccessError) as caught:
        ApiServer.from_kubeconfig(path, context)
    return str(caught.value)


def test_a_missing_file_is_named_with_the_keys_that_mend_it(tmp_path: Path) -> None:
    path = tmp_path / "config"
    assert load_error(path) == (
        f"kubeconfig {path} does not exist: set cluster.kubeconfig to a file that does, "
        "or cluster.mode to in-cluster, dry-run or none"
    )


def test_the_home_directory_may_be_written_as_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_kubeconfig(tmp_path / "config", {"server": "http://127.0.0.1:1"})
    monkeypatch.setenv("HOME", str(tmp_path))
    assert ApiServer.from_kubeconfig(Path("~/config")).address == "http://127.0.0.1:1"


@pytest.mark.parametrize("content", ["apiVersion: v1", "contexts: []\ncurrent-context: ''"])
def test_a_file_without_a_current_context_says_how_to_choose_one(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    message = load_error(path)
    assert message.startswith(f"kubeconfig {path}: Invalid kube-config file.")
    assert message.endswith(f"`kubectl --kubeconfig {path} config use-context NAME` chooses a context")


def test_an_unknown_context_says_how_to_list_them(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "config", {"server": "http://127.0.0.1:1"})
    message = load_error(path, "elsewhere")
    assert "Expected object with name elsewhere" in message
    assert message.endswith(f"`kubectl --kubeconfig {path} config get-contexts` shows its contexts")


@pytest.mark.parametrize("content", ["{", "just text", "[1, 2]", "", "\x00"])
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    assert load_error(path).startswith(f"kubeconfig {path}")


def test_a_context_is_chosen_by_its_name(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "config", {"server": "http://127.0.0.1:1"})
    path.write_text(path.read_text().replace("current-context: here", "current-context: none"))
    assert from_kubeconfig(path, "here").host == "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("user", "cluster"),
    [
        ({"client-certificate-data": "bm9uc2Vuc2U=", "client-key-data": "bm9uc2Vuc2U="}, {}),
        ({}, {"certificate-authority-data": "bm9uc2Vuc2U="}),
    ],
    ids=["client certificate", "authority"],
)
def test_certificates_that_are_none_are_refused(tmp_path: Path, user: dict[str, str], cluster: dict[str, str]) -> None:
    path = write_kubeconfig(tmp_path / "config", {"server": "https://127.0.0.1:1", **cluster}, user)
    assert load_error(path).startswith("the certificates for https://127.0.0.1:1 cannot be used: ")


def test_a_missing_certificate_file_is_named(tmp_path: Path) -> None:
    cluster = {"server": "https://127.0.0.1:1", "certificate-authority": "ca.crt"}
    assert str(tmp_path / "ca.crt") in load_error(write_kubeconfig(tmp_path / "config", cluster))


def test_outside_of_a_pod_in_cluster_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(AccessError) as caught:
        ApiServer.in_cluster()
    assert str(caught.value) == (
        "no service account of a pod: Service host/port is not set. Outside of a cluster set cluster.mode to "
        "kubeconfig; in a pod leave automountServiceAccountToken on"
    )


def test_a_pod_without_a_mounted_token_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(AccessError, match=r"Service token file does not exist\. .* automountServiceAccountToken on"):
        from_service_account()


def test_the_namespace_of_a_pod_is_what_kubernetes_mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "namespace"
    monkeypatch.setattr(access, "NAMESPACE_FILE", file)
    with pytest.raises(AccessError) as caught:
        pod_namespace()
    assert str(caught.value) == (
        f"no namespace of a pod: [Errno 2] No such file or directory: '{file}';"
        " in a pod leave automountServiceAccountToken on"
    )
    file.write_text("kwx-system\n")
    assert pod_namespace() == "kwx-system"


def test_a_server_is_verified_unless_the_kubeconfig_says_otherwise(tmp_path: Path) -> None:
    cluster = {"server": "https://127.0.0.1:1"}
    verified = tls_context(from_kubeconfig(write_kubeconfig(tmp_path / "a", cluster), None))
    assert (verified.verify_mode, verified.check_hostname) == (ssl.CERT_REQUIRED, True)
    cluster_unverified = {**cluster, "insecure-skip-tls-verify": True}
    unverified = tls_context(from_kubeconfig(write_kubeconfig(tmp_path / "b", cluster_unverified), None))
    assert (unverified.verify_mode, unverified.check_hostname) == (ssl.CERT_NONE, False)


@pytest.mark.parametrize(
    ("no_proxy", "expected"),
    [("", "http://proxy.example:3128"), ("10.0.0.0/8", None), ("example.com", "http://proxy.example:3128")],
)
def test_a_proxy_of_the_environment_counts_unless_it_is_excepted(
    monkeypatch: pytest.MonkeyPatch, no_proxy: str, expected: str | None
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://proxy.example:3128")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, no_proxy)
    configuration = Configuration()
    configuration.host = "https://10.1.2.3"
    assert proxy(configuration) == expected


def test_aliases_without_end_are_refused_before_they_are_followed(tmp_path: Path) -> None:
    file = tmp_path / "config"
    aliases = (
        f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    file.write_text(f"a: &a [1, 2]\n{''.join(aliases)}")
    assert load_error(file).startswith(
        f"kubeconfig {file} cannot be read: ComposerError: the aliases stand for more than 1000000 characters in "
    )


def test_of_several_files_the_first_to_name_something_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters, users and contexts are those of all files; files that are not there are passed over, as by kubectl."""
    first = write_kubeconfig(tmp_path / "first", {"server": "http://127.0.0.1:1"})
    second = write_kubeconfig(tmp_path / "second", {"server": "http://127.0.0.1:2"})
    second.write_text(second.read_text().replace("here", "there"))
    listed = [tmp_path / "missing", first, second]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, listed)) + os.pathsep)
    files = kubeconfig_files(None)
    assert files == [first, second]
    assert from_kubeconfigs(files, None).host == "http://127.0.0.1:1"
    assert from_kubeconfigs(files, "there").host == "http://127.0.0.1:2"
    assert from_kubeconfigs([second, first], None).host == "http://127.0.0.1:2"
    assert kubeconfig_files(second) == [second]


def test_without_any_of_several_files_all_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([str(tmp_path / "a"), str(tmp_path / "b")]))
    with pytest.raises(AccessError) as caught:
        kubeconfig_files(None)
    assert str(caught.value) == f"there is no kubeconfig {tmp_path}/a, {tmp_path}/b: name one by --kubeconfig"
