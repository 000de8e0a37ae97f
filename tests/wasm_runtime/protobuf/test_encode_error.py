"""An EncodeError says where, what was expected and what came; nothing else is ever raised."""

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasm_runtime.protobuf import EncodeError, encode_node, encode_pod
from wasm_runtime.protobuf.schema import INLINE, MESSAGES


def spec(**values: Any) -> dict[str, Any]:
    return {"spec": values}


def container(**values: Any) -> dict[str, Any]:
    return spec(containers=[{"name": "ok"}, values])


def metadata(**values: Any) -> dict[str, Any]:
    return {"metadata": values}


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        ([], "object: expected an object, got a list"),
        (None, "object: expected an object, got null"),
        ("pod", 'object: expected an object, got "pod"'),
        (metadata(name=7), "metadata.name: expected a string, got 7"),
        (metadata(name=True), "metadata.name: expected a string, got true"),
        (metadata(name=b"x"), "metadata.name: expected a string, got a Python bytes"),
        (metadata(labels=["a"]), "metadata.labels: expected an object, got a list"),
        (metadata(labels={"a.b/c": {}}), 'metadata.labels["a.b/c"]: expected a string, got an object'),
        (
            metadata(labels={'"\n' + "x" * 99: 1.5}),
            'metadata.labels["\\"\\n' + "x" * 62 + '..."]: expected a string, got 1.5',
        ),
        (
            metadata(labels={"\ud800": ""}),
            'metadata.labels["\\ud800"]: expected a string without lone surrogates, got "\\ud800"',
        ),
        (
            metadata(annotations={"a": "\udfffé"}),
            'metadata.annotations["a"]: expected a string without lone surrogates, got "\\udfff\\u00e9"',
        ),
        (metadata(finalizers={}), "metadata.finalizers: expected a list, got an object"),
        (metadata(finalizers=["a", 1]), "metadata.finalizers[1]: expected a string, got 1"),
        (metadata(ownerReferences=[[]]), "metadata.ownerReferences[0]: expected an object, got a list"),
        (
            metadata(creationTimestamp="yesterday"),
            'metadata.creationTimestamp: expected a time in RFC 3339, got "yesterday"',
        ),
        (
            metadata(managedFields=[{"fieldsV1": {"a": {1: object()}}}]),
            "metadata.managedFields[0].fieldsV1: expected a value that JSON can hold, got an object",
        ),
        (spec(containers={}), "spec.containers: expected a list, got an object"),
        (container(image=1), "spec.containers[1].image: expected a string, got 1"),
        (container(stdin="yes"), 'spec.containers[1].stdin: expected a boolean, got "yes"'),
        (container(stdin=1), "spec.containers[1].stdin: expected a boolean, got 1"),
        (
            container(resources={"requests": {"cpu": "1 core"}}),
            'spec.containers[1].resources.requests["cpu"]: expected a quantity, got "1 core"',
        ),
        (
            container(ports=[{"containerPort": "80"}]),
            'spec.containers[1].ports[0].containerPort: expected an integer of 32 bits, got "80"',
        ),
        (
            container(livenessProbe={"httpGet": {"port": 1.0}}),
            "spec.containers[1].livenessProbe.httpGet.port: expected an integer or a string, got 1.0",
        ),
        (
            container(livenessProbe={"tcpSocket": {"port": True}}),
            "spec.containers[1].livenessProbe.tcpSocket.port: expected an integer of 32 bits, got true",
        ),
        (
            container(livenessProbe={"grpc": []}),
            "spec.containers[1].livenessProbe.grpc: expected an object, got a list",
        ),
        (
            container(env=[{"valueFrom": {"secretKeyRef": {"name": 1}}}]),
            "spec.containers[1].env[0].valueFrom.secretKeyRef.name: expected a string, got 1",
        ),
        (
            spec(volumes=[{"name": "v", "emptyDir": {"sizeLimit": []}}]),
            "spec.volumes[0].emptyDir.sizeLimit: expected a quantity, got a list",
        ),
        (spec(priority=True), "spec.priority: expected an integer of 32 bits, got true"),
        (spec(priority=1.0), "spec.priority: expected an integer of 32 bits, got 1.0"),
        (spec(priority=2**31), "spec.priority: expected an integer of 32 bits, got 2147483648"),
        (
            spec(activeDeadlineSeconds=-(2**63) - 1),
            "spec.activeDeadlineSeconds: expected an integer of 64 bits, got -9223372036854775809",
        ),
        (
            spec(activeDeadlineSeconds=1 << 99_999),
            "spec.activeDeadlineSeconds: expected an integer of 64 bits, got an integer of 100000 bits",
        ),
        (
            spec(hostNetwork="x" * 10_000),
            "spec.hostNetwork: expected a boolean, got " + '"' + "x" * 64 + '..."',
        ),
    ],
)
def test_says_where_and_what(pod: Any, message: str) -> None:
    with pytest.raises(EncodeError) as raised:
        encode_pod(pod)
    assert str(raised.value) == message


def test_has_its_parts() -> None:
    with pytest.raises(EncodeError) as raised:
        encode_node({"status": {"images": [{}, {"sizeBytes": "1"}]}})
    error = raised.value
    assert isinstance(error, ValueError)
    assert (error.path, error.expected, error.got) == (
        "status.images[1].sizeBytes",
        "an integer of 64 bits",
        '"1"',
    )


def test_survives_pickling() -> None:
    """As it must to cross a process."""
    with pytest.raises(EncodeError) as raised:
        encode_node({"spec": {"taints": 1}})
    assert str(pickle.loads(pickle.dumps(raised.value))) == "spec.taints: expected a list, got 1"


def test_field_set_without_end_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"f:a": deep}
    with pytest.raises(EncodeError, match="JSON can hold, got an object"):
        encode_pod(metadata(managedFields=[{"fieldsV1": deep}]))


NAMES = sorted({name for fields in MESSAGES.values() for name in fields})

leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=[]))
    | st.datetimes().map(lambda time: time.isoformat() + "Z")
    | st.from_regex(r"\A[+-]?[0-9]{1,3}(\.[0-9]+)?(Ki|Mi|m|k|e[0-9])?\Z")
)
any_json = st.recursive(
    leaves,
    lambda values: (
        st.lists(values, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(), values, max_size=3)
    ),
)


def fitting(message: str, levels: int) -> st.SearchStrategy[Any]:
    """Objects that have the message's names, and mostly what fits them, down to some level."""
    names = dict(MESSAGES[message])
    for inlined in INLINE.get(message, {}):
        names |= MESSAGES[inlined]
    optional = {}
    for name, (_, shape, kind, child) in names.items():
        value = fitting(child, levels - 1) if kind == "message" and levels else any_json
        if shape == "list":
            value = st.lists(value, max_size=2)
        elif shape == "map":
            value = st.dictionaries(st.text(), value, max_size=2)
        optional[name] = value | leaves
    return st.fixed_dictionaries({}, optional=optional)


@given(fitting("Pod", 2) | any_json)
def test_no_other_exception_for_pods(value: Any) -> None:
    encode_or_refuse(encode_pod, value)


@given(fitting("Node", 2) | any_json)
def test_no_other_exception_for_nodes(value: Any) -> None:
    encode_or_refuse(encode_node, value)


def encode_or_refuse(encode: Any, value: Any) -> None:
    try:
        assert isinstance(encode(value), bytes)
    except EncodeError as error:
        assert str(error).isascii()
        assert str(error).isprintable()
        assert len(str(error)) < 2000
