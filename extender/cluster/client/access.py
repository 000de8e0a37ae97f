"""Where the API server is and who we are there, read by the Kubernetes client's own configuration loading."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

import yaml
from kubernetes.client import Configuration
from kubernetes.client.rest import should_bypass_proxies
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config

from extender.cluster.client.errors import AccessError
from extender.config.yaml_loader import BoundedLoader

NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""Mounted into every pod. https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/"""


def from_kubeconfig(path: Path, context: str | None) -> Configuration:
    """Read a kubeconfig file; without `context` its current one counts.

    Runs the credential plugin (`exec`) that the file may name, so this can take seconds. Raises AccessError.
    https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
    """
    path = path.expanduser()
    if not path.is_file():
        raise AccessError(
            f"kubeconfig {path} does not exist: set cluster.kubeconfig to a file that does, "
            "or cluster.mode to in-cluster, dry-run or none"
        )
    configuration = Configuration()
    try:
        yaml.compose(path.read_bytes(), BoundedLoader)  # The client's own loading knows no bounds.
        load_kube_config(str(path), context, configuration)
    except ConfigException as error:
        raise AccessError(f"kubeconfig {path}: {error}; {_context_mend(path, context)}") from error
    except Exception as error:
        # The client lets through whatever a malformed file makes of it: KeyError, TypeError, errors of YAML
        # and base64.
        cause = " ".join(str(error).split())
        raise AccessError(f"kubeconfig {path} cannot be read: {type(error).__name__}: {cause}") from error
    return configuration


def from_service_account() -> Configuration:
    """Read what Kubernetes mounts into every pod: the service account's token and the cluster's CA.

    Raises AccessError. https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
    """
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
    if not configuration.proxy or should_bypass_proxies(configuration.host, configuration.no_proxy or ""):
        return None
    return str(configuration.proxy)


def _context_mend(path: Path, context: str | None) -> str:
    if context is None:
        return f"`kubectl --kubeconfig {path} config use-context NAME` chooses a context"
    return f"`kubectl --kubeconfig {path} config get-contexts` shows its contexts"
