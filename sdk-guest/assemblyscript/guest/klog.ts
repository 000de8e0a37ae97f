/** Lines in the host's log: `klog.info("pod " + name)`. */

import * as host from "./host";

export function info(line: string): void {
  write(0, line);
}

export function warning(line: string): void {
  write(1, line);
}

export function error(line: string): void {
  write(2, line);
}

function write(severity: i32, line: string): void {
  if (severity < host.severity()) return; // Asked first: most hosts drop most lines.
  const bytes = String.UTF8.encode(line);
  host.log(severity, changetype<usize>(bytes), bytes.byteLength);
}
