/** Nodes that the host announces are read once, when they change. */

import { guest } from "./guest";

export function nodechanged(number: u32): void {
  guest().nodeChanged(number);
}

export function noderemoved(number: u32): void {
  guest().nodeRemoved(number);
}

export function nodebuffer(count: i32): usize {
  return guest().nodeBuffer(count);
}

export function collectgarbage(): void {
  __collect();
}
