//! A strict reader (RFC 8259) of one JSON object whose values are strings, numbers, true, false and
//! null. The standard library's reader would be most of a plugin's size.

const std = @import("std");

pub const Error = error{ Syntax, OutOfMemory };

pub const Value = union(enum) {
    string: []const u8,
    /// As it is written.
    number: []const u8,
    true,
    false,
    null,
    /// An object or an array, which this reader does not enter: `next` cannot go on after it.
    nested,
};

pub const Member = struct {
    key: []const u8,
    value: Value,
};

/// Iterates over the members of the object. Strings point into the text, or into memory of the
/// allocator where they have escapes.
pub const Object = struct {
    text: []const u8,
    allocator: std.mem.Allocator,
    /// Where in `text` the reader is, and after an error where it was.
    position: usize = 0,
    state: enum { before, inside, after } = .before,

    pub fn next(object: *Object) Error!?Member {
        switch (object.state) {
            .before => {
                try object.expect("{");
                object.state = .inside;
                if (object.accept('}')) return object.end();
            },
            .inside => {
                if (object.accept('}')) return object.end();
                try object.expect(",");
            },
            .after => return null,
        }
        object.skipSpace();
        const key = try object.string();
        try object.expect(":");
        return .{ .key = key, .value = try object.value() };
    }

    fn end(object: *Object) Error!?Member {
        object.state = .after;
        object.skipSpace();
        return if (object.position == object.text.len) null else error.Syntax;
    }

    fn value(object: *Object) Error!Value {
        object.skipSpace();
        switch (object.peek()) {
            '"' => return .{ .string = try object.string() },
            '-', '0'...'9' => return .{ .number = try object.number() },
            '{', '[' => return .nested,
            else => {},
        }
        inline for (.{ Value.true, Value.false, Value.null }) |word| {
            if (std.mem.startsWith(u8, object.text[object.position..], @tagName(word))) {
                object.position += @tagName(word).len;
                return word;
            }
        }
        return error.Syntax;
    }

    fn number(object: *Object) Error![]const u8 {
        const start = object.position;
        _ = object.take('-');
        if (!object.take('0')) try object.digits();
        if (object.take('.')) try object.digits();
        if (object.take('e') or object.take('E')) {
            _ = object.take('-') or object.take('+');
            try object.digits();
        }
        return object.text[start..object.position];
    }

    fn digits(object: *Object) Error!void {
        if (!std.ascii.isDigit(object.peek())) return error.Syntax;
        while (std.ascii.isDigit(object.peek())) object.position += 1;
    }

    fn string(object: *Object) Error![]const u8 {
        if (!object.take('"')) return error.Syntax;
        const start = object.position;
        var escaped = false;
        while (object.peek() != '"') : (object.position += 1) {
            if (object.peek() < ' ') return error.Syntax; // the end of the text as well
            if (object.take('\\')) {
                escaped = true;
                if (object.position == object.text.len) return error.Syntax;
            }
        }
        const raw = object.text[start..object.position];
        object.position += 1;
        if (!std.unicode.utf8ValidateSlice(raw)) return error.Syntax;
        return if (escaped) unescape(raw, try object.allocator.alloc(u8, raw.len)) else raw;
    }

    fn expect(object: *Object, comptime text: *const [1]u8) Error!void {
        if (!object.accept(text[0])) return error.Syntax;
    }

    fn accept(object: *Object, byte: u8) bool {
        object.skipSpace();
        return object.take(byte);
    }

    fn take(object: *Object, byte: u8) bool {
        const is_next = object.position < object.text.len and object.text[object.position] == byte;
        object.position += @intFromBool(is_next);
        return is_next;
    }

    /// The next byte, 0 at the end of the text. A 0 in the text is nowhere allowed either.
    fn peek(object: *const Object) u8 {
        return if (object.position < object.text.len) object.text[object.position] else 0;
    }

    fn skipSpace(object: *Object) void {
        while (true) switch (object.peek()) {
            ' ', '\t', '\r', '\n' => object.position += 1,
            else => return,
        };
    }
};

/// `raw` has a byte after each backslash, and no escape is shorter than what it stands for.
fn unescape(raw: []const u8, out: []u8) error{Syntax}![]const u8 {
    var len: usize = 0;
    var rest = raw;
    while (rest.len > 0) {
        if (rest[0] != '\\') {
            out[len] = rest[0];
            len += 1;
            rest = rest[1..];
            continue;
        }
        const escape = rest[1];
        rest = rest[2..];
        out[len] = switch (escape) {
            '"', '\\', '/' => escape,
            'b' => 0x08,
            'f' => 0x0c,
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                len += std.unicode.utf8Encode(try codepoint(&rest), out[len..]) catch return error.Syntax;
                continue;
            },
            else => return error.Syntax,
        };
        len += 1;
    }
    return out[0..len];
}

/// The code point of the digits after `\u`, and of a second `\u` where the first is half a pair.
fn codepoint(rest: *[]const u8) error{Syntax}!u21 {
    const high = try unit(rest);
    if (high & 0xfc00 != 0xd800) return high; // a lone low half cannot be encoded
    if (!std.mem.startsWith(u8, rest.*, "\\u")) return error.Syntax;
    rest.* = rest.*[2..];
    const low = try unit(rest);
    if (low & 0xfc00 != 0xdc00) return error.Syntax;
    return 0x10000 + ((@as(u21, high & 0x3ff) << 10) | (low & 0x3ff));
}

fn unit(rest: *[]const u8) error{Syntax}!u16 {
    if (rest.len < 4) return error.Syntax;
    var value: u16 = 0;
    for (rest.*[0..4]) |digit| {
        value = (value << 4) | (std.fmt.charToDigit(digit, 16) catch return error.Syntax);
    }
    rest.* = rest.*[4..];
    return value;
}

const testing = std.testing;

fn expectMembers(text: []const u8, want: []const Member) !void {
    var arena: std.heap.ArenaAllocator = .init(testing.allocator);
    defer arena.deinit();
    var object: Object = .{ .text = text, .allocator = arena.allocator() };
    for (want) |member| try testing.expectEqualDeep(member, (try object.next()).?);
    try testing.expectEqual(null, try object.next());
    try testing.expectEqual(null, try object.next());
}

test "objects" {
    try expectMembers("{}", &.{});
    try expectMembers(" {\t} \r\n", &.{});
    try expectMembers(
        \\ { "a" : "b" , "" : "" , "t":true,"f":false,"n":null , "a":0 }
    , &.{
        .{ .key = "a", .value = .{ .string = "b" } },
        .{ .key = "", .value = .{ .string = "" } },
        .{ .key = "t", .value = .true },
        .{ .key = "f", .value = .false },
        .{ .key = "n", .value = .null },
        .{ .key = "a", .value = .{ .number = "0" } },
    });
}

test "escapes" {
    try expectMembers(
        \\{"\u0061\n": "\"\\\/\b\f\n\r\t\u00e9\u20AC\ud83d\ude00 é€😀\u0000"}
    , &.{.{ .key = "a\n", .value = .{ .string = "\"\\/\x08\x0c\n\r\té€😀 é€😀\x00" } }});
}

test "numbers" {
    inline for (.{ "0", "-0", "7", "-12", "0.5", "10.25", "1e3", "1E+3", "1.5e-30" }) |digits| {
        try expectMembers("{\"n\":" ++ digits ++ "}", &.{.{ .key = "n", .value = .{ .number = digits } }});
    }
}

/// Whether `text` is an object without nested values: true, false, or null where it has one.
fn isFlat(allocator: std.mem.Allocator, text: []const u8) !?bool {
    var object: Object = .{ .text = text, .allocator = allocator };
    while (object.next() catch |err| switch (err) {
        error.Syntax => return false,
        error.OutOfMemory => |e| return e,
    }) |member| {
        if (member.value == .nested) return null;
    }
    return true;
}

test "what is not JSON" {
    var arena: std.heap.ArenaAllocator = .init(testing.allocator);
    defer arena.deinit();
    const wrong = [_][]const u8{
        "",                      " ",                      "{",                   "}",
        "[]",                    "\"a\"",                  "true",                "{a:1}",
        "{'a':1}",               "{\"a\"}",                "{\"a\":}",            "{\"a\":1,}",
        "{,}",                   "{\"a\":1 \"b\":2}",      "{\"a\":1}}",          "{\"a\":1} {}",
        "{\"a\":01}",            "{\"a\":+1}",             "{\"a\":1.}",          "{\"a\":.5}",
        "{\"a\":1e}",            "{\"a\":-}",              "{\"a\":1_0}",         "{\"a\":True}",
        "{\"a\":truely}",        "{\"a\":\"b}",            "{\"a\":\"\\\"}",      "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12\"}",     "{\"a\":\"\\u12g4\"}",    "{\"a\":\"\n\"}",      "{\"a\":\"\x00\"}",
        "{\"a\":\"\\ud83d\"}",   "{\"a\":\"\\ude00\"}",    "{\"a\":\"\xff\"}",    "{\"a\":\"\\ud83d\\u0041\"}",
        "\xef\xbb\xbf{}",        "{\"a\":1}\x00",          "{\"a\":\"b\"",        "{\"a\":tru",
        "{// comment\n\"a\":1}", "{\"a\":\"\\ud83d\\n\"}", "{\"a\":\"\\u+123\"}",
    };
    for (wrong) |text| {
        errdefer std.debug.print("{s}\n", .{text});
        try testing.expectEqual(false, try isFlat(arena.allocator(), text));
    }
    try testing.expectEqual(null, try isFlat(arena.allocator(), "{\"a\":[1]}"));
    try testing.expectEqual(null, try isFlat(arena.allocator(), "{\"a\":{}}"));
}

test "random text is judged as the standard library judges it" {
    const pieces = [_][]const u8{
        "{",   "}",   "\"", "\"a\"", ":",       ",",       " ",       "\n",   "\\",   "\\u",
        "00",  "0",   "1",  "-",     ".",       "e",       "E",       "+",    "true", "false",
        "nu",  "ll",  "\"", "\\n",   "\\\"",    "\\ud83d", "\\ude00", "\xc3", "\xa9",
        "é",
        "{\"", "\":", "}",  "}",     "{\"a\":", "\"}",
    };
    var arena: std.heap.ArenaAllocator = .init(testing.allocator);
    defer arena.deinit();
    var random: std.Random.DefaultPrng = .init(1);
    var accepted: usize = 0;
    for (0..300_000) |_| {
        defer _ = arena.reset(.retain_capacity);
        var text: std.ArrayList(u8) = .empty;
        try text.appendSlice(arena.allocator(), "{");
        for (0..random.random().uintLessThan(usize, 9)) |_| {
            try text.appendSlice(arena.allocator(), pieces[random.random().uintLessThan(usize, pieces.len)]);
        }
        errdefer std.debug.print("{s}\n", .{text.items});
        const flat = try isFlat(arena.allocator(), text.items) orelse continue;
        accepted += @intFromBool(flat);
        try testing.expectEqual(try std.json.Scanner.validate(arena.allocator(), text.items), flat);
    }
    try testing.expect(accepted > 500);
}
