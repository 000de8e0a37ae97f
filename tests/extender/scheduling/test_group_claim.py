"""Which group a pod says that it is of, and what it says of that group."""

from __future__ import annotations

from typing import Any

import pytest

from extender.scheduling.group_claim import LABEL, MAX_NUMBER, MINIMUM, OLD_LABEL, TIMEOUT, Claim, claim
from tests.extender.objects import pod
from wasm_runtime.abi import GroupSource
from wasm_runtime.pods.group_table import GroupKey
from wasm_runtime.protobuf.encode import encode_pod

BY_FIELD = GroupKey(GroupSource.SCHEDULING_GROUP, "default", "train")
BY_LABEL = GroupKey(GroupSource.LABEL, "default", "train")


def said(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **spec: Any) -> Claim | None:
    """What is read of such a pod."""
    made = pod(annotations=annotations)
    made["metadata"]["labels"] = labels or {}
    made["spec"] |= spec
    return claim(encode_pod(made))


GROUP = {"schedulingGroup": {"podGroupName": "train"}}


@pytest.mark.parametrize(
    ("labels", "spec", "expected"),
    [
        ({}, {}, None),
        ({"app": "train"}, {"priority": 7}, None),
        ({MINIMUM: "4"}, {}, None),
        ({}, GROUP, Claim(BY_FIELD)),
        ({}, GROUP | {"priority": 7}, Claim(BY_FIELD, priority=7)),
        ({}, GROUP | {"priority": -7}, Claim(BY_FIELD, priority=-7)),
        ({}, GROUP | {"priority": -(2**31)}, Claim(BY_FIELD, priority=-(2**31))),
        ({}, {"schedulingGroup": {}}, None),
        ({LABEL: "train"}, {}, Claim(BY_LABEL)),
        ({OLD_LABEL: "train"}, {}, Claim(BY_LABEL)),
        ({LABEL: "train", OLD_LABEL: "old"}, {}, Claim(BY_LABEL)),
        ({LABEL: "", OLD_LABEL: "train"}, {}, Claim(BY_LABEL)),
        ({LABEL: "other", MINIMUM: "4"}, GROUP, Claim(BY_FIELD)),
        ({LABEL: "train", MINIMUM: "4", TIMEOUT: "60"}, {"priority": 1}, Claim(BY_LABEL, 4, 60, 1)),
        ({LABEL: "train", TIMEOUT: "60"}, GROUP, Claim(BY_FIELD, 0, 60)),
        ({OLD_LABEL: "train", MINIMUM: str(MAX_NUMBER)}, {}, Claim(BY_LABEL, MAX_NUMBER)),
        ({LABEL: ""}, {}, None),
        ({LABEL: "t" * 254}, {}, None),
        ({LABEL: "t" * 253}, {}, Claim(BY_LABEL._replace(name="t" * 253))),
    ],
)
def test_a_pod_names_its_group(labels: dict[str, str], spec: dict[str, Any], expected: Claim | None) -> None:
    assert said(labels, **spec) == expected


def test_numbers_may_be_annotations_and_labels_come_first() -> None:
    assert said({LABEL: "train"}, {MINIMUM: "4", TIMEOUT: "60"}) == Claim(BY_LABEL, 4, 60)
    assert said({LABEL: "train", MINIMUM: "3"}, {MINIMUM: "4", TIMEOUT: "60"}) == Claim(BY_LABEL, 3, 60)


def test_a_group_is_not_named_by_an_annotation() -> None:
    assert said({}, {LABEL: "train"}) is None


@pytest.mark.parametrize("text", ["", "half", "-1", "0", "1.5", "+4", " 4", "2147483648", "99999999999", "٤"])
def test_a_number_that_cannot_be_read_does_not_count_and_says_what_it_should_be(text: str) -> None:
    assert said({LABEL: "train"}, {MINIMUM: text, TIMEOUT: "60"}) == Claim(
        BY_LABEL,
        0,
        60,
        problem=f"{MINIMUM} of a pod is {text!r}; make it a whole number from 1 to 2147483647",
    )


def test_what_cannot_be_read_is_told_in_part_and_all_of_it() -> None:
    assert said({LABEL: "train"}, {MINIMUM: "m" * 1_000, TIMEOUT: "soon"}) == Claim(
        BY_LABEL,
        problem=f"{MINIMUM} of a pod is '{'m' * 40} …'; make it a whole number from 1 to 2147483647;"
        f" {TIMEOUT} of a pod is 'soon'; make it a whole number from 1 to 2147483647",
    )


def test_a_minimum_that_does_not_count_is_no_mistake() -> None:
    """A PodGroup of scheduling.k8s.io has one of its own."""
    assert said({MINIMUM: "half"}, **GROUP) == Claim(BY_FIELD)


def test_bytes_that_look_like_a_name_are_none() -> None:
    assert claim(encode_pod(pod(annotations={"note": f"{LABEL} \u06c2\u0002"}))) is None
