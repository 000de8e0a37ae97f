import { guestAfterPrefilter } from "./guest";

export function prebind(): i32 {
  return guestAfterPrefilter().callPrebind();
}
