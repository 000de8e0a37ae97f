/** Why the call at hand has no answer; null while it may have one. */
let reason: string | null = null;

/**
 * Ends the call with the status Error and this reason, once the plugin returns, whatever it returns. The guest goes on with
 * the next call. Of several reasons the first one is told.
 */
export function fail(why: string): void {
  if (reason === null) reason = why;
}

/** Whether the call has failed. */
export function hasFailed(): bool {
  return reason !== null;
}

/** The reason why the call has failed, which is forgotten; null if it has not. */
export function takeFailure(): string | null {
  const why = reason;
  reason = null;
  return why;
}
