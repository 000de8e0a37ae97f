//! The guest's memory: a stack of allocations that lasts for one call of the host.
//!
//! It lies above the module's own data and grows by WebAssembly pages up to what the host allows.
//! Nothing needs to be freed. What must outlive the call goes into a variable of fixed size, or is
//! kept for the life of the instance by `keep`.

const std = @import("std");
const builtin = @import("builtin");
const Alignment = std.mem.Alignment;

const page_size = 64 * 1024;

extern var __heap_base: u8;

/// Bytes above `__heap_base` that outlive the call.
var kept: usize = 0;
/// Bytes above `__heap_base` that are taken, the kept ones included.
var used: usize = 0;

/// For everything in the standard library that wants an allocator. Natively, where only tests
/// run, it is the operating system's pages.
pub const allocator: std.mem.Allocator = if (builtin.target.cpu.arch.isWasm())
    .{ .ptr = undefined, .vtable = &.{ .alloc = alloc, .resize = resize, .remap = remap, .free = free } }
else
    std.heap.page_allocator;

/// Forgets everything but what was kept. `exportPlugin` does it before each call.
pub fn reset() void {
    used = kept;
}

/// Makes all that was allocated so far in this call last as long as the instance.
pub fn keep() void {
    kept = used;
}

/// Calls a host function that ends in `buf` and `limit`, with `args` before those two, and returns
/// its answer. All memory that is there already is offered first, so one host call is the rule and
/// a second one, into a grown memory, the exception.
pub fn read(comptime function: anytype, args: anytype) error{OutOfMemory}![]const u8 {
    while (true) {
        const buffer = spare();
        const needed = @call(.auto, function, args ++ .{ buffer.ptr, buffer.len });
        if (needed <= buffer.len) {
            used += needed;
            return buffer[0..needed];
        }
        try grow(needed);
    }
}

/// A formatted text, cut off at 1 KiB: it is meant for people.
pub fn print(comptime format: []const u8, args: anytype) []const u8 {
    const buffer = allocator.alloc(u8, 1024) catch return "out of memory";
    var writer: std.Io.Writer = .fixed(buffer);
    writer.print(format, args) catch {};
    _ = allocator.resize(buffer, writer.end);
    return writer.buffered();
}

fn spare() []u8 {
    const from = @intFromPtr(&__heap_base) + used;
    // A memory of 65536 pages has no size in 32 bits: leave out its last page.
    const pages: usize = @min(@wasmMemorySize(0), 0xffff);
    const end = pages * page_size;
    return @as([*]u8, @ptrFromInt(from))[0 .. end - from];
}

fn grow(len: usize) error{OutOfMemory}!void {
    const missing = len - spare().len;
    const pages = missing / page_size + @intFromBool(missing % page_size != 0);
    if (@wasmMemoryGrow(0, pages) < 0 or spare().len < len) return error.OutOfMemory;
}

fn alloc(_: *anyopaque, len: usize, alignment: Alignment, _: usize) ?[*]u8 {
    const address = @intFromPtr(spare().ptr);
    const padding = alignment.forward(address) - address;
    const size = std.math.add(usize, padding, len) catch return null;
    if (size > spare().len) grow(size) catch return null;
    used += size;
    return @ptrFromInt(address + padding);
}

fn resize(_: *anyopaque, bytes: []u8, _: Alignment, new_len: usize, _: usize) bool {
    if (bytes.ptr + bytes.len != spare().ptr) return new_len <= bytes.len;
    if (new_len > bytes.len and new_len - bytes.len > spare().len) grow(new_len - bytes.len) catch return false;
    used = used - bytes.len + new_len;
    return true;
}

fn remap(context: *anyopaque, bytes: []u8, alignment: Alignment, new_len: usize, return_address: usize) ?[*]u8 {
    return if (resize(context, bytes, alignment, new_len, return_address)) bytes.ptr else null;
}

fn free(context: *anyopaque, bytes: []u8, alignment: Alignment, return_address: usize) void {
    _ = resize(context, bytes, alignment, 0, return_address);
}
