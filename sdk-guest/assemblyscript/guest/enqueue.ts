import { guest } from "./guest";

export function enqueue(): void {
  guest().callEnqueue();
}
