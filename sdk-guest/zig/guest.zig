//! A small library for scheduler plugins in Zig. README.md shows how a plugin is written with it.

pub const host = @import("host.zig");
pub const klog = @import("klog.zig");
pub const protobuf = @import("protobuf.zig");

pub const Metadata = @import("metadata.zig").Metadata;
pub const Node = @import("node.zig").Node;
pub const Pod = @import("pod.zig").Pod;
pub const Status = @import("status.zig").Status;

pub const exportPlugin = @import("plugin.zig").exportPlugin;
pub const fail = @import("status.zig").fail;
pub const panic = @import("panic.zig").panic;

pub const config = @import("config.zig").config;
pub const configText = @import("config.zig").text;

pub const currentNodeName = @import("cycle.zig").currentNodeName;
pub const currentPod = @import("cycle.zig").currentPod;
pub const node = @import("cycle.zig").node;
pub const setNodeNames = @import("cycle.zig").setNodeNames;
pub const targetPod = @import("cycle.zig").targetPod;

pub const allocator = @import("memory.zig").allocator;
pub const keep = @import("memory.zig").keep;
pub const read = @import("memory.zig").read;
pub const reset = @import("memory.zig").reset;

test {
    _ = @import("config.zig");
    _ = @import("json.zig");
    _ = protobuf;
}
