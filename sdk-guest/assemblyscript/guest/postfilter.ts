import { guestAfterPrefilter } from "./guest";

export function postfilter(): i64 {
  return guestAfterPrefilter().callPostfilter();
}
