import { guestAfterPrefilter } from "./guest";

export function filter(): i32 {
  return guestAfterPrefilter().callFilter();
}

export function filternodes(count: i32): i32 {
  return guestAfterPrefilter().callFilterNodes(count);
}
