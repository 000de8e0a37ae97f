"""`kwx push`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from extender.commands import inspect
from extender.commands.artifact.options import TRANSFER, Transfer, failing, transfers
from extender.commands.inspect import InspectionError
from extender.commands.inspect.report import InspectionReport
from extender.commands.output import View, ViewOption, fail, write_json
from extender.config import RuntimeConfig, quantity
from extender.config.urls import Reference, check_url
from extender.sources.download import Limit
from extender.sources.file import read
from extender.sources.oci.publish import publish
from extender.sources.private_key import PASSWORD, PrivateKey
from wasm_runtime.blob import Blob
from wasm_runtime.module.toolchain import UNKNOWN

OCI: Final = "oci://"

_ANNOTATION: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,251}[A-Za-z0-9])?=.{0,4096}", re.DOTALL)

OWN: Final = "dev.kwx."
"""The prefix of the annotations that `kwx push` makes of what `kwx inspect` finds."""


class Pushed(msgspec.Struct):
    """An artifact that was pushed to a registry."""

    reference: str
    """The artifact's URL with the digest of its manifest: a guestURL that always gives this module."""
    digest: str
    """The digest of the module."""
    annotations: Mapping[str, str]
    signer: str | None
    """Fingerprint of the key that signed the module; None if it was not signed."""


@transfers
def push(
    module: Annotated[Path, typer.Argument(metavar="MODULE", help="A .wasm file.", show_default=False)],
    target: Annotated[
        str,
        typer.Argument(
            metavar="REFERENCE", help="Where it goes, such as oci://registry.example/tier:v1.", show_default=False
        ),
    ],
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"Private key in PEM to sign with; {PASSWORD} has its password, if any."),
    ] = None,
    annotation: Annotated[
        list[str] | None, typer.Option(metavar="NAME=TEXT", help="An annotation of the artifact; repeatable.")
    ] = None,
    transfer: Transfer = TRANSFER,
    output: ViewOption = View.TABLE,
) -> None:
    """Push a module to an OCI registry, with annotations that tell what it is.

    The login is docker's. A module that cannot be a plugin is not pushed.
    """
    reference = _reference(target)
    given = _annotations(annotation or [])
    try:
        report = inspect.inspect(module)
    except InspectionError as error:
        fail(str(error))
    if report.problems:
        fail("\n".join(f"{module} {problem}" for problem in report.problems))
    with failing():
        signing = PrivateKey.read(key) if key else None
        wasm = Blob(read(module, Limit(RuntimeConfig().module_limit)))
        annotations = {**_told(report), **given}
        seconds, ca_file = quantity.seconds(transfer.timeout), transfer.ca_file
        digest = publish(reference, module.name, wasm, annotations, key=signing, timeout=seconds, ca_file=ca_file)
    name = f"{OCI}{reference.registry}/{reference.repository}:{reference.tag}@{digest}"
    signer = signing.public.fingerprint if signing else None
    if output is View.JSON:
        write_json(Pushed(name, wasm.digest, annotations, signer))
        return
    typer.echo(f"{name}\nmodule {wasm.digest}, {len(wasm.content)} bytes")
    if signer:
        typer.echo(f"signed by {key} ({signer})")


def _reference(target: str) -> Reference:
    """The reference that a module is pushed to; `oci://` may be left out. Raises BadParameter."""
    url = target if "://" in target else f"{OCI}{target}"
    try:
        check_url(url)
        reference = Reference.parse(url)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'REFERENCE'") from error
    if reference.digest:
        raise typer.BadParameter("expected a tag: the digest is that of what is pushed", param_hint="'REFERENCE'")
    return reference


def _annotations(given: list[str]) -> dict[str, str]:
    """The annotations of the command line, each NAME=TEXT, by name. Raises BadParameter."""
    for each in given:
        if not _ANNOTATION.fullmatch(each) or each.startswith(OWN):
            raise typer.BadParameter(
                f"expected NAME=TEXT with a name that does not begin with {OWN}, and up to 4096 characters, found"
                f" {each[:100]!r}",
                param_hint="'--annotation'",
            )
    return dict(each.split("=", 1) for each in given)


def _told(report: InspectionReport) -> dict[str, str]:
    """What an inspection has found about a module, as annotations; what it has not found is left out."""
    told = {
        "extension-points": ",".join(report.extension_points),
        "abi": "kube-scheduler-wasm-extension" if report.portable else "kube-wasm-extender",
        "resident-exports": ",".join(report.resident_exports),
        "language": report.language if report.language != UNKNOWN else "",
        "sdk": report.sdk,
        "config-schema": msgspec.json.encode(report.config_schema).decode() if report.config_schema else "",
    }
    return {f"{OWN}{name}": text for name, text in told.items() if text}
