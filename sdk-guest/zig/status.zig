//! What a plugin answers: a code of the scheduling framework and a reason for people.

const host = @import("host.zig");
const print = @import("memory.zig").print;

/// Codes of `k8s.io/kube-scheduler/framework`.
pub const Code = enum(i32) {
    success = 0,
    @"error" = 1,
    unschedulable = 2,
    unschedulable_and_unresolvable = 3,
    wait = 4,
    skip = 5,
    pending = 6,
};

pub const Status = struct {
    code: Code,
    reason: []const u8 = "",

    pub const success: Status = .{ .code = .success };

    /// From prefilter: this pod needs no filter call. From prescore: it needs no score call, and
    /// every node counts 0.
    pub const skip: Status = .{ .code = .skip };

    /// No, but the node may do once other pods are gone from it.
    pub fn unschedulable(comptime format: []const u8, args: anytype) Status {
        return .{ .code = .unschedulable, .reason = print(format, args) };
    }

    /// No, and preempting other pods would not help.
    pub fn unresolvable(comptime format: []const u8, args: anytype) Status {
        return .{ .code = .unschedulable_and_unresolvable, .reason = print(format, args) };
    }
};

var failure: []const u8 = "";

/// Ends the call with the status Error and a reason, from any depth: `return guest.fail("…", .{})`.
pub fn fail(comptime format: []const u8, args: anytype) error{Failed} {
    failure = print(format, args);
    return error.Failed;
}

/// The status of an error that an extension point returned.
pub fn fromError(err: anyerror) Status {
    return .{ .code = .@"error", .reason = if (err == error.Failed) failure else @errorName(err) };
}

/// Hands the reason to the host and returns the code.
pub fn send(status: Status) i32 {
    if (status.reason.len != 0) host.@"result.status_reason"(status.reason.ptr, status.reason.len);
    return @backingInt(status.code);
}
