//! A Node, read lazily. Field numbers are those of `k8s.io/api/core/v1/generated.proto`.

const protobuf = @import("protobuf.zig");
const Metadata = @import("metadata.zig").Metadata;

pub const Node = struct {
    message: protobuf.Message,

    pub fn metadata(node: Node) Metadata {
        return .{ .message = node.message.child(1) };
    }

    /// NodeSpec. Whether the node is unschedulable, for one, is `spec.integer(4)`.
    pub fn spec(node: Node) protobuf.Message {
        return node.message.child(2);
    }

    /// NodeStatus.
    pub fn status(node: Node) protobuf.Message {
        return node.message.child(3);
    }

    /// How much of a resource pods may use, as Kubernetes writes quantities ("3920m", "64Gi"); null
    /// where the node does not have the resource.
    pub fn allocatable(node: Node, resource: []const u8) protobuf.Error!?[]const u8 {
        const quantity: protobuf.Message = .{ .bytes = try node.status().entry(2, resource) orelse return null };
        return try quantity.string(1) orelse "";
    }
};
