//! A lazy reader of protobuf messages: it finds fields in the bytes as they are asked for and
//! copies nothing. Malformed bytes are `error.MalformedProtobuf`, never a read out of bounds.
//!
//! Wire format: https://protobuf.dev/programming-guides/encoding/. Groups, which no message of
//! Kubernetes has, count as malformed.

const std = @import("std");

pub const Error = error{MalformedProtobuf};

pub const Value = union(enum) {
    varint: u64,
    fixed64: u64,
    bytes: []const u8,
    fixed32: u32,
};

pub const Field = struct {
    number: u32,
    value: Value,
};

/// A message that is not decoded yet. No bytes are the empty message, as always in protobuf.
pub const Message = struct {
    bytes: []const u8 = "",

    /// Field number 0 is not allowed.
    const malformed = "\x00";

    pub fn fields(message: Message) Fields {
        return .{ .rest = message.bytes };
    }

    /// The bytes of a field of type string, bytes or message. Of several the last one counts.
    pub fn string(message: Message, number: u32) Error!?[]const u8 {
        var found: ?[]const u8 = null;
        var all = message.repeated(number);
        while (try all.next()) |bytes| found = bytes;
        return found;
    }

    /// An embedded message; the empty one where the field is absent. Where this message is
    /// malformed, whatever is read from the child is that error, so that calls can be chained.
    pub fn child(message: Message, number: u32) Message {
        return .{ .bytes = (message.string(number) catch malformed) orelse "" };
    }

    /// A field of an integer type or bool, as its bits; zero where it is absent. A negative int32
    /// or int64 is its two's complement: `@bitCast` it to i64.
    pub fn integer(message: Message, number: u32) Error!u64 {
        var found: u64 = 0;
        var all = message.fields();
        while (try all.next()) |field| {
            if (field.number != number) continue;
            found = switch (field.value) {
                .varint => |value| value,
                else => return error.MalformedProtobuf,
            };
        }
        return found;
    }

    /// All occurrences of a repeated string, bytes or message field.
    pub fn repeated(message: Message, number: u32) Repeated {
        return .{ .fields = message.fields(), .number = number };
    }

    /// The value under `key` in a field of type `map<string, …>`, null where there is none.
    pub fn entry(message: Message, number: u32, key: []const u8) Error!?[]const u8 {
        var found: ?[]const u8 = null;
        var entries = message.repeated(number);
        while (try entries.next()) |bytes| {
            const pair: Message = .{ .bytes = bytes };
            if (std.mem.eql(u8, try pair.string(1) orelse "", key)) found = try pair.string(2) orelse "";
        }
        return found;
    }
};

/// Iterates over the fields of a message in the order of their bytes.
pub const Fields = struct {
    rest: []const u8,

    pub fn next(fields: *Fields) Error!?Field {
        if (fields.rest.len == 0) return null;
        const tag = std.math.cast(u32, try fields.varint()) orelse return error.MalformedProtobuf;
        if (tag >> 3 == 0) return error.MalformedProtobuf;
        return .{ .number = tag >> 3, .value = switch (tag & 7) {
            0 => .{ .varint = try fields.varint() },
            1 => .{ .fixed64 = std.mem.readInt(u64, (try fields.take(8))[0..8], .little) },
            2 => .{ .bytes = try fields.take(try fields.varint()) },
            5 => .{ .fixed32 = std.mem.readInt(u32, (try fields.take(4))[0..4], .little) },
            else => return error.MalformedProtobuf,
        } };
    }

    fn take(fields: *Fields, len: u64) Error![]const u8 {
        if (len > fields.rest.len) return error.MalformedProtobuf;
        const n: usize = @intCast(len);
        defer fields.rest = fields.rest[n..];
        return fields.rest[0..n];
    }

    fn varint(fields: *Fields) Error!u64 {
        var value: u64 = 0;
        for (0..10) |i| {
            const byte = (try fields.take(1))[0];
            if (i == 9 and byte > 1) return error.MalformedProtobuf;
            value |= @as(u64, byte & 0x7f) << @intCast(7 * i);
            if (byte < 0x80) return value;
        }
        return error.MalformedProtobuf;
    }
};

/// Iterates over the occurrences of one length-delimited field.
pub const Repeated = struct {
    fields: Fields,
    number: u32,

    pub fn next(repeated: *Repeated) Error!?[]const u8 {
        while (try repeated.fields.next()) |field| {
            if (field.number != repeated.number) continue;
            return switch (field.value) {
                .bytes => |bytes| bytes,
                else => error.MalformedProtobuf,
            };
        }
        return null;
    }
};

const testing = std.testing;
const nine_ff = "\xff\xff\xff\xff\xff\xff\xff\xff\xff";

fn expectFields(bytes: []const u8, want: []const Field) !void {
    var fields = (Message{ .bytes = bytes }).fields();
    for (want) |field| try testing.expectEqualDeep(field, (try fields.next()).?);
    try testing.expectEqual(null, try fields.next());
}

test "each wire type" {
    try expectFields("", &.{});
    try expectFields("\x08\x96\x01" ++ "\x11\x01\x00\x00\x00\x00\x00\x00\x80" ++ "\x1a\x03abc" ++ "\x25\x02\x00\x00\x01", &.{
        .{ .number = 1, .value = .{ .varint = 150 } },
        .{ .number = 2, .value = .{ .fixed64 = 0x8000000000000001 } },
        .{ .number = 3, .value = .{ .bytes = "abc" } },
        .{ .number = 4, .value = .{ .fixed32 = 0x01000002 } },
    });
}

test "the largest field number and varint" {
    try expectFields("\xf8\xff\xff\xff\x0f" ++ nine_ff ++ "\x01", &.{
        .{ .number = (1 << 29) - 1, .value = .{ .varint = std.math.maxInt(u64) } },
    });
}

test "malformed bytes are an error" {
    const malformed = [_][]const u8{
        "\x08", // no value
        "\x80", // tag cut off
        "\x00\x01", // field number 0
        "\x08" ++ nine_ff ++ "\x02", // varint of 65 bits
        "\x08" ++ nine_ff ++ "\xff\xff", // varint without an end
        "\x80\x80\x80\x80\x10\x01", // tag of 33 bits
        "\x0a\x05abcd", // length beyond the end
        "\x0a" ++ nine_ff ++ "\x01", // length of 2^64-1
        "\x0a\xff\xff\xff\xff\x0f", // length of 2^32-1
        "\x09\x00\x00\x00", // fixed64 cut off
        "\x0d\x00", // fixed32 cut off
        "\x0b\x0c", // a group
        "\x0e", "\x0f", // wire types that do not exist
    };
    for (malformed) |bytes| {
        const message: Message = .{ .bytes = bytes };
        var fields = message.fields();
        try testing.expectError(error.MalformedProtobuf, fields.next());
        try testing.expectError(error.MalformedProtobuf, message.string(1));
        try testing.expectError(error.MalformedProtobuf, message.integer(1));
        try testing.expectError(error.MalformedProtobuf, message.entry(1, "key"));
        try testing.expectError(error.MalformedProtobuf, message.child(1).child(2).string(3));
    }
}

test "absent, present and repeated singular fields" {
    const message: Message = .{ .bytes = "\x0a\x01a" ++ "\x10\x01" ++ "\x0a\x02bc" ++ "\x10\x02" };
    try testing.expectEqualStrings("bc", (try message.string(1)).?);
    try testing.expectEqual(2, try message.integer(2));
    try testing.expectEqual(null, try message.string(3));
    try testing.expectEqual(0, try message.integer(3));
    try testing.expectEqualStrings("", message.child(3).bytes);
    try testing.expectError(error.MalformedProtobuf, message.string(2));
    try testing.expectError(error.MalformedProtobuf, message.integer(1));
}

test "map entries" {
    const message: Message = .{ .bytes = "\x5a\x06\x0a\x01a\x12\x01x" ++ "\x5a\x03\x0a\x01b" ++ "\x5a\x03\x12\x01y" ++ "\x5a\x06\x12\x01z\x0a\x01a" };
    try testing.expectEqualStrings("z", (try message.entry(11, "a")).?); // the last one, in either order
    try testing.expectEqualStrings("", (try message.entry(11, "b")).?); // a value left out is empty
    try testing.expectEqualStrings("y", (try message.entry(11, "")).?); // so is a key
    try testing.expectEqual(null, try message.entry(11, "c"));
    try testing.expectEqual(null, try message.entry(12, "a"));
}

test "random bytes never lead out of bounds" {
    var random: std.Random.DefaultPrng = .init(1);
    var buffer: [64]u8 = undefined;
    for (0..200_000) |_| {
        const bytes = buffer[0..random.random().uintLessThan(usize, buffer.len)];
        random.random().bytes(bytes);
        // Small bytes are likelier to be tags and lengths that make sense.
        for (bytes) |*byte| if (random.random().boolean()) {
            byte.* &= 0x1f;
        };
        const message: Message = .{ .bytes = bytes };
        var fields = message.fields();
        var left = bytes.len;
        while (fields.next() catch null) |_| {
            try testing.expect(fields.rest.len < left);
            left = fields.rest.len;
        }
        _ = message.entry(1, "key") catch continue;
    }
}
