/** Pods without a node: `pendingPodChanged` and `pendingPodRemoved` of the plugin are told of them. */

import { guestAfterPrefilter } from "./guest";
import { room } from "./record_buffer";

export function podbuffer(length: i32): usize {
  return room(length);
}

export function pendingpodschanged(count: i32): void {
  guestAfterPrefilter().pendingPodsChanged(count);
}
