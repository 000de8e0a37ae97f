/** What the host writes of pods, by the section on resident pods of ABI.md. */

import { Message } from "./protobuf";
import { Pod } from "./objects";
import { RecordReader } from "./record_buffer";

/** The number of no node. */
export const NOWHERE = u32.MAX_VALUE;

const HEAD: u32 = 16;

export enum State {
  Gone = 0,
  There = 1,
  Tentative = 2,
}

/** Reads records one after the other. */
export class PodRecords extends RecordReader {
  pod: u32 = 0;
  node: u32 = 0;
  state: State = State.Gone;
  private length: u32 = 0;

  /** Goes to the next one, which is to be there. */
  next(): void {
    this.begin(HEAD);
    this.pod = load<u32>(this.record);
    this.node = load<u32>(this.record, 4);
    this.state = load<u32>(this.record, 8);
    this.length = load<u32>(this.record, 12);
    this.extend(<u64>HEAD + this.length);
  }

  /** Whether the pod is the one that was told last. */
  get isAsBefore(): bool {
    return this.length == 0;
  }

  /** A copy of the pod. */
  get object(): Pod {
    return Message.from<Pod>(this.copy(HEAD, this.length));
  }
}
