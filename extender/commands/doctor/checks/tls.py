"""Whether kube-scheduler and the extender trust each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from typing import Final

from extender.commands.doctor.check import Check, Problem, Severity
from extender.commands.doctor.facts import Entry, Readiness
from extender.commands.doctor.scheduler import TlsConfig
from extender.config.urls import is_loopback
from extender.rollouts.registration import Registration

_INVALID: Final = ("has expired on", "is not valid before")
"""How the extender says at /readyz that its certificate is not valid now."""


def _without_ca(entry: Entry) -> Iterator[Problem]:
    extender, tls = entry.extender, entry.extender.tls_config
    if extender.url.scheme != "https" or (tls and (tls.ca_file or tls.ca_data or tls.insecure)):
        return
    trusted = "any certificate" if extender.enable_https else "only what the system's authorities have signed"
    yield Problem(
        f"{entry.key('urlPrefix')} is https and {entry.key('tlsConfig')} has no caFile: kube-scheduler accepts"
        f" {trusted}",
        f"set {entry.key('tlsConfig.caFile')} to the authority of the extender's certificate",
    )


def _host(entry: Entry, extender: Registration, certificate_hosts: Sequence[str]) -> Iterator[Problem]:
    tls = entry.extender.tls_config or TlsConfig()
    trusts_all = tls.insecure or (entry.extender.enable_https and not (tls.ca_file or tls.ca_data))
    if entry.extender.url.scheme != "https" or not extender.has_tls or trusts_all:
        return
    host = tls.server_name or entry.extender.address[0]
    if host and not is_for(host, certificate_hosts):
        named = "tlsConfig.serverName" if tls.server_name else "urlPrefix"
        yield Problem(
            f"{entry.key(named)} names {host}, and the extender's certificate is for"
            f" {', '.join(certificate_hosts) or 'no host (subjectAltName)'}: kube-scheduler refuses it, and each"
            " request fails",
            f"have the certificate that server.tls.certFile names issued for {host} as well, or set"
            f" {entry.key('tlsConfig.serverName')} to a host that it is for",
        )


def is_for(host: str, certificate_hosts: Sequence[str]) -> bool:
    """Whether kube-scheduler takes a certificate for a host's; `*` stands for a first label.

    https://pkg.go.dev/crypto/x509#Certificate.VerifyHostname
    """
    try:
        address = ip_address(host)
    except ValueError:
        name = host.lower().removesuffix(".")
        taken = {f"dns:{name}", f"dns:*.{name.partition('.')[2]}"}
        return any(each.lower() in taken for each in certificate_hosts)
    return f"IP:{getattr(address, 'ipv4_mapped', None) or address}" in certificate_hosts


def _insecure(entry: Entry) -> Iterator[Problem]:
    tls = entry.extender.tls_config
    if entry.extender.url.scheme == "https" and tls and tls.insecure:
        yield Problem(
            f"{entry.key('tlsConfig.insecure')} is true: kube-scheduler accepts any certificate",
            "set tlsConfig.caFile to the authority of the extender's certificate, and leave out insecure",
        )


def _plain(entry: Entry) -> Iterator[Problem]:
    extender = entry.extender
    asked = [
        key for key, is_set in (("enableHTTPS", extender.enable_https), ("tlsConfig", extender.tls_config)) if is_set
    ]
    if extender.url.scheme == "http" and asked:
        yield Problem(
            f"{entry.key()} has {' and '.join(asked)}, and urlPrefix is {extender.url_prefix}: kube-scheduler goes"
            " by the URL, and nothing is encrypted",
            "write https in urlPrefix",
        )


def _scheme(entry: Entry, extender: Registration) -> Iterator[Problem]:
    scheme = entry.extender.url.scheme
    if scheme == "https" and not extender.has_tls:
        yield Problem(
            f"{entry.key('urlPrefix')} is https, and the extender speaks plain http: each request fails",
            "set server.tls, or write http in urlPrefix where both are on one machine",
        )
    if scheme == "http" and extender.has_tls:
        yield Problem(
            f"{entry.key('urlPrefix')} is http, and the extender speaks TLS alone (server.tls): each request fails",
            "print the entry anew by kwx scheduler-config",
        )


def _uncertified(entry: Entry, extender: Registration) -> Iterator[Problem]:
    tls = entry.extender.tls_config
    if extender.asks_for_certificates and not (tls and (tls.cert_file or tls.cert_data)):
        yield Problem(
            f"the extender asks for client certificates (server.tls.clientCAFile), and {entry.key('tlsConfig')} has no"
            " certFile: each request fails",
            "set certFile and keyFile to a certificate that this CA has signed",
        )


def _open(extender: Registration) -> Iterator[Problem]:
    if not is_loopback(extender.host) and not extender.asks_for_certificates:
        channel = "without a clientCAFile" if extender.has_tls else "without TLS (server.allowUnencrypted)"
        yield Problem(
            f"the extender listens on {extender.host} {channel}: whoever reaches the port decides for every pod",
            "set server.tls.clientCAFile, and give kube-scheduler a client certificate",
        )


def _invalid(readiness: Readiness) -> Iterator[Problem]:
    for line in filter(is_refused, readiness.warnings):
        yield Problem(
            f"kube-scheduler refuses the extender's certificate: {line}",
            "renew what server.tls.certFile names; the extender reads it again by itself",
        )


def is_refused(warning: str) -> bool:
    """Whether a line of /readyz says that the certificate of the verbs is not valid now."""
    return warning.startswith("tls ok, but ") and any(f"the certificate {each}" in warning for each in _INVALID)


CHECKS: Final = (
    Check("tls-no-ca", Severity.ERROR, "HTTPS without a CA: kube-scheduler trusts everybody, or nobody.", _without_ca),
    Check("tls-host", Severity.ERROR, "The extender's certificate is for other hosts than kube-scheduler asks.", _host),
    Check("tls-insecure", Severity.WARNING, "`tlsConfig.insecure` is set.", _insecure),
    Check("tls-scheme", Severity.ERROR, "One of the two speaks TLS, and the other does not.", _scheme),
    Check(
        "tls-no-certificate",
        Severity.ERROR,
        "The extender asks for client certificates, and kube-scheduler has none.",
        _uncertified,
    ),
    Check("tls-open", Severity.WARNING, "Anybody who reaches the verbs may decide for pods.", _open),
    Check("tls-expired", Severity.ERROR, "The extender's certificate is not valid now.", _invalid),
    Check("tls-http-url", Severity.ERROR, "TLS is configured, and `urlPrefix` is plain http.", _plain),
)
