/** What preemption tries: pods that come to nodes and go. */

import { guestAfterPrefilter } from "./guest";

export function addpod(): i32 {
  return guestAfterPrefilter().callAddpod();
}

export function removepod(): i32 {
  return guestAfterPrefilter().callRemovepod();
}
