//! The plugin's configuration: the host's `guestConfig`, a JSON object, as a Zig struct.

const std = @import("std");
const host = @import("host.zig");
const json = @import("json.zig");
const memory = @import("memory.zig");
const fail = @import("status.zig").fail;

pub const Error = error{ Failed, OutOfMemory };

/// The configuration as text, whatever its format.
pub fn text() error{OutOfMemory}![]const u8 {
    return memory.read(host.get_config, .{});
}

/// The configuration as a `T`, whose fields are bools, integers, strings (`[]const u8`) or enums
/// and all have defaults. It is read once and kept, with all that the call has read before it, as
/// long as the instance lives: ask for it first. Anything but an object of those keys fails the call
/// with a reason that says what was expected.
pub fn config(comptime T: type) Error!*const T {
    const cache = struct {
        var value: ?T = null;
    };
    if (cache.value == null) {
        cache.value = try parse(T, memory.allocator, try text());
        memory.keep();
    }
    return &cache.value.?;
}

/// An empty text stands for the defaults.
fn parse(comptime T: type, allocator: std.mem.Allocator, source: []const u8) Error!T {
    var value: T = .{};
    if (std.mem.trim(u8, source, " \t\r\n").len == 0) return value;
    var seen: [@typeInfo(T).@"struct".field_names.len]bool = @splat(false);
    var object: json.Object = .{ .text = source, .allocator = allocator };
    while (object.next() catch |err| switch (err) {
        error.OutOfMemory => |e| return e,
        error.Syntax => return fail("guestConfig is no JSON object (byte {d}); expected " ++ expected(T), .{object.position}),
    }) |member| try set(T, &value, &seen, member);
    return value;
}

fn set(comptime T: type, value: *T, seen: []bool, member: json.Member) error{Failed}!void {
    inline for (@typeInfo(T).@"struct".field_names, 0..) |name, i| {
        if (std.mem.eql(u8, member.key, name)) {
            if (seen[i]) return fail("guestConfig: \"" ++ name ++ "\" is given twice", .{});
            seen[i] = true;
            const Field = @TypeOf(@field(value, name));
            @field(value, name) = convert(Field, member.value) orelse
                return fail("guestConfig: \"" ++ name ++ "\" must be " ++ describe(Field), .{});
            return;
        }
    }
    const shown = member.key[0..@min(member.key.len, 64)];
    return fail("guestConfig: unknown key \"{s}\"; expected " ++ expected(T), .{shown});
}

fn convert(comptime T: type, value: json.Value) ?T {
    if (T == []const u8) return if (value == .string) value.string else null;
    return switch (@typeInfo(T)) {
        .bool => switch (value) {
            .true => true,
            .false => false,
            else => null,
        },
        .int => if (value == .number) std.fmt.parseInt(T, value.number, 10) catch null else null,
        .@"enum" => if (value == .string) std.meta.stringToEnum(T, value.string) else null,
        else => @compileError("guest.config has no " ++ @typeName(T) ++ ": read guest.configText() with std.json"),
    };
}

fn describe(comptime T: type) []const u8 {
    if (T == []const u8) return "a string";
    return switch (@typeInfo(T)) {
        .bool => "true or false",
        .int => std.fmt.comptimePrint("an integer from {d} to {d}", .{ std.math.minInt(T), std.math.maxInt(T) }),
        .@"enum" => |info| comptime choice: {
            var names: []const u8 = "";
            for (info.field_names) |name| names = names ++ (if (names.len == 0) "\"" else " or \"") ++ name ++ "\"";
            break :choice names;
        },
        else => unreachable, // convert has the message
    };
}

fn expected(comptime T: type) []const u8 {
    comptime var keys: []const u8 = "";
    inline for (@typeInfo(T).@"struct".field_names, @typeInfo(T).@"struct".field_types) |name, Field| {
        keys = keys ++ (if (keys.len == 0) "" else ", ") ++ "\"" ++ name ++ "\" (" ++ describe(Field) ++ ")";
    }
    return "a JSON object with " ++ keys;
}

const testing = std.testing;

const Example = struct {
    reverse: bool = false,
    label: []const u8 = "zone",
    limit: u8 = 10,
    mode: enum { spread, pack } = .spread,
};

test "configurations" {
    var arena: std.heap.ArenaAllocator = .init(testing.allocator);
    defer arena.deinit();
    for ([_][]const u8{ "", " \n", "{}", " { } " }) |source| {
        try testing.expectEqualDeep(Example{}, try parse(Example, arena.allocator(), source));
    }
    const all =
        \\{"mode": "pack", "limit": 255, "label": "ra\u0063k", "reverse": true}
    ;
    const want: Example = .{ .reverse = true, .label = "rack", .limit = 255, .mode = .pack };
    try testing.expectEqualDeep(want, try parse(Example, arena.allocator(), all));
}

test "what is wrong with a configuration, and what was expected" {
    const keys = "expected a JSON object with \"reverse\" (true or false), \"label\" (a string), " ++
        "\"limit\" (an integer from 0 to 255), \"mode\" (\"spread\" or \"pack\")";
    const cases = [_]struct { []const u8, []const u8 }{
        .{ "null", "guestConfig is no JSON object (byte 0); " ++ keys },
        .{ "reverse: true", "guestConfig is no JSON object (byte 0); " ++ keys },
        .{ "{\"reverse\": true", "guestConfig is no JSON object (byte 16); " ++ keys },
        .{ "{\"reverse\": true} x", "guestConfig is no JSON object (byte 18); " ++ keys },
        .{ "{\"revers\": true}", "guestConfig: unknown key \"revers\"; " ++ keys },
        .{ "{\"reverse\": \"true\"}", "guestConfig: \"reverse\" must be true or false" },
        .{ "{\"reverse\": null}", "guestConfig: \"reverse\" must be true or false" },
        .{ "{\"reverse\": true, \"reverse\": true}", "guestConfig: \"reverse\" is given twice" },
        .{ "{\"label\": [1]}", "guestConfig: \"label\" must be a string" },
        .{ "{\"limit\": 256}", "guestConfig: \"limit\" must be an integer from 0 to 255" },
        .{ "{\"limit\": -1}", "guestConfig: \"limit\" must be an integer from 0 to 255" },
        .{ "{\"limit\": 1.5}", "guestConfig: \"limit\" must be an integer from 0 to 255" },
        .{ "{\"mode\": \"Pack\"}", "guestConfig: \"mode\" must be \"spread\" or \"pack\"" },
    };
    var arena: std.heap.ArenaAllocator = .init(testing.allocator);
    defer arena.deinit();
    for (cases) |case| {
        try testing.expectError(error.Failed, parse(Example, arena.allocator(), case[0]));
        try testing.expectEqualStrings(case[1], @import("status.zig").fromError(error.Failed).reason);
    }
}
