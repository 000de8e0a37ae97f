//! What the scheduling cycle is about: the pod, the node, the nodes that are left.

const std = @import("std");
const host = @import("host.zig");
const memory = @import("memory.zig");
const Node = @import("node.zig").Node;
const Pod = @import("pod.zig").Pod;

/// The pod that is being scheduled.
pub fn currentPod() error{OutOfMemory}!Pod {
    return .{ .message = .{ .bytes = try memory.read(host.currentPod, .{}) } };
}

/// In addpod and removepod: the pod that is put on the node or taken from it.
pub fn targetPod() error{OutOfMemory}!Pod {
    return .{ .message = .{ .bytes = try memory.read(host.targetPod, .{}) } };
}

/// The node that the call is about, in every extension point that is about one node.
pub fn currentNodeName() error{OutOfMemory}![]const u8 {
    return memory.read(host.currentNodeName, .{});
}

/// The node of this name, null where the host knows none.
pub fn node(name: []const u8) error{OutOfMemory}!?Node {
    const bytes = try memory.read(host.node, .{ name.ptr, name.len });
    return if (bytes.len == 0) null else .{ .message = .{ .bytes = bytes } };
}

/// In prefilter: only these nodes can come into question.
pub fn setNodeNames(names: []const []const u8) error{OutOfMemory}!void {
    var list: std.ArrayList(u8) = .empty;
    for (names) |name| {
        try list.appendSlice(memory.allocator, name);
        try list.append(memory.allocator, 0);
    }
    host.@"result.node_names"(list.items.ptr, list.items.len);
}
