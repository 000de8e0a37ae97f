import { Status } from "./status";

/** The reasons of one list call. Each is handed over once, and has a number from 1 on. */
export class Reasons {
  private count: u32 = 0;
  private readonly numbers: Map<string, u32> = new Map<string, u32>();
  /** The reason that was asked for last: as a rule, many nodes in turn have the same one. */
  private last: string = "";
  private lastNumber: u32 = 0;

  /** The number of a status' reason, 0 for none. */
  number(status: Status): u32 {
    const reason = status.reason;
    if (changetype<usize>(reason) == changetype<usize>(this.last)) return this.lastNumber;
    if (reason.length == 0) return 0;
    if (!this.numbers.has(reason)) {
      status.send();
      this.numbers.set(reason, ++this.count);
    }
    this.last = reason;
    this.lastNumber = this.numbers.get(reason);
    return this.lastNumber;
  }
}
