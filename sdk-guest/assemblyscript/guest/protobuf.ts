/**
 * A lazy reader of protobuf messages: it finds fields in the bytes as they are asked for, and copies texts alone.
 * Malformed bytes fail the call, and nothing is read behind them; never is anything read out of bounds.
 *
 * Wire format: https://protobuf.dev/programming-guides/encoding/. Groups, which no message of Kubernetes has, count as
 * malformed.
 */

import { fail } from "./failure";

const NOTHING = new ArrayBuffer(0);

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;

/** Where reading goes on. */
let at: usize = 0;
/** The field that was read last: its number, its wire type, and its value, or the length of the bytes before `at`. */
let number: u32 = 0;
let kind: u32 = 0;
let value: u64 = 0;

/** The bytes of a field that was found. */
let begin: usize = 0;
let end: usize = 0;

/** Reads a field at `at`. Whether there is one: behind malformed bytes there is none, and `at` is the limit. */
function readField(limit: usize): bool {
  if (at == limit) return false;
  if (readTag(limit) && readValue(limit)) return true;
  fail("malformed protobuf");
  at = limit;
  return false;
}

function readTag(limit: usize): bool {
  if (!readVarint(limit) || value > u32.MAX_VALUE) return false;
  number = <u32>value >> 3;
  kind = <u32>value & 7;
  return number != 0;
}

function readValue(limit: usize): bool {
  switch (kind) {
    case VARINT:
      return readVarint(limit);
    case FIXED64:
      return skip(8, limit);
    case BYTES:
      return readVarint(limit) && skip(value, limit);
    case FIXED32:
      return skip(4, limit);
    default:
      return false;
  }
}

function skip(length: u64, limit: usize): bool {
  if (length > <u64>(limit - at)) return false;
  at += <usize>length;
  return true;
}

/** Reads a number into `value`. */
function readVarint(limit: usize): bool {
  value = 0;
  for (let shift: u64 = 0; shift < 64 && at != limit; shift += 7) {
    const byte = <u64>load<u8>(at++);
    if (shift == 63 && byte > 1) return false;
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

/** Whether the field that was read is the one of that number. If so, but of another wire type, the call fails. */
function isField(field: u32, type: u32): bool {
  if (number != field) return false;
  if (kind != type) fail("malformed protobuf");
  return kind == type;
}

/** Looks for a field of bytes, of several for the last one, and leaves it in `begin` and `end`. */
function find(field: u32, from: usize, to: usize): bool {
  let found = false;
  at = from;
  while (readField(to)) {
    if (!isField(field, BYTES)) continue;
    found = true;
    begin = at - <usize>value;
    end = at;
  }
  return found;
}

/** Looks from an address on for the next field of that number, which has bytes. */
function findNext(field: u32, from: usize, to: usize): bool {
  at = from;
  while (readField(to)) {
    if (!isField(field, BYTES)) continue;
    begin = at - <usize>value;
    end = at;
    return true;
  }
  return false;
}

function decode(): string {
  return String.UTF8.decodeUnsafe(begin, end - begin);
}

/** Whether the bytes that were found are this text. */
function isText(text: string): bool {
  const length = <usize>text.length;
  for (let i: usize = 0; i < length; i++) {
    const unit = load<u16>(changetype<usize>(text) + 2 * i);
    if (unit >= 0x80) return text == decode();
    if (begin + i >= end || <u16>load<u8>(begin + i) != unit) return false;
  }
  return length == end - begin;
}

/** Looks for an entry of a map, of several for the last one, and leaves its value in `begin` and `end`. */
function findEntry(field: u32, key: string, from: usize, to: usize): bool {
  let entry: usize = 0;
  let entryEnd: usize = 0;
  for (let next = from; findNext(field, next, to); ) {
    next = at;
    const candidate = begin;
    const candidateEnd = end;
    if (!find(1, candidate, candidateEnd)) begin = end = candidate; // An absent key is the empty one.
    if (!isText(key)) continue;
    entry = candidate;
    entryEnd = candidateEnd;
  }
  if (entry == 0) return false;
  if (!find(2, entry, entryEnd)) begin = end = entry; // So is an absent value.
  return true;
}

/**
 * A message that is not decoded yet: a part of bytes that stay as they are. No bytes are the empty message, in which
 * every field is absent.
 */
export class Message {
  constructor(
    private readonly source: ArrayBuffer,
    private readonly from: usize,
    private readonly to: usize,
  ) {}

  static empty<T>(): T {
    return instantiate<T>(NOTHING, 0, 0);
  }

  /** A message of all of these bytes. */
  static from<T>(bytes: ArrayBuffer): T {
    const from = changetype<usize>(bytes);
    return instantiate<T>(bytes, from, from + bytes.byteLength);
  }

  /** Whether there are no bytes. */
  get isEmpty(): bool {
    return this.from == this.to;
  }

  /** A field of type string; the empty text where it is absent. */
  textOf(field: u32): string {
    return find(field, this.from, this.to) ? decode() : "";
  }

  /** A field of an integer type or bool; zero where it is absent. */
  integerOf(field: u32): i64 {
    let found: i64 = 0;
    at = this.from;
    while (readField(this.to)) {
      if (isField(field, VARINT)) found = value;
    }
    return found;
  }

  /** An embedded message; the empty one where the field is absent. */
  messageOf<T>(field: u32): T {
    if (find(field, this.from, this.to)) return instantiate<T>(this.source, begin, end);
    return Message.empty<T>();
  }

  /** Whether a field is there, be it empty or not. */
  has(field: u32): bool {
    at = this.from;
    while (readField(this.to)) {
      if (number == field) return true;
    }
    return false;
  }

  /** The messages of a repeated field. */
  messagesOf<T>(field: u32): T[] {
    const found: T[] = [];
    for (let next = this.from; findNext(field, next, this.to); ) {
      next = at;
      found.push(instantiate<T>(this.source, begin, end));
    }
    return found;
  }

  /** The texts of a repeated field. */
  textsOf(field: u32): string[] {
    const found: string[] = [];
    for (let next = this.from; findNext(field, next, this.to); ) {
      next = at;
      found.push(decode());
    }
    return found;
  }

  /** The integers of a repeated field, each with a tag of its own as Kubernetes writes them. */
  integersOf(field: u32): i64[] {
    const found: i64[] = [];
    at = this.from;
    while (readField(this.to)) {
      if (isField(field, VARINT)) found.push(value);
    }
    return found;
  }

  /** The keys of a field of type `map<string, …>`. */
  keysOf(field: u32): string[] {
    const found: string[] = [];
    for (let next = this.from; findNext(field, next, this.to); ) {
      next = at;
      found.push(find(1, begin, end) ? decode() : "");
    }
    return found;
  }

  /** The messages of a map, in the order of its keys. */
  entryValuesOf<T>(field: u32): T[] {
    const found: T[] = [];
    for (let next = this.from; findNext(field, next, this.to); ) {
      next = at;
      const entryEnd = end;
      if (!find(2, begin, entryEnd)) begin = end = entryEnd;
      found.push(instantiate<T>(this.source, begin, end));
    }
    return found;
  }

  /** Whether a field of type `map<string, …>` has the key. */
  hasKey(field: u32, key: string): bool {
    return findEntry(field, key, this.from, this.to);
  }

  /** The text under a key of a map; the empty one where there is none. */
  textAt(field: u32, key: string): string {
    return findEntry(field, key, this.from, this.to) ? decode() : "";
  }

  /** The message under a key of a map; the empty one where there is none. */
  messageAt<T>(field: u32, key: string): T {
    if (findEntry(field, key, this.from, this.to)) return instantiate<T>(this.source, begin, end);
    return Message.empty<T>();
  }
}
