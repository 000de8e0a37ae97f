import { guestAfterPrefilter } from "./guest";

export function unreserve(): void {
  guestAfterPrefilter().callUnreserve();
}
