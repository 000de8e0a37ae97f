"""What PodGroups say, in the APIs that have such a kind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from extender.cluster import GROUP_APIS, GroupObject

NATIVE, LABELLED = (kind.decode for kind in GROUP_APIS)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ('{"schedulingPolicy": {"gang": {"minCount": 4}}}', GroupObject(4)),
        ('{"schedulingPolicy": {"gang": {"minCount": 4}}, "priority": -7}', GroupObject(4, 0, -7)),
        ('{"schedulingPolicy": {"gang": {}}, "priority": 0}', GroupObject(1, 0, 0)),
        ('{"schedulingPolicy": {"basic": {}}}', GroupObject(1)),
        ('{"schedulingPolicy": {"later": {}}, "more": [1]}', GroupObject(1)),
        ("{}", GroupObject(1)),
        (
            '{"schedulingPolicy": {"gang": {"minCount": "4"}}}',
            GroupObject(
                problem="the PodGroup cannot be read: Expected `int`, got `str`"
                " - at `$.spec.schedulingPolicy.gang.minCount`"
            ),
        ),
        (
            '{"schedulingPolicy": {"gang": {"minCount": 2147483648}}}',
            GroupObject(
                problem="the PodGroup cannot be read: Expected `int` <= 2147483647"
                " - at `$.spec.schedulingPolicy.gang.minCount`"
            ),
        ),
    ],
)
def test_one_of_kubernetes(spec: str, expected: GroupObject) -> None:
    assert NATIVE(b'{"metadata": {"name": "train"}, "spec": %s}' % spec.encode()) == expected


@pytest.mark.parametrize("decode", [NATIVE, LABELLED])
@pytest.mark.parametrize(
    ("created", "expected"),
    [
        ('"2023-11-14T22:13:20Z"', GroupObject(1, created=1_700_000_000)),
        ('"1900-01-01T00:00:00Z"', GroupObject(1)),
        ("null", GroupObject(1)),
        (
            '"soon"',
            GroupObject(
                problem="the PodGroup cannot be read: Invalid RFC3339 encoded datetime"
                " - at `$.metadata.creationTimestamp`"
            ),
        ),
    ],
)
def test_when_it_was_created(decode: Callable[[bytes], GroupObject], created: str, expected: GroupObject) -> None:
    assert decode(b'{"metadata": {"creationTimestamp": %s}}' % created.encode()) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ('{"minMember": 4, "scheduleTimeoutSeconds": 60, "minResources": {"cpu": "1"}}', GroupObject(4, 60)),
        ('{"minMember": 0, "scheduleTimeoutSeconds": null}', GroupObject(1)),
        ("{}", GroupObject(1)),
        (
            '{"minMember": -1}',
            GroupObject(problem="the PodGroup cannot be read: Expected `int` >= 0 - at `$.spec.minMember`"),
        ),
        ("[]", GroupObject(problem="the PodGroup cannot be read: Expected `object`, got `array` - at `$.spec`")),
    ],
)
def test_one_of_scheduler_plugins(spec: str, expected: GroupObject) -> None:
    assert LABELLED(b'{"metadata": {"name": "train"}, "spec": %s}' % spec.encode()) == expected
