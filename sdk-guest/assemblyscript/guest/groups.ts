/** Groups of pods: `groups` of `kwx-guest` knows those that the host tells of. */

import { guestAfterPrefilter } from "./guest";
import { groupsChanged, membersChanged } from "./known_groups";
import { room } from "./record_buffer";

export function podbuffer(length: i32): usize {
  return room(length);
}

export function groupschanged(count: i32): void {
  guestAfterPrefilter();
  groupsChanged(count);
}

export function memberschanged(count: i32): void {
  membersChanged(count);
}
