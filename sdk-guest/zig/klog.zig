//! Lines in the host's log.

const host = @import("host.zig");
const print = @import("memory.zig").print;

const Severity = enum(i32) { info = 0, warning = 1, @"error" = 2 };

pub fn info(comptime format: []const u8, args: anytype) void {
    log(.info, format, args);
}

pub fn warning(comptime format: []const u8, args: anytype) void {
    log(.warning, format, args);
}

pub fn err(comptime format: []const u8, args: anytype) void {
    log(.@"error", format, args);
}

fn log(severity: Severity, comptime format: []const u8, args: anytype) void {
    // Asked first: formatting a line that the host drops costs more than the question.
    if (@backingInt(severity) < host.severity()) return;
    const line = print(format, args);
    host.log(@backingInt(severity), line.ptr, line.len);
}
