//! Filters nodes by accelerator: a pod with the annotation `kwx.dev/accelerator: h100` fits only
//! the nodes with the label `kwx.dev/accelerator=h100`. A pod without it, or with an empty one,
//! fits everywhere.
//!
//! Configuration: `{"label": "vendor.example/gpu"}` reads another label of the nodes.

const std = @import("std");
const guest = @import("guest");
const Status = guest.Status;

const annotation = "kwx.dev/accelerator";

const Config = struct { label: []const u8 = annotation };

/// What the filter calls of a pod have in common.
const Wish = struct {
    label: []const u8,
    /// One byte longer than a label's value can be: an annotation cut off there still equals none.
    buffer: [64]u8 = undefined,
    len: usize = 0,

    fn read() !Wish {
        const config = try guest.config(Config);
        if (config.label.len == 0) return guest.fail("guestConfig: \"label\" is empty; expected the key of a node label", .{});
        const pod = try guest.currentPod();
        return .init(config.label, try pod.metadata().annotation(annotation) orelse "");
    }

    fn init(label: []const u8, wanted: []const u8) Wish {
        var wish: Wish = .{ .label = label };
        wish.len = @min(wanted.len, wish.buffer.len);
        @memcpy(wish.buffer[0..wish.len], wanted[0..wish.len]);
        return wish;
    }

    fn value(wish: *const Wish) []const u8 {
        return wish.buffer[0..wish.len];
    }

    fn check(wish: *const Wish, actual: []const u8) Status {
        if (std.mem.eql(u8, actual, wish.value())) return .success;
        if (actual.len == 0) return .unresolvable("node has no label {s}={s}", .{ wish.label, wish.value() });
        return .unresolvable("node label {s} is {s}, pod wants {s}", .{ wish.label, actual, wish.value() });
    }

    test check {
        const wish: Wish = .init("gpu", "h100");
        try std.testing.expectEqual(Status.success, wish.check("h100"));
        try std.testing.expectEqualStrings("node has no label gpu=h100", wish.check("").reason);
        try std.testing.expectEqualStrings("node label gpu is a100, pod wants h100", wish.check("a100").reason);
        try std.testing.expectEqual(.unschedulable_and_unresolvable, wish.check("h1000").code);
    }

    test "an annotation longer than any label value fits no node" {
        const x64 = &@as([64]u8, @splat('x'));
        const wish: Wish = .init("gpu", x64 ++ x64);
        try std.testing.expectEqualStrings(x64, wish.value());
        try std.testing.expectEqual(.unschedulable_and_unresolvable, wish.check(x64[1..]).code);
    }
};

/// Left by prefilter for the filter calls of the same pod. Null where a host calls filter alone.
var current: ?Wish = null;

const Accelerator = struct {
    pub fn prefilter() !Status {
        current = null;
        current = try Wish.read();
        return if (current.?.len == 0) .skip else .success;
    }

    pub fn filter() !Status {
        const wish = current orelse try Wish.read();
        if (wish.len == 0) return .success;
        const name = try guest.currentNodeName();
        const node = try guest.node(name) orelse return .unschedulable("node {s} is not known", .{name});
        return wish.check(try node.metadata().label(wish.label) orelse "");
    }
};

comptime {
    guest.exportPlugin(Accelerator);
}

test {
    _ = Wish;
}
