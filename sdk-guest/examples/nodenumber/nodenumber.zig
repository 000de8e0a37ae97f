//! Scores nodes by number: a pod whose name ends in a digit prefers the nodes whose names end in
//! the same digit. It knows nodes by name only, so it runs where the host has no node objects.
//!
//! Configuration: `{"reverse": true}` prefers all the other nodes instead.

const std = @import("std");
const guest = @import("guest");
const Status = guest.Status;

pub fn NodeNumber(comptime reverse_by_default: bool) type {
    return struct {
        const Config = struct { reverse: bool = reverse_by_default };

        /// What the score calls of a pod have in common.
        const Preference = struct {
            /// Null: no node is better than another.
            digit: ?u8,
            reverse: bool,

            fn read() !Preference {
                const config = try guest.config(Config);
                const pod = try guest.currentPod();
                return .{ .digit = lastDigit(try pod.metadata().name()), .reverse = config.reverse };
            }

            fn score(preference: Preference, node_name: []const u8) i32 {
                const digit = preference.digit orelse return 0;
                return if ((lastDigit(node_name) == digit) != preference.reverse) 100 else 0;
            }
        };

        /// Left by prescore for the score calls of the same pod. Null where a host calls score alone.
        var current: ?Preference = null;

        pub fn prescore() !Status {
            current = null;
            const preference: Preference = try .read();
            current = preference;
            return if (preference.digit == null) .skip else .success;
        }

        pub fn score() !i32 {
            const preference = current orelse try Preference.read();
            return preference.score(try guest.currentNodeName());
        }

        test Preference {
            const straight: Preference = .{ .digit = '7', .reverse = false };
            try std.testing.expectEqual(100, straight.score("node-7"));
            try std.testing.expectEqual(100, straight.score("node-17"));
            try std.testing.expectEqual(0, straight.score("node-71"));
            try std.testing.expectEqual(0, straight.score("node"));
            const reverse: Preference = .{ .digit = '7', .reverse = true };
            try std.testing.expectEqual(0, reverse.score("node-7"));
            try std.testing.expectEqual(100, reverse.score("node-71"));
            try std.testing.expectEqual(100, reverse.score("node"));
            const indifferent: Preference = .{ .digit = null, .reverse = true };
            try std.testing.expectEqual(0, indifferent.score("node-7"));
            try std.testing.expectEqual(0, indifferent.score("node"));
        }
    };
}

fn lastDigit(name: []const u8) ?u8 {
    if (name.len == 0 or !std.ascii.isDigit(name[name.len - 1])) return null;
    return name[name.len - 1];
}

test lastDigit {
    try std.testing.expectEqual('5', lastDigit("web-5"));
    try std.testing.expectEqual('0', lastDigit("0"));
    try std.testing.expectEqual(null, lastDigit("web-5x"));
    try std.testing.expectEqual(null, lastDigit(""));
}

test {
    _ = NodeNumber(false);
}
