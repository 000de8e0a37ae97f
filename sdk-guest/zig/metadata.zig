//! ObjectMeta, the metadata of every object. Field numbers are those of
//! `k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto`.

const protobuf = @import("protobuf.zig");

pub const Metadata = struct {
    message: protobuf.Message,

    pub fn name(metadata: Metadata) protobuf.Error![]const u8 {
        return try metadata.message.string(1) orelse "";
    }

    pub fn namespace(metadata: Metadata) protobuf.Error![]const u8 {
        return try metadata.message.string(3) orelse "";
    }

    pub fn uid(metadata: Metadata) protobuf.Error![]const u8 {
        return try metadata.message.string(5) orelse "";
    }

    /// The label's value, null where the object has no such label.
    pub fn label(metadata: Metadata, key: []const u8) protobuf.Error!?[]const u8 {
        return metadata.message.entry(11, key);
    }

    /// The annotation's value, null where the object has no such annotation.
    pub fn annotation(metadata: Metadata, key: []const u8) protobuf.Error!?[]const u8 {
        return metadata.message.entry(12, key);
    }
};
