import { guestAfterPrefilter } from "./guest";

export function permit(): i64 {
  return guestAfterPrefilter().callPermit();
}
