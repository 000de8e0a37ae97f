import { takeFailure } from "./failure";
import * as klog from "./klog";
import { NodeInfo, PodInfo, PodsOnNode } from "./node_info";
import { Pod } from "./objects";
import { Plugin } from "./plugin";
import { NOWHERE, PodRecords, State } from "./pod_records";
import { Requests } from "./requests";

/**
 * A plugin that knows which pods are on nodes. Its module exports `kwx-guest/pods` too.
 *
 * @typeParam Wish what is to be known of the pod
 * @typeParam PodKept what is kept of each pod on a node
 * @typeParam NodeKept what is kept of a node, beside what `NodeInfo` has
 */
export abstract class PluginWithPods<Wish, PodKept, NodeKept> extends Plugin<Wish, NodeInfo<PodKept, NodeKept>> {
  /** By the numbers of nodes; null where there never was a pod, nor a node. */
  private readonly placed: (PodsOnNode<PodKept> | null)[] = [];
  /** By the numbers of pods, the numbers of their nodes. */
  private readonly places: u32[] = [];
  /** Whether the host has told of pods, or the log says that it has not. */
  private isSettled: bool = false;

  /** What is to be kept of a pod on a node: called when the pod is new or has changed. There may be no current pod. */
  abstract residentPod(pod: Pod): PodKept;

  callPrefilter(): i32 {
    if (!this.isSettled) klog.warning("the host has told of no pods on nodes: all nodes count as empty");
    this.isSettled = true;
    return super.callPrefilter();
  }

  nodeChanged(number: u32): void {
    super.nodeChanged(number);
    if (this.residents.has(number)) this.residents.get(number).attach(this.on(number));
  }

  podsChanged(count: i32): void {
    this.isSettled = true;
    const records = new PodRecords();
    for (let i = 0; i < count; i++) {
      records.next();
      this.podChanged(records);
    }
  }

  private podChanged(record: PodRecords): void {
    const former = this.take(record.pod);
    if (record.state == State.Gone) return;
    let pod = former;
    if (!record.isAsBefore) pod = this.read(record);
    if (pod === null) return;
    pod.isTentative = record.state == State.Tentative;
    this.on(record.node).add(pod);
    while (<u32>this.places.length <= record.pod) this.places.push(NOWHERE);
    this.places[record.pod] = record.node;
  }

  /** The pod that a record is about; null where it cannot be read. */
  private read(record: PodRecords): PodInfo<PodKept> | null {
    const object = record.object;
    const pod = new PodInfo<PodKept>(record.pod, this.residentPod(object), Requests.of(object), false);
    const failure = takeFailure();
    if (failure === null) return pod;
    klog.error("a pod on a node cannot be read, and does not count: " + failure);
    return null;
  }

  /** Takes a pod from its node. */
  private take(pod: u32): PodInfo<PodKept> | null {
    if (pod >= <u32>this.places.length || this.places[pod] == NOWHERE) return null;
    const node = this.places[pod];
    this.places[pod] = NOWHERE;
    return this.on(node).remove(pod);
  }

  /** The pods on the node of that number. They stay where they are when the node goes, until each is gone too. */
  private on(number: u32): PodsOnNode<PodKept> {
    while (<u32>this.placed.length <= number) this.placed.push(null);
    let pods = this.placed[number];
    if (pods === null) {
      pods = new PodsOnNode<PodKept>();
      this.placed[number] = pods;
    }
    return pods;
  }
}
