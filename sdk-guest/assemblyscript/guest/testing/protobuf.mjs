/** Objects of Kubernetes as they are in JSON, encoded to protobuf as a host gives them to a guest. */

import { readFileSync } from "node:fs";

/** By message and field: number, shape, kind, and the message's name. */
const { messages, inlined } = JSON.parse(readFileSync(new URL("schema.json", import.meta.url)));

const VARINT = 0;
const BYTES = 2;

/** How a value of each kind is encoded. */
const KINDS = {
  string: (value) => bytes(Buffer.from(value)),
  bool: (value) => varint(value ? 1 : 0),
  int32: varint,
  int64: varint,
  quantity: (value) => bytes(field(1, bytes(Buffer.from(String(value))))),
  time: (value) => bytes(field(1, varint(Math.floor(Date.parse(value) / 1000)))),
  int_or_string: (value) =>
    bytes(
      typeof value === "number"
        ? field(2, varint(value))
        : Buffer.concat([field(1, varint(1)), field(3, bytes(Buffer.from(value)))]),
    ),
  message: (value, name) => bytes(encode(name, value)),
};

/**
 * An object, such as a Pod, as protobuf.
 *
 * @param {string} message its kind
 * @param {object} object a key that the kind does not have is an error
 * @returns {Buffer}
 */
export function encode(message, object) {
  const fields = messages[message];
  const parts = [];
  for (const [name, child] of Object.entries(inlined[message] ?? {})) {
    const own = Object.fromEntries(Object.entries(object).filter(([key]) => !(key in fields) && key in messages[name]));
    if (Object.keys(own).length > 0) parts.push(field(child, bytes(encode(name, own))));
    object = Object.fromEntries(Object.entries(object).filter(([key]) => !(key in own)));
  }
  for (const [key, value] of Object.entries(object)) {
    if (["apiVersion", "kind"].includes(key) && !(key in fields)) continue;
    if (!(key in fields)) throw new TypeError(`${message} has no field ${key}`);
    if (value !== null && value !== undefined) parts.push(...encodeField(fields[key], value, `${message}.${key}`));
  }
  return Buffer.concat(parts);
}

function* encodeField([number, shape, kind, child], value, name) {
  const one = KINDS[kind];
  if (!one) throw new TypeError(`${name} cannot be given`);
  if (shape === "one") yield field(number, one(value, child));
  else if (shape === "list") for (const each of value) yield field(number, one(each, child));
  else
    for (const [key, each] of Object.entries(value)) {
      const entry = [field(1, KINDS.string(key)), field(2, one(each, child))];
      yield field(number, bytes(Buffer.concat(entry)));
    }
}

function field(number, { type, content }) {
  return Buffer.concat([varint((number << 3) | type).content, content]);
}

function bytes(content) {
  return { type: BYTES, content: Buffer.concat([varint(content.length).content, content]) };
}

function varint(value) {
  let rest = BigInt.asUintN(64, BigInt(value));
  const content = [];
  do {
    content.push(Number(rest & 0x7fn) | (rest > 0x7fn ? 0x80 : 0));
    rest >>= 7n;
  } while (rest > 0n);
  return { type: VARINT, content: Buffer.from(content) };
}
