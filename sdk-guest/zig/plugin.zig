//! Turns the functions of a struct into the exports of the ABI.

const builtin = @import("builtin");
const memory = @import("memory.zig");
const status = @import("status.zig");

const Result = enum { code, score, nothing };

/// The extension points that a plugin can be written for. What a host calls by another type than
/// these (enqueue, postfilter, permit) is an `export fn` of the author's own over `guest.host`, which
/// begins with `guest.reset`.
const extension_points = .{
    .prefilter = Result.code,
    .addpod = Result.code,
    .removepod = Result.code,
    .filter = Result.code,
    .prescore = Result.code,
    .score = Result.score,
    .normalizescore = Result.code,
    .reserve = Result.code,
    .unreserve = Result.nothing,
    .prebind = Result.code,
    .bind = Result.code,
    .postbind = Result.nothing,
};

/// Exports each public function of `Plugin` under its own name:
///
/// - `score` returns `!i32`, from 0 to 100;
/// - `unreserve` and `postbind` return `void`;
/// - all others return `!Status`.
///
/// An error becomes the status Error, with the reason given to `guest.fail` or the error's name.
/// Natively, where only tests run and there is no host, nothing is exported.
pub fn exportPlugin(comptime Plugin: type) void {
    if (!builtin.target.cpu.arch.isWasm()) return;
    for (@typeInfo(Plugin).@"struct".decl_names) |name| {
        if (!@hasField(@TypeOf(extension_points), name)) {
            @compileError("'" ++ name ++ "' is no extension point of this library: misspelt, or should it not be pub?");
        }
        const function = @field(Plugin, name);
        const wrapper = switch (@field(extension_points, name)) {
            .code => &Code(function).call,
            .score => &Score(function).call,
            .nothing => &Nothing(function).call,
        };
        @export(wrapper, .{ .name = name });
    }
}

fn Code(comptime function: anytype) type {
    return struct {
        fn call() callconv(.c) i32 {
            memory.reset();
            return status.send(function() catch |err| status.fromError(err));
        }
    };
}

fn Score(comptime function: anytype) type {
    return struct {
        fn call() callconv(.c) i64 {
            memory.reset();
            const score: i32 = function() catch |err| return status.send(status.fromError(err));
            return @as(i64, score) << 32;
        }
    };
}

fn Nothing(comptime function: anytype) type {
    return struct {
        fn call() callconv(.c) void {
            memory.reset();
            function();
        }
    };
}
