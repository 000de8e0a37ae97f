/** What the host writes of groups of pods, by the section on resident groups of ABI.md. */

import { MemberState } from "./group";
import { NOWHERE } from "./pod_records";
import { RecordReader } from "./record_buffer";

const GROUP_HEAD: u32 = 40;
const MEMBER_LENGTH: u32 = 16;

/** States of a member that has a node. */
const TENTATIVE = 2;
const BINDING = 3;

/** Reads what is known of groups, one after the other. */
export class GroupRecords extends RecordReader {
  group: u32 = 0;
  isThere: bool = false;
  source: u32 = 0;
  minimum: u32 = 0;
  timeoutSeconds: u32 = 0;
  priority: i32 = 0;
  created: u64 = 0;
  private namespaceLength: u32 = 0;
  private nameLength: u32 = 0;

  /** Goes to the next one, which is to be there. */
  next(): void {
    this.begin(GROUP_HEAD);
    this.group = load<u32>(this.record);
    this.isThere = load<u32>(this.record, 4) != 0;
    this.source = load<u32>(this.record, 8);
    this.minimum = load<u32>(this.record, 12);
    this.timeoutSeconds = load<u32>(this.record, 16);
    this.priority = load<i32>(this.record, 20);
    this.created = load<u64>(this.record, 24);
    this.namespaceLength = load<u32>(this.record, 32);
    this.nameLength = load<u32>(this.record, 36);
    this.extend(<u64>GROUP_HEAD + this.namespaceLength + this.nameLength);
  }

  get namespace(): string {
    return String.UTF8.decode(this.copy(GROUP_HEAD, this.namespaceLength));
  }

  get name(): string {
    return String.UTF8.decode(this.copy(GROUP_HEAD + this.namespaceLength, this.nameLength));
  }
}

/** Reads which group pods are of and where they are, one after the other. */
export class MemberRecords extends RecordReader {
  pod: u32 = 0;
  node: u32 = 0;
  group: u32 = 0;
  /** Whether the pod is of a group at all. */
  isThere: bool = false;
  state: MemberState = MemberState.Pending;

  /** Goes to the next one, which is to be there. */
  next(): void {
    this.begin(MEMBER_LENGTH);
    this.pod = load<u32>(this.record);
    this.node = load<u32>(this.record, 4);
    const state = load<u32>(this.record, 8);
    this.group = load<u32>(this.record, 12);
    this.isThere = state != 0;
    if (state == TENTATIVE) this.state = MemberState.Tentative;
    else if (state == BINDING) this.state = MemberState.Binding;
    else this.state = this.node == NOWHERE ? MemberState.Pending : MemberState.Bound;
  }
}
