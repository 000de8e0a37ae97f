//! A Pod, read lazily. Field numbers are those of `k8s.io/api/core/v1/generated.proto`.

const protobuf = @import("protobuf.zig");
const Metadata = @import("metadata.zig").Metadata;

pub const Pod = struct {
    message: protobuf.Message,

    pub fn metadata(pod: Pod) Metadata {
        return .{ .message = pod.message.child(1) };
    }

    /// PodSpec. Its priority, for one, is `spec.integer(25)`.
    pub fn spec(pod: Pod) protobuf.Message {
        return pod.message.child(2);
    }

    /// PodStatus.
    pub fn status(pod: Pod) protobuf.Message {
        return pod.message.child(3);
    }
};
