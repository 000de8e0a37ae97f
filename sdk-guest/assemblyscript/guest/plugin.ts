import { Candidates } from "./candidates";
import { ClusterEvent, sendClusterEvents } from "./cluster_event";
import { NodeScore, currentNodeName, currentPod, nodeScores, sendScores, targetPod } from "./cluster";
import { hasFailed, takeFailure } from "./failure";
import { Guest } from "./guest";
import * as klog from "./klog";
import { Pod } from "./objects";
import { PodRecords, State } from "./pod_records";
import { Reasons } from "./reasons";
import { Residents } from "./residents";
import { Code, Permit, PostFilter, PreFilter, Status, terminated } from "./status";

/** What stands for a value until there is one. */
function nothing<T>(): T {
  if (isReference<T>()) return changetype<T>(0);
  return <T>0;
}

/**
 * A plugin that decides by what it finds out of a pod once in its cycle, and of a node once when it changes.
 *
 * The wish is the state of a pod's cycle: what a function changes there, later ones find. The next cycle, which may be that
 * of another pod or a second one of the same, begins with a new wish.
 *
 * @typeParam Wish what is to be known of the pod
 * @typeParam Resident what is to be known of a node; it is kept in memory for each node that the host announces
 */
export abstract class Plugin<Wish, Resident> extends Guest {
  private currentWish: Wish = nothing<Wish>();
  private hasWish: bool = false;
  /** Whether the wish has seen a list of candidates. */
  private hasSurveyed: bool = false;
  protected readonly residents: Residents<Resident> = new Residents<Resident>();
  /** Where the host writes the numbers of nodes and finds the answers. */
  private numbers: StaticArray<u32> = new StaticArray<u32>(0);
  /** Where the host reads annotations. */
  private annotations: ArrayBuffer = new ArrayBuffer(0);

  abstract wish(pod: Pod): Wish;

  /**
   * What is to be known of the node of that name: ask `node(name)` for more than the name. There may be no current pod.
   */
  abstract resident(name: string): Resident;

  /** After which changes in the cluster a rejected pod is worth another attempt. There is no current pod. */
  enqueue(): ClusterEvent[] {
    return [];
  }

  /**
   * Which of the nodes to filter, if there is anything to filter for: `Status.SKIP` lets all nodes pass unseen. `nodes` are
   * those that the host has announced, none where it announces no nodes.
   */
  prefilter(wish: Wish, nodes: Residents<Resident>): PreFilter {
    return new PreFilter(Status.SUCCESS);
  }

  /** Counts on the node, in this cycle alone, a pod that is not there. */
  addpod(wish: Wish, pod: Pod, node: Resident): Status {
    return Status.SUCCESS;
  }

  /** Leaves out on the node, in this cycle alone, a pod that is there. */
  removepod(wish: Wish, pod: Pod, node: Resident): Status {
    return Status.SUCCESS;
  }

  /**
   * Looks at all candidates together, before `filter` judges each of them, or `score` where nothing was filtered in the cycle.
   * What is no success is said of each candidate. A host that asks about one node after the other has no candidates to show.
   */
  survey(wish: Wish, candidates: Candidates<Resident>): Status {
    return Status.SUCCESS;
  }

  filter(wish: Wish, node: Resident): Status {
    return Status.SUCCESS;
  }

  /** Which node the pod is to come to though none passed Filter: `nodeStatuses()` has the candidates. */
  postfilter(wish: Wish, nodes: Residents<Resident>): PostFilter {
    return new PostFilter(Status.unschedulable(""));
  }

  /**
   * Whether there is anything to score for: `Status.SKIP` counts 0 for each node. Which nodes are left, `filteredNodes()`
   * tells.
   */
  prescore(wish: Wish, nodes: Residents<Resident>): Status {
    return Status.SUCCESS;
  }

  /** From 0 to 100, unless `normalizescore` brings it there. */
  score(wish: Wish, node: Resident): i32 {
    return 0;
  }

  /** Brings the scores of all nodes to 0 to 100, in place. */
  normalizescore(wish: Wish, scores: NodeScore[]): Status {
    return Status.SUCCESS;
  }

  /** Keeps what the pod needs of the node that was chosen. */
  reserve(wish: Wish, node: Resident): Status {
    return Status.SUCCESS;
  }

  /**
   * The annotations that the pod gets with its bind, asked for after `reserve`: what was chosen on the node, for the node's
   * agent and for all others that look at the pod.
   */
  bindingannotations(wish: Wish, node: Resident): Map<string, string> {
    return new Map<string, string>();
  }

  /** Gives back what was kept: the pod will not come to the node. */
  unreserve(wish: Wish, node: Resident, nodes: Residents<Resident>): void {}

  /** Whether the pod may be bound at once, or waits. */
  permit(wish: Wish, node: Resident, nodes: Residents<Resident>): Permit {
    return new Permit(Status.SUCCESS);
  }

  prebind(wish: Wish, node: Resident): Status {
    return Status.SUCCESS;
  }

  /** Binds the pod: `Status.SKIP` leaves that to others. */
  bind(wish: Wish, node: Resident): Status {
    return Status.SKIP;
  }

  postbind(wish: Wish, node: Resident): void {}

  /** A pod without a node is new or has changed: keep of it what is needed, by its number. There may be no current pod. */
  pendingPodChanged(number: u32, pod: Pod): void {}

  /** The pod of that number is gone, or has a node. */
  pendingPodRemoved(number: u32): void {}

  // What a host calls. A call that has failed before the plugin is asked does not ask it.

  callEnqueue(): void {
    sendClusterEvents(this.enqueue());
    logged();
  }

  callPrefilter(): i32 {
    this.begin();
    const wish = this.wished();
    if (hasFailed()) return failed();
    const answer = this.prefilter(wish, this.residents);
    return hasFailed() ? failed() : answer.send();
  }

  callAddpod(): i32 {
    const wish = this.wished();
    const node = this.current();
    return hasFailed() ? failed() : ended(this.addpod(wish, targetPod(), node));
  }

  callRemovepod(): i32 {
    const wish = this.wished();
    const node = this.current();
    return hasFailed() ? failed() : ended(this.removepod(wish, targetPod(), node));
  }

  callFilter(): i32 {
    const wish = this.wished();
    const node = this.current();
    return hasFailed() ? failed() : ended(this.filter(wish, node));
  }

  callFilterNodes(count: i32): i32 {
    const wish = this.wished();
    const reasons = new Reasons();
    const all = this.surveyed(wish, count);
    if (hasFailed()) return failed();
    if (all.code != Code.Success) {
      this.numbers.fill(encoded(all, reasons), 0, count);
      return 0;
    }
    for (let i = 0; i < count && !hasFailed(); i++) {
      const status = this.filter(wish, this.numbered(this.numbers[i]));
      this.numbers[i] = encoded(status, reasons);
    }
    return hasFailed() ? failed() : 0;
  }

  callPostfilter(): i64 {
    const wish = this.wished();
    if (hasFailed()) return failed();
    const answer = this.postfilter(wish, this.residents);
    return hasFailed() ? failed() : answer.send();
  }

  callPrescore(begins: bool): i32 {
    if (begins) this.begin();
    const wish = this.wished();
    return hasFailed() ? failed() : ended(this.prescore(wish, this.residents));
  }

  callScore(): i64 {
    const wish = this.wished();
    const node = this.current();
    if (hasFailed()) return failed();
    const score = this.score(wish, node);
    return hasFailed() ? failed() : <i64>score << 32;
  }

  callScoreNodes(count: i32): i32 {
    const wish = this.wished();
    if (!this.hasSurveyed) this.surveyed(wish, count);
    for (let i = 0; i < count && !hasFailed(); i++) {
      this.numbers[i] = this.score(wish, this.numbered(this.numbers[i]));
    }
    return hasFailed() ? failed() : 0;
  }

  callNormalizescore(): i32 {
    const wish = this.wished();
    if (hasFailed()) return failed();
    const scores = nodeScores();
    const status = this.normalizescore(wish, scores);
    sendScores(scores);
    return ended(status);
  }

  callReserve(): i32 {
    const wish = this.wished();
    const node = this.current();
    return hasFailed() ? failed() : ended(this.reserve(wish, node));
  }

  /** Where the annotations are, and how long they are: they stay there until the next call. */
  callBindingannotations(): i64 {
    const annotations = this.bindingannotations(this.wished(), this.current());
    const failure = takeFailure();
    if (failure !== null) throw new Error(failure); // No answer says so: the pod must not be bound without them.
    const texts: string[] = [];
    for (let i = 0, keys = annotations.keys(); i < keys.length; i++) {
      texts.push(keys[i]);
      texts.push(annotations.get(keys[i]));
    }
    this.annotations = String.UTF8.encode(terminated(texts));
    return ((<i64>changetype<usize>(this.annotations)) << 32) | this.annotations.byteLength;
  }

  callUnreserve(): void {
    const wish = this.wished();
    const node = this.current();
    if (!hasFailed()) this.unreserve(wish, node, this.residents);
    logged();
  }

  callPermit(): i64 {
    const wish = this.wished();
    const node = this.current();
    if (hasFailed()) return (<i64>failed()) << 32;
    const answer = this.permit(wish, node, this.residents);
    return hasFailed() ? (<i64>failed()) << 32 : answer.send();
  }

  callPrebind(): i32 {
    const wish = this.wished();
    const node = this.current();
    return hasFailed() ? failed() : ended(this.prebind(wish, node));
  }

  callBind(): i32 {
    const wish = this.wished();
    const node = this.current();
    return hasFailed() ? failed() : ended(this.bind(wish, node));
  }

  callPostbind(): void {
    const wish = this.wished();
    const node = this.current();
    if (!hasFailed()) this.postbind(wish, node);
    logged();
  }

  /** A node that cannot be read now is read again when it is judged: then the failure can be told. */
  nodeChanged(number: u32): void {
    const name = currentNodeName();
    const node = this.resident(name);
    this.residents.set(number, name, node, takeFailure() === null);
  }

  nodeRemoved(number: u32): void {
    this.residents.remove(number);
  }

  nodeBuffer(count: i32): usize {
    if (this.numbers.length < count) this.numbers = new StaticArray<u32>(count);
    return changetype<usize>(this.numbers);
  }

  podsChanged(count: i32): void {
    throw new Error("a module that exports kwx-guest/pods has a PluginWithPods");
  }

  pendingPodsChanged(count: i32): void {
    const records = new PodRecords();
    for (let i = 0; i < count; i++) {
      records.next();
      if (records.state == State.Gone) this.pendingPodRemoved(records.pod);
      else if (!records.isAsBefore) this.putPendingPod(records);
    }
  }

  private putPendingPod(record: PodRecords): void {
    this.pendingPodChanged(record.pod, record.object);
    const failure = takeFailure();
    if (failure === null) return;
    klog.error("a pod without a node cannot be read, and does not count: " + failure);
    this.pendingPodRemoved(record.pod);
  }

  private begin(): void {
    this.hasWish = false;
    this.hasSurveyed = false;
  }

  private surveyed(wish: Wish, count: i32): Status {
    this.hasSurveyed = true;
    if (hasFailed()) return Status.SUCCESS;
    return this.survey(wish, new Candidates<Resident>(this.numbers, count, this.residents));
  }

  private wished(): Wish {
    if (!this.hasWish) {
      this.currentWish = this.wish(currentPod());
      this.hasWish = !hasFailed();
    }
    return this.currentWish;
  }

  /** The current node. One that was not announced is read for this call alone: the host may not tell when it changes. */
  private current(): Resident {
    const name = currentNodeName();
    return this.residents.hasName(name) ? this.residents.named(name) : this.resident(name);
  }

  /** The node of a number in a list. */
  private numbered(number: u32): Resident {
    if (this.residents.has(number)) return this.residents.get(number);
    return this.resident(this.residents.name(number));
  }
}

/** The code of a node in a list, and the number of its reason. */
function encoded(status: Status, reasons: Reasons): u32 {
  return <u32>status.code | (reasons.number(status) << 8);
}

/** The code of the status that the plugin answered, or Error if the call has failed. */
function ended(status: Status): i32 {
  return hasFailed() ? failed() : status.send();
}

/** Hands the reason to the host, and returns Error. */
function failed(): i32 {
  const failure = takeFailure();
  return Status.error(failure === null ? "" : failure).send();
}

/** Logs why a call has failed that has no answer. */
function logged(): void {
  const failure = takeFailure();
  if (failure !== null) klog.error(failure);
}
