import { Amounts } from "./amounts";
import { Member } from "./group";
import { Node } from "./objects";
import { Requests } from "./requests";
import { Resources } from "./resources";

/** How many generations there were of all nodes. */
let generations: u64 = 0;

/** A pod on a node. */
export class PodInfo<PodKept> {
  constructor(
    readonly number: u32,
    /** What the plugin keeps of it. */
    readonly pod: PodKept,
    readonly requests: Requests,
    /** Whether the pod is only expected on the node. It counts as the others do. */
    public isTentative: bool,
  ) {}
}

/** The pods of one node, which may be there before the node is known, and after it is gone. */
export class PodsOnNode<PodKept> {
  readonly pods: PodInfo<PodKept>[] = [];
  readonly requested: Requests = new Requests();
  generation: u64 = ++generations;

  add(pod: PodInfo<PodKept>): void {
    this.requested.add(1, pod.requests);
    this.pods.push(pod);
    this.change();
  }

  /** Takes away the pod with this number, if it is there. */
  remove(number: u32): PodInfo<PodKept> | null {
    for (let i = 0; i < this.pods.length; i++) {
      const pod = this.pods[i];
      if (pod.number != number) continue;
      this.requested.add(-1, pod.requests);
      const last = this.pods.pop();
      if (i < this.pods.length) this.pods[i] = last;
      this.change();
      return pod;
    }
    return null;
  }

  change(): void {
    this.generation = ++generations;
  }
}

/**
 * A node with the pods that are on it, counted as `NodeInfo` of kube-scheduler counts them. There are no pods where the
 * host tells of none, and on a node that the host has not announced.
 *
 * @typeParam PodKept what the plugin keeps of each pod; `bool` if that is nothing
 * @typeParam NodeKept what it keeps of the node itself; `bool` if that is nothing
 */
export class NodeInfo<PodKept, NodeKept> {
  readonly allocatable: Resources;
  private onNode: PodsOnNode<PodKept> = new PodsOnNode<PodKept>();

  constructor(
    object: Node,
    /** What the plugin keeps of the node itself. */
    readonly node: NodeKept,
  ) {
    this.allocatable = Resources.of(Amounts.read(object.status.allocatable));
  }

  /** The pods on the node, in any order. */
  get pods(): PodInfo<PodKept>[] {
    return this.onNode.pods;
  }

  /** The pod on the node that is a member of a group; null if the host has not told of it. */
  podOf(member: Member): PodInfo<PodKept> | null {
    for (let i = 0; i < this.pods.length; i++) if (this.pods[i].number == member.pod) return this.pods[i];
    return null;
  }

  /** What the pods on the node ask for. */
  get requested(): Requests {
    return this.onNode.requested;
  }

  /** What is allocatable and not requested; below 0 where more is requested. */
  get free(): Resources {
    const free = this.allocatable.copy();
    free.add(-1, this.requested.resources);
    return free;
  }

  /**
   * How many pods that ask for these resources fit beside the pods on the node, by the rules of kube-scheduler
   * (`fitsRequest` of pkg/scheduler/framework/plugins/noderesources/fit.go).
   *
   * A scalar of which the node has none allocatable does not count. kube-scheduler lets the pod pass there if it comes
   * from elsewhere, as by DRA, and rejects the node before it asks an extender if not.
   */
  roomFor(asked: Resources): i64 {
    const all = this.allocatable;
    const taken = this.requested.resources;
    let room = all.pods - taken.pods;
    room = atMost(room, asked.milliCPU, all.milliCPU - taken.milliCPU);
    room = atMost(room, asked.memory, all.memory - taken.memory);
    room = atMost(room, asked.ephemeralStorage, all.ephemeralStorage - taken.ephemeralStorage);
    for (let i = 0, names = asked.scalars; i < names.length; i++) {
      const name = names[i];
      if (all.scalar(name) != 0) room = atMost(room, asked.scalar(name), all.scalar(name) - taken.scalar(name));
    }
    return max<i64>(room, 0);
  }

  /**
   * A number that grows with each change of the node and of the pods on it. No other node has it, or ever had it. So what
   * a plugin has made of a node is up to date if it was made of this generation.
   */
  get generation(): u64 {
    return this.onNode.generation;
  }

  /** Has these pods from now on. */
  attach(pods: PodsOnNode<PodKept>): void {
    this.onNode = pods;
    pods.change();
  }
}

/** How many fit of one more resource. */
function atMost(room: i64, asked: i64, free: i64): i64 {
  return asked > 0 ? min<i64>(room, free / asked) : room;
}
