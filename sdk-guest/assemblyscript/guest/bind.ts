import { guestAfterPrefilter } from "./guest";

export function bind(): i32 {
  return guestAfterPrefilter().callBind();
}
