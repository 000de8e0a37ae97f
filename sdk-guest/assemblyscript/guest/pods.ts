/** Pods on nodes are read once, when they come or change. The plugin is a `PluginWithPods`. */

import { guestAfterPrefilter } from "./guest";
import { room } from "./record_buffer";

export function podbuffer(length: i32): usize {
  return room(length);
}

export function podschanged(count: i32): void {
  guestAfterPrefilter().podsChanged(count);
}
