//! Pods and nodes as protobuf, from their JSON: what encode.py does, where the JSON is as it mostly is.
//!
//! The host copies a table of messages (table.py) into the memory once, then a text for each call. What is answered is
//! byte for byte what encode.py makes of it. Anything out of the ordinary is left to that, which has the errors:
//! text that is no JSON or does not fit the table, a name twice in an object, surrogates written as escapes, fractions
//! and exponents, integers of more than 64 bits, times with a fraction or an offset, quantities with spaces or more
//! than `longest_quantity` characters, more than `most_keys` keys of maps, unknown fields nested deeper than `deepest`.
//!
//! Time is linear in the text: a byte is read once, and once more for each inlined message around it; no key is looked
//! for in more than `longest_probe` places; what a message holds is moved at most once, when its length is known.

const std = @import("std");

const page = 64 << 10;

/// A place in the text, or null for what is left to encode.py. Behind the text is a 0, which JSON does not have.
const Text = [*]const u8;

// -- the table -------------------------------------------------------------------------------------

/// The order of `Kind` in schema.py.
const Kind = enum(u8) { string, bool, int32, int64, quantity, time, int_or_string, fields_v1, message };

/// The order of `Shape` in schema.py.
const Shape = enum(u8) { one, list, map };

const Field = extern struct {
    name: [*]const u8,
    message: ?*const Message,
    length: u8,
    number: u8,
    shape: Shape,
    kind: Kind,
};

/// A message whose fields JSON keeps beside those of another.
const Inlined = extern struct {
    message: *const Message,
    number: u32,
};

/// At most 64 fields, with a hash index of 2 to the power of `bits` slots.
const Message = extern struct {
    slots: [*]const u8,
    fields: [*]const Field,
    inlined: [*]const Inlined,
    bits: u8,
    inlined_count: u8,

    const empty = 0xff;

    fn find(message: *const Message, name: []const u8) ?u6 {
        const mask = (@as(u32, 1) << @intCast(message.bits)) - 1;
        var slot: u32 = @truncate(hash(name) >> @intCast(64 - @as(u32, message.bits)));
        while (message.slots[slot] != empty) : (slot = (slot + 1) & mask) {
            const index = message.slots[slot];
            const field = &message.fields[index];
            if (field.length == name.len and equal(field.name, name.ptr, name.len)) return @intCast(index);
        }
        return null;
    }
};

/// Of the first and the last eight bytes. Each name has eight bytes behind it that may be read.
fn hash(name: []const u8) u64 {
    const last = if (name.len < 8) 0 else word(name.ptr + name.len - 8);
    return (first(name.ptr, name.len) +% last *% 3 +% name.len) *% golden;
}

const golden = 0x9e3779b97f4a7c15;

fn word(bytes: [*]const u8) u64 {
    return std.mem.readInt(u64, bytes[0..8], .little);
}

/// Up to eight bytes as a number.
fn first(bytes: [*]const u8, length: usize) u64 {
    if (length >= 8) return word(bytes);
    return word(bytes) & ((@as(u64, 1) << @intCast(8 * length)) - 1);
}

fn equal(one: [*]const u8, other: [*]const u8, length: usize) bool {
    var at: usize = 0;
    while (at < length) : (at += 8) {
        if (first(one + at, length - at) != first(other + at, length - at)) return false;
    }
    return true;
}

// -- the memory: table, text, answer ---------------------------------------------------------------

extern var __heap_base: u8;

var kept: u32 = 0;

/// Where texts begin.
fn texts() usize {
    return std.mem.alignForward(usize, @intFromPtr(&__heap_base), 16) + kept;
}

/// Makes room for a text of `size` bytes and for an answer twice as long. Its address, or null where there is none.
export fn reserve(size: u32) ?[*]u8 {
    const needed = texts() + 3 * size + page;
    const pages = @wasmMemorySize(0);
    if (needed > pages * page) {
        if (@wasmMemoryGrow(0, (needed - pages * page + page - 1) / page) < 0) return null;
    }
    return @ptrFromInt(texts());
}

/// Keeps what was written where `reserve` said; texts go behind it.
export fn keep(size: u32) void {
    kept += std.mem.alignForward(u32, size, 16);
}

/// Converts the text of `size` bytes, for which `reserve` has made room. Address and length of the answer in the
/// high and the low half, or -1 for what is left to encode.py.
export fn convert(message: *const Message, size: u32) i64 {
    const text: [*]u8 = @ptrFromInt(texts());
    text[size] = 0;
    const answer = text + std.mem.alignForward(u32, size + 1, 16) + 16;
    out = answer;
    limit = @wasmMemorySize(0) * page - slack;
    keys.clear();
    const past = object(message, skipSpace(text)) orelse return -1;
    if (skipSpace(past) != text + size) return -1;
    return @as(i64, @intFromPtr(answer)) << 32 | @as(i64, out - answer);
}

// -- what is written -------------------------------------------------------------------------------

/// Where the next byte goes.
var out: [*]u8 = undefined;

/// Where `out` must not be when a value, a key or the next bytes of a string begin.
var limit: usize = undefined;

/// More than is written between two looks at the limit: a value without its string, and the lengths of all
/// messages that end with it.
const slack = 512;

fn isFull() bool {
    return @intFromPtr(out) > limit;
}

fn put(byte: u8) void {
    out[0] = byte;
    out += 1;
}

fn varint(number: u64) void {
    var rest = number;
    while (rest >= 0x80) : (rest >>= 7) put(@as(u8, @truncate(rest)) | 0x80);
    put(@truncate(rest));
}

const WireType = enum(u3) { varint = 0, bytes = 2 };

fn tag(number: u32, wire_type: WireType) void {
    varint(number << 3 | @backingInt(wire_type));
}

/// Begins a field whose length is not known yet: a byte is left for it.
fn open(number: u32) [*]u8 {
    tag(number, .bytes);
    put(0);
    return out;
}

fn close(body: [*]u8) void {
    const length = out - body;
    if (length < 0x80) {
        (body - 1)[0] = @intCast(length);
        return;
    }
    out = body - 1;
    const moved = body + (std.math.log2_int(usize, length) / 7);
    @memmove(moved[0..length], body[0..length]);
    varint(length);
    out += length;
}

// -- what is read ----------------------------------------------------------------------------------

fn skipSpace(start: Text) Text {
    var at = start;
    while (at[0] <= ' ') : (at += 1) switch (at[0]) {
        ' ', '\t', '\n', '\r' => {},
        else => return at,
    };
    return at;
}

fn accept(at: Text, comptime expected: []const u8) ?Text {
    inline for (expected, 0..) |byte, index| if (at[index] != byte) return null;
    return at + expected.len;
}

/// To the value behind a colon, or to the item behind a comma.
fn behind(at: Text, comptime sign: u8) ?Text {
    return skipSpace(accept(skipSpace(at), &.{sign}) orelse return null);
}

const Integer = struct { value: i64, past: Text };

fn integer(start: Text) ?Integer {
    const digits = if (start[0] == '-') start + 1 else start;
    const past = pastDigits(digits);
    const count = past - digits;
    if (count == 0 or count > 19 or (digits[0] == '0' and past - start > 1)) return null;
    var magnitude: u64 = 0;
    for (digits[0..count]) |digit| magnitude = magnitude * 10 + (digit - '0');
    const highest: u64 = std.math.maxInt(i64);
    if (digits == start) return if (magnitude > highest) null else .{ .value = @intCast(magnitude), .past = past };
    return if (magnitude > highest + 1) null else .{ .value = @bitCast(0 -% magnitude), .past = past };
}

fn pastDigits(start: Text) Text {
    var at = start;
    while (std.ascii.isDigit(at[0])) at += 1;
    return at;
}

const chunk = 16;
const Chunk = @Vector(chunk, u8);

/// The bytes of a string up to the first that is not plain: a quote, a backslash, a control or no ASCII.
fn plain(bytes: Chunk) usize {
    const signed: @Vector(chunk, i8) = @bitCast(bytes);
    const odd = @as(u16, @bitCast(signed < @as(@Vector(chunk, i8), @splat(' ')))) |
        @as(u16, @bitCast(bytes == @as(Chunk, @splat('"')))) |
        @as(u16, @bitCast(bytes == @as(Chunk, @splat('\\'))));
    return @ctz(odd);
}

/// How a string is written: as its bytes, or as JSON as msgspec writes it.
const Form = enum { bytes, json };

/// Writes the string of which the first quote is past.
fn string(comptime form: Form, start: Text) ?Text {
    var at = start;
    while (true) {
        if (isFull()) return null;
        const bytes: Chunk = at[0..chunk].*;
        out[0..chunk].* = bytes;
        const count = plain(bytes);
        at += count;
        out += count;
        if (count == chunk) continue;
        at = switch (at[0]) {
            '"' => return at + 1,
            '\\' => escape(form, at + 1),
            0x80...0xff => character(at),
            else => null,
        } orelse return null;
    }
}

/// Writes what stands for the escape of which the backslash is past.
fn escape(comptime form: Form, at: Text) ?Text {
    const byte: u8 = switch (at[0]) {
        '"', '\\', '/' => at[0],
        'b' => 0x08,
        't' => '\t',
        'n' => '\n',
        'f' => 0x0c,
        'r' => '\r',
        'u' => return codepoint(form, at + 1),
        else => return null,
    };
    const stays = form == .json and byte != '/';
    if (stays) put('\\');
    put(if (stays) at[0] else byte);
    return at + 1;
}

fn codepoint(comptime form: Form, at: Text) ?Text {
    var code: u21 = 0;
    for (0..4) |index| {
        code = code << 4 | (std.fmt.charToDigit(at[index], 16) catch return null);
    }
    if (form == .json and (code < ' ' or code == '"' or code == '\\')) return null;
    out += std.unicode.utf8Encode(code, out[0..4]) catch return null;
    return at + 4;
}

fn character(at: Text) ?Text {
    const length = std.unicode.utf8ByteSequenceLength(at[0]) catch return null;
    _ = std.unicode.utf8Decode(at[0..length]) catch return null;
    out[0..4].* = at[0..4].*;
    out += length;
    return at + length;
}

// -- keys of maps ----------------------------------------------------------------------------------

/// The keys of all maps of a text by their hash. Two with the same are taken for the same.
const Keys = struct {
    slots: [2 * most_keys]Slot = @splat(.{ .hash = 0, .call = 0 }),
    /// Slots of other calls are empty.
    call: u32 = 0,
    count: u32 = 0,
    maps: u32 = 0,

    const Slot = packed struct { hash: u32, call: u32 };

    fn clear(set: *Keys) void {
        set.call +%= 1;
        set.count = 0;
        set.maps = 0;
    }

    /// Begins a map. Its number tells its keys from those of others.
    fn begin(set: *Keys) u32 {
        set.maps += 1;
        return set.maps;
    }

    /// False for a key that the map may have already, and where there are too many.
    fn add(set: *Keys, holder: u32, key: []const u8) bool {
        set.count += 1;
        if (set.count > most_keys) return false;
        const full = mix(holder, key);
        const slot: Slot = .{ .hash = @truncate(full >> 32), .call = set.call };
        for (0..longest_probe) |probe| {
            const place = &set.slots[(@as(u32, @truncate(full)) +% probe) % set.slots.len];
            if (place.call != set.call) {
                place.* = slot;
                return true;
            }
            if (place.* == slot) return false;
        }
        return false;
    }

    fn mix(seed: u64, key: []const u8) u64 {
        var state = seed *% golden;
        var at: usize = 0;
        while (at < key.len) : (at += 8) {
            state = (state ^ first(key.ptr + at, key.len - at)) *% golden;
            state ^= state >> 29;
        }
        state = (state ^ key.len) *% golden;
        return state ^ state >> 32;
    }
};

const most_keys = 2048;
const longest_probe = 32;

var keys: Keys = .{};

// -- values by the table ---------------------------------------------------------------------------

/// Writes a message's body.
fn object(message: *const Message, start: Text) ?Text {
    const past = members(message, start) orelse return null;
    for (message.inlined[0..message.inlined_count]) |each| {
        if (isFull()) return null;
        const body = open(each.number);
        _ = object(each.message, start) orelse return null;
        close(body);
    }
    return past;
}

fn members(message: *const Message, start: Text) ?Text {
    var seen: u64 = 0;
    var at = skipSpace(accept(start, "{") orelse return null);
    if (at[0] == '}') return at + 1;
    while (true) : (at = behind(at, ',') orelse return null) {
        const name = accept(at, "\"") orelse return null;
        var end = name;
        while (plain(end[0..chunk].*) == chunk) end += chunk;
        end += plain(end[0..chunk].*);
        at = behind(accept(end, "\"") orelse return null, ':') orelse return null;
        if (message.find(name[0 .. end - name])) |index| {
            const bit = @as(u64, 1) << index;
            if (seen & bit != 0) return null;
            seen |= bit;
            at = values(&message.fields[index], at) orelse return null;
        } else {
            at = skip(at) orelse return null;
        }
        at = skipSpace(at);
        if (at[0] == '}') return at + 1;
    }
}

/// Reads a field that the table does not know. What it writes is written over.
fn skip(at: Text) ?Text {
    const before = out;
    defer out = before;
    return json(.bytes, at, deepest);
}

/// Writes a field as often as it has values.
fn values(field: *const Field, at: Text) ?Text {
    if (at[0] == 'n') return accept(at, "null");
    return switch (field.shape) {
        .one => value(field, field.number, at),
        .list => list(field, at),
        .map => map(field, at),
    };
}

fn list(field: *const Field, start: Text) ?Text {
    var at = skipSpace(accept(start, "[") orelse return null);
    if (at[0] == ']') return at + 1;
    while (true) : (at = behind(at, ',') orelse return null) {
        if (at[0] == 'n') {
            at = zero(field, at) orelse return null;
        } else {
            at = value(field, field.number, at) orelse return null;
        }
        at = skipSpace(at);
        if (at[0] == ']') return at + 1;
    }
}

/// Writes the null of a list.
fn zero(field: *const Field, at: Text) ?Text {
    if (isFull()) return null;
    tag(field.number, switch (field.kind) {
        .bool, .int32, .int64 => .varint,
        else => .bytes,
    });
    put(0);
    return accept(at, "null");
}

fn map(field: *const Field, start: Text) ?Text {
    const holder = keys.begin();
    var at = skipSpace(accept(start, "{") orelse return null);
    if (at[0] == '}') return at + 1;
    while (true) : (at = behind(at, ',') orelse return null) {
        if (isFull()) return null;
        const entry = open(field.number);
        const key = open(1);
        at = string(.bytes, accept(at, "\"") orelse return null) orelse return null;
        if (!keys.add(holder, key[0 .. out - key])) return null;
        close(key);
        at = behind(at, ':') orelse return null;
        at = (if (at[0] == 'n') accept(at, "null") else value(field, 2, at)) orelse return null;
        close(entry);
        at = skipSpace(at);
        if (at[0] == '}') return at + 1;
    }
}

/// Writes one value that is not null, with the tag of `number`.
fn value(field: *const Field, number: u32, at: Text) ?Text {
    if (isFull()) return null;
    switch (field.kind) {
        .bool => return boolean(number, at),
        .int32 => return varintOf(std.math.minInt(i32), std.math.maxInt(i32), number, at),
        .int64 => return varintOf(std.math.minInt(i64), std.math.maxInt(i64), number, at),
        else => {},
    }
    const body = open(number);
    const past = switch (field.kind) {
        .string => string(.bytes, accept(at, "\"") orelse return null),
        .quantity => quantity(at),
        .time => time(at),
        .int_or_string => intOrString(at),
        .fields_v1 => fieldsV1(at),
        .message => object(field.message.?, at),
        .bool, .int32, .int64 => unreachable,
    } orelse return null;
    close(body);
    return past;
}

fn boolean(number: u32, at: Text) ?Text {
    tag(number, .varint);
    put(@intFromBool(at[0] == 't'));
    return if (at[0] == 't') accept(at, "true") else accept(at, "false");
}

fn varintOf(comptime low: i64, comptime high: i64, number: u32, at: Text) ?Text {
    const read = integer(at) orelse return null;
    if (read.value < low or read.value > high) return null;
    tag(number, .varint);
    varint(@bitCast(read.value));
    return read.past;
}

/// As int_or_string.py.
fn intOrString(at: Text) ?Text {
    if (at[0] != '"') return varintOf(std.math.minInt(i32), std.math.maxInt(i32), 2, at);
    tag(1, .varint);
    put(1);
    const body = open(3);
    const past = string(.bytes, at + 1) orelse return null;
    close(body);
    return past;
}

/// As fields_v1.py: the JSON anew, without spaces.
fn fieldsV1(at: Text) ?Text {
    const body = open(1);
    const past = json(.json, at, deepest) orelse return null;
    close(body);
    return past;
}

/// As quantity.py: a number's digits, or a string's text.
fn quantity(at: Text) ?Text {
    const quoted = at[0] == '"';
    const start = if (quoted) at + 1 else at;
    const end = if (quoted) quantityEnd(start) orelse return null else (integer(at) orelse return null).past;
    const length = end - start;
    if (length > longest_quantity) return null;
    const body = open(1);
    out[0..longest_quantity].* = start[0..longest_quantity].*;
    out += length;
    close(body);
    return if (quoted) accept(end, "\"") else end;
}

const longest_quantity = 32;

fn quantityEnd(start: Text) ?Text {
    const sign = if (start[0] == '+' or start[0] == '-') start + 1 else start;
    var at = pastDigits(sign);
    var count = at - sign;
    if (at[0] == '.') {
        const end = pastDigits(at + 1);
        count += end - at - 1;
        at = end;
    }
    if (count == 0) return null;
    switch (at[0]) {
        'n', 'u', 'm', 'k' => return at + 1,
        'K' => return accept(at, "Ki"),
        'M', 'G', 'T', 'P' => return if (at[1] == 'i') at + 2 else at + 1,
        'E' => if (at[1] == 'i') return at + 2 else if (at[1] == '"') return at + 1,
        'e' => {},
        else => return at,
    }
    const exponent = if (at[1] == '+' or at[1] == '-') at + 2 else at + 1;
    const end = pastDigits(exponent);
    return if (end == exponent or end - exponent > 18) null else end;
}

/// As timestamp.py, of the form that Kubernetes writes: 2026-11-21T05:24:08Z.
fn time(start: Text) ?Text {
    var at = accept(start, "\"") orelse return null;
    const year = part(&at, 4, "-", 0, 9999) orelse return null;
    const month = part(&at, 2, "-", 1, 12) orelse return null;
    const day = part(&at, 2, "T", 1, 31) orelse return null;
    const hour = part(&at, 2, ":", 0, 23) orelse return null;
    const minute = part(&at, 2, ":", 0, 59) orelse return null;
    const second = part(&at, 2, "Z\"", 0, 59) orelse return null;
    const leap: i64 = @intFromBool(@mod(year, 4) == 0 and (@mod(year, 100) != 0 or @mod(year, 400) == 0));
    const length: i64 = switch (month) {
        2 => 28 + leap,
        4, 6, 9, 11 => 30,
        else => 31,
    };
    if (day > length) return null;
    tag(1, .varint);
    varint(@bitCast(((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second));
    return at;
}

/// A number of some digits with what follows it, which are past then.
fn part(at: *Text, comptime digits: usize, comptime sign: []const u8, low: i64, high: i64) ?i64 {
    var result: i64 = 0;
    for (0..digits) |index| {
        if (!std.ascii.isDigit(at.*[index])) return null;
        result = result * 10 + (at.*[index] - '0');
    }
    at.* = accept(at.* + digits, sign) orelse return null;
    return if (result < low or result > high) null else result;
}

/// From 1970 to a date. Years begin with March, so that the leap day is the last one.
fn days(year: i64, month: i64, day: i64) i64 {
    const from_march = @mod(month + 9, 12);
    const years = if (month < 3) year - 1 else year;
    const leap_days = @divFloor(years, 4) - @divFloor(years, 100) + @divFloor(years, 400);
    return 365 * years + leap_days + @divFloor(153 * from_march + 2, 5) + day - 1 - 719_468;
}

// -- any JSON --------------------------------------------------------------------------------------

const deepest = 64;

/// Writes a value without spaces, nested for at most `levels` times; in the form of JSON as msgspec would after it has
/// decoded it, without duplicates.
fn json(comptime form: Form, at: Text, levels: u32) ?Text {
    if (isFull() or levels == 0) return null;
    switch (at[0]) {
        '{' => return jsonItems(form, at, '}', levels),
        '[' => return jsonItems(form, at, ']', levels),
        '"' => {
            put('"');
            const past = string(form, at + 1) orelse return null;
            put('"');
            return past;
        },
        else => {},
    }
    const past = switch (at[0]) {
        't' => accept(at, "true"),
        'f' => accept(at, "false"),
        'n' => accept(at, "null"),
        else => if (integer(at)) |read| read.past else null,
    } orelse return null;
    const length = past - at;
    @memcpy(out, at[0..length]);
    out += length;
    return past;
}

fn jsonItems(comptime form: Form, start: Text, comptime closing: u8, levels: u32) ?Text {
    const holder = keys.begin();
    put(start[0]);
    var at = skipSpace(start + 1);
    if (at[0] != closing) while (true) : (at = behind(at, ',') orelse return null) {
        if (closing == '}') at = jsonKey(form, holder, at) orelse return null;
        at = skipSpace(json(form, at, levels - 1) orelse return null);
        if (at[0] == closing) break;
        put(',');
    };
    put(closing);
    return at + 1;
}

/// Writes a key and its colon.
fn jsonKey(comptime form: Form, holder: u32, at: Text) ?Text {
    if (isFull()) return null;
    put('"');
    const key = out;
    const past = string(form, accept(at, "\"") orelse return null) orelse return null;
    if (form == .json and !keys.add(holder, key[0 .. out - key])) return null;
    put('"');
    put(':');
    return behind(past, ':');
}
