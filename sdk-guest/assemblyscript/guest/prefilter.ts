import { beginsWithPrefilter, guest } from "./guest";

beginsWithPrefilter();

export function prefilter(): i32 {
  return guest().callPrefilter();
}
