import { guestAfterPrefilter } from "./guest";

export function postbind(): void {
  guestAfterPrefilter().callPostbind();
}
