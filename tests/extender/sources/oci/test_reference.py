"""Names of artifacts."""

from __future__ import annotations

import pytest

from extender.config.urls import Reference

DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    ("url", "reference"),
    [
        ("oci://registry.example/spread", Reference("registry.example", "spread", "latest", None)),
        (
            "oci://localhost:5000/a/b_c/d__e/f--g/h.i:V_1.0-x",
            Reference("localhost:5000", "a/b_c/d__e/f--g/h.i", "V_1.0-x", None),
        ),
        (f"oci://[::1]:5000/spread@{DIGEST}", Reference("[::1]:5000", "spread", "latest", DIGEST)),
        (f"oci://registry.example/spread:v1@{DIGEST}", Reference("registry.example", "spread", "v1", DIGEST)),
    ],
)
def test_an_artifact_is_named_as_for_docker(url: str, reference: Reference) -> None:
    assert Reference.parse(url) == reference


@pytest.mark.parametrize(
    "url",
    [
        "oci://registry.example",
        "oci://registry.example/",
        "oci:///spread",
        "registry.example/spread",
        "https://registry.example/spread",
        "oci://user:password@registry.example/spread",
        "oci://registry.example/Spread",
        "oci://registry.example/a/../b",
        "oci://registry.example/a//b",
        "oci://registry.example/a/",
        "oci://registry.example/spread:",
        "oci://registry.example/spread:v1:v2",
        f"oci://registry.example/spread:{'v' * 129}",
        "oci://registry.example/spread:é",
        "oci://registry.example:५/spread",
        "oci://registry.example/spread@sha256:00",
        f"oci://registry.example/spread@sha512:{'0' * 128}",
        "oci://registry.example/spread?tag=v1",
        "oci://registry.example/spread:v1\n",
    ],
)
def test_what_names_no_artifact_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r".*") as refused:
        Reference.parse(url)
    assert str(refused.value) == (
        "expected oci://REGISTRY/REPOSITORY with :TAG or @sha256:DIGEST, such as"
        f" oci://registry.example/policies/spread:v2, found {url.removesuffix('?tag=v1')!r}"
    )
