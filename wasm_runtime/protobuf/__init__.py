"""Kubernetes objects as protobuf: what wasm guests read, made from the JSON that webhooks carry."""

from wasm_runtime.protobuf.encode import encode_node, encode_pod
from wasm_runtime.protobuf.errors import DecodeError, EncodeError
from wasm_runtime.protobuf.pod import scheduler_name
from wasm_runtime.protobuf.read import fields, identity

__all__ = ["DecodeError", "EncodeError", "encode_node", "encode_pod", "fields", "identity", "scheduler_name"]
