import { guestAfterPrefilter } from "./guest";

export function reserve(): i32 {
  return guestAfterPrefilter().callReserve();
}
