import { Pod } from "./objects";
import { NOWHERE } from "./pod_records";

const LABELS: StaticArray<string> = ["scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io/name"];

/** What names a group, and tells it from others. A plugin keeps it in its wish. */
export class GroupKey {
  constructor(
    /** Whether its pods name it by `spec.schedulingGroup`, the cluster's own. */
    readonly isNative: bool,
    readonly namespace: string,
    readonly name: string,
  ) {}

  /** Of the group that a pod names; null for a pod of no group. ABI.md has the rule. */
  static of(pod: Pod): GroupKey | null {
    const metadata = pod.metadata;
    const native = pod.spec.schedulingGroup.podGroupName;
    if (native.length > 0) return new GroupKey(true, metadata.namespace, native);
    for (let i = 0; i < LABELS.length; i++) {
      const name = metadata.labels.get(LABELS[i]);
      if (name.length > 0) return new GroupKey(false, metadata.namespace, name);
    }
    return null;
  }

  /** Differs from that of any other group. */
  toString(): string {
    return (this.isNative ? "native " : "") + this.namespace + "/" + this.name;
  }
}

/** Where a pod of a group is. */
export enum MemberState {
  /** It has no node. */
  Pending,
  /** It is expected on its node, and may not come. */
  Tentative,
  /** It is being bound, or waits on Permit. */
  Binding,
  /** It is on its node. */
  Bound,
}

/** A pod of a group. */
export class Member {
  constructor(
    /** The number of the pod, as `pendingPodChanged` has it. */
    readonly pod: u32,
    /** The number of its node, for `nodes.has` and `nodes.get`. */
    readonly node: u32,
    readonly state: MemberState,
  ) {}

  get hasNode(): bool {
    return this.node != NOWHERE;
  }
}

/** A group of pods. */
export class Group {
  /** How many of its pods have to have a node before any may run; 0 where nobody says so. */
  minimum: i32 = 0;
  /** For how many seconds its pods may wait for each other; 0 where nobody says so. */
  timeoutSeconds: u32 = 0;
  priority: i32 = 0;
  /** When it was created, or the oldest of its pods, in seconds of Unix time; 0 where nobody says so. */
  created: u64 = 0;
  /** Its pods, in any order. */
  members: Member[] = [];
  /** How many of its pods are on nodes, or expected there. */
  placed: i32 = 0;

  constructor(readonly key: GroupKey) {}

  get namespace(): string {
    return this.key.namespace;
  }

  get name(): string {
    return this.key.name;
  }

  /** Whether its pods name it by `spec.schedulingGroup`, the cluster's own. */
  get isNative(): bool {
    return this.key.isNative;
  }

  /** How many of its pods are in a state. */
  count(state: MemberState): i32 {
    let count = 0;
    for (let i = 0; i < this.members.length; i++) count += i32(this.members[i].state == state);
    return count;
  }

  add(member: Member): void {
    this.members.push(member);
    this.placed += i32(member.state != MemberState.Pending);
  }

  /** Takes away the pod of a number, if it is there. */
  remove(pod: u32): void {
    for (let i = 0; i < this.members.length; i++) {
      const member = this.members[i];
      if (member.pod != pod) continue;
      const last = this.members.pop();
      if (i < this.members.length) this.members[i] = last;
      this.placed -= i32(member.state != MemberState.Pending);
      return;
    }
  }
}
