import * as host from "./host";

const REALTIME = 0;
const NANOS: u64 = 1_000_000_000;

/** Where the host writes a time. */
const time = memory.data(8, 8);

/** Seconds of Unix time, by the host's clock. In the upstream host time stands still. */
export function now(): u64 {
  host.clock_time_get(REALTIME, NANOS, time);
  return load<u64>(time) / NANOS;
}
