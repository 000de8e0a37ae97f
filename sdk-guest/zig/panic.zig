//! What a panic tells: its message, on standard error. Hosts quote that beside the trap.

const std = @import("std");
const builtin = @import("builtin");
const host = @import("host.zig");

const stderr = 2;

/// For the root file of a plugin: `pub const panic = guest.panic;`. Without it a panic is a trap that says nothing.
pub const panic = std.debug.FullPanic(if (builtin.target.cpu.arch.isWasm()) tell else std.debug.defaultPanic);

fn tell(message: []const u8, _: ?usize) noreturn {
    const parts = [_]host.Part{.{ .at = message.ptr, .len = message.len }};
    var written: usize = 0;
    _ = host.fd_write(stderr, &parts, parts.len, &written);
    @trap();
}
