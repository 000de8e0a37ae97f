import * as host from "./host";

/** Pods, nodes and names fit as a rule; for what is longer the host is asked twice. */
const USUAL_SIZE: i32 = 16 * 1024;

let buffer = new ArrayBuffer(USUAL_SIZE);

/**
 * What the host answers to `ask`, as bytes of its own. `name` is what is asked about, if anything.
 *
 * @param ask a function that writes to a buffer of at most so many bytes, and returns how many the answer has
 */
export function read(ask: (buffer: usize, limit: i32) => i32): ArrayBuffer {
  let length = ask(changetype<usize>(buffer), buffer.byteLength);
  if (length > buffer.byteLength) {
    buffer = new ArrayBuffer(length);
    length = ask(changetype<usize>(buffer), length);
  }
  return buffer.slice(0, length);
}

/** The same as text. */
export function readText(ask: (buffer: usize, limit: i32) => i32): string {
  return String.UTF8.decode(read(ask));
}

/** The node of that name; no bytes where the host knows none. */
export function readNode(name: string): ArrayBuffer {
  const bytes = String.UTF8.encode(name);
  const address = changetype<usize>(bytes);
  let length = host.node(address, bytes.byteLength, changetype<usize>(buffer), buffer.byteLength);
  if (length > buffer.byteLength) {
    buffer = new ArrayBuffer(length);
    length = host.node(address, bytes.byteLength, changetype<usize>(buffer), length);
  }
  return buffer.slice(0, length);
}

/** Hands a text to the host. */
export function send(text: string, take: (address: usize, length: i32) => void): void {
  const bytes = String.UTF8.encode(text);
  take(changetype<usize>(bytes), bytes.byteLength);
}
