"""Where the API server is and who we are there, read by the Kubernetes client's own configuration loading."""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import yaml

from extender.cluster.client.errors import AccessError
from extender.config.yaml_loader import BoundedLoader

if TYPE_CHECKING:  # It is imported where a configuration is read: who asks no API server does without it.
    from kubernetes.client import Configuration

NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""Mounted into every pod. https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/"""


def kubeconfig_files(named: Path | None) -> Sequence[Path]:
    """The kubeconfigs that kubectl would merge, or `named`; none in a pod that has none. Raises AccessError.

    https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
    """
    listed = [Path(each) for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    files = [named] if named else listed or [Path("~/.kube/config")]
    found = [file for file in map(Path.expanduser, files) if file.is_file()]
    if found or (not named and NAMESPACE_FILE.is_file()):
        return found
    raise AccessError(f"there is no kubeconfig {_named(files)}: name one by --kubeconfig")


def from_kubeconfig(path: Path, context: str | None) -> Configuration:
    """As `from_kubeconfigs` of a single file, which has to be there. Raises AccessError."""
    path = path.expanduser()
    if not path.is_file():
        raise AccessError(
            f"kubeconfig {path} does not exist: set cluster.kubeconfig to a file that does, "
            "or cluster.mode to in-cluster, dry-run or none"
        )
    return from_kubeconfigs([path], context)


def from_kubeconfigs(paths: Sequence[Path], context: str | None) -> Configuration:
    """Read kubeconfigs, of which the first to name something counts; without `context` the current one is taken.

    Runs the credential plugin (`exec`) that a file may name, so this can take seconds. Raises AccessError.
    https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
    """
    from kubernetes.client import Configuration  # noqa: PLC0415
    from kubernetes.config import ConfigException, load_kube_config  # noqa: PLC0415

    configuration = Configuration()
    try:
        load_kube_config(os.pathsep.join(map(str, paths)), context or current_context(paths), configuration)
    except ConfigException as error:
        raise AccessError(f"kubeconfig {_named(paths)}: {error}; {_context_mend(paths[0], context)}") from error
    except Exception as error:
        # The client lets through whatever a malformed file makes of it: KeyError, TypeError, errors of YAML
        # and base64.
        cause = " ".join(str(error).split())
        raise AccessError(f"kubeconfig {_named(paths)} cannot be read: {type(error).__name__}: {cause}") from error
    return configuration


def current_context(paths: Sequence[Path]) -> str | None:
    """The current context of the first kubeconfig that has one: the client's own loading takes the last.

    It knows no bounds either, so all are read here first. Raises what YAML and files do.
    """
    found = None
    for path in paths:
        node = yaml.compose(path.read_bytes(), BoundedLoader)
        for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
            if key.value == "current-context" and isinstance(value, yaml.ScalarNode):
                found = found or value.value
    return found or None


def _named(paths: Sequence[Path]) -> str:
    return ", ".join(map(str, paths))


def from_service_account() -> Configuration:
    """Read what Kubernetes mounts into every pod: the service account's token and the cluster's CA.

    Raises AccessError. https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
    """
    from kubernetes.client import Configuration  # noqa: PLC0415
    from kubernetes.config import ConfigException, load_incluster_config  # noqa: PLC0415

    configuration = Configuration()
    try:
        load_incluster_config(configuration)
    except (ConfigException, OSError) as error:
        raise AccessError(
            f"no service account of a pod: {error} Outside of a cluster set cluster.mode to kubeconfig; "
            "in a pod leave automountServiceAccountToken on"
        ) from error
    return configuration


def pod_namespace() -> str:
    """The namespace of the pod that this process runs in. Raises AccessError."""
    try:
        return NAMESPACE_FILE.read_text().strip()
    except OSError as error:
        raise AccessError(f"no namespace of a pod: {error}; in a pod leave automountServiceAccountToken on") from error


def authorization(configuration: Configuration) -> str | None:
    """The value of the Authorization header as of now; None where a client certificate or nothing is used.

    Reads a rotated token and may run a credential plugin, so this can take seconds. Raises AccessError.
    """
    try:
        settings = configuration.auth_settings()
    except Exception as error:  # A credential plugin or an identity provider's client may raise anything.
        raise AccessError(f"cannot read the credentials for {configuration.host} again: {error}") from error
    header = settings["BearerToken"]["value"] if "BearerToken" in settings else None
    if not header:
        return None
    value = str(header).strip()
    # Said here, because the HTTP library's own error quotes the value.
    if not (value.isascii() and value.isprintable()):
        raise AccessError(f"the token for {configuration.host} has characters that no HTTP header can carry")
    return value


def tls_context(configuration: Configuration) -> ssl.SSLContext:
    """How the server is verified and which client certificate is shown to it. Raises AccessError."""
    try:
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        # From Python 3.13 on the default is strict and refuses the CAs of many clusters, which lack an
        # authority key identifier; Go's clients, kubectl among them, accept those.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not configuration.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, configuration.key_file)
    except OSError as error:  # ssl.SSLError is one
        raise AccessError(f"the certificates for {configuration.host} cannot be used: {error}") from error
    return context


def proxy(configuration: Configuration) -> str | None:
    """The proxy's URL, of the kubeconfig or of the environment; None where the server is reached directly."""
    from kubernetes.client.rest import should_bypass_proxies  # noqa: PLC0415

    if not configuration.proxy or should_bypass_proxies(configuration.host, configuration.no_proxy or ""):
        return None
    return str(configuration.proxy)


def _context_mend(path: Path, context: str | None) -> str:
    if context is None:
        return f"`kubectl --kubeconfig {path} config use-context NAME` chooses a context"
    return f"`kubectl --kubeconfig {path} config get-contexts` shows its contexts"
