/** A pod's cycle begins with prescore where the module does not export prefilter. */

import { beginsWithPrescore, guest, hasPrefilter } from "./guest";

beginsWithPrescore();

export function prescore(): i32 {
  return guest().callPrescore(!hasPrefilter());
}
