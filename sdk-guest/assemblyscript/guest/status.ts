import { send } from "./answer";
import * as host from "./host";

/** Codes of `k8s.io/kube-scheduler/framework`. */
export enum Code {
  Success = 0,
  Error = 1,
  Unschedulable = 2,
  UnschedulableAndUnresolvable = 3,
  Wait = 4,
  Skip = 5,
  Pending = 6,
}

/** What a plugin answers: a code of the scheduling framework and a reason for people. */
export class Status {
  constructor(
    readonly code: Code,
    readonly reason: string = "",
  ) {}

  static readonly SUCCESS: Status = new Status(Code.Success);

  /**
   * From prefilter: this pod needs no filter call. From prescore: it needs no score call, and every node counts 0. From
   * bind: others bind the pod.
   */
  static readonly SKIP: Status = new Status(Code.Skip);

  /** No, but the node may do once other pods are gone from it. */
  static unschedulable(reason: string): Status {
    return new Status(Code.Unschedulable, reason);
  }

  /** No, and preempting other pods would not help. */
  static unresolvable(reason: string): Status {
    return new Status(Code.UnschedulableAndUnresolvable, reason);
  }

  /** There is no answer: the call fails, and the guest goes on. */
  static error(reason: string): Status {
    return new Status(Code.Error, reason);
  }

  /** Hands the reason to the host and returns the code. */
  send(): i32 {
    if (this.reason.length > 0) send(this.reason, host.resultStatusReason);
    return this.code;
  }
}

/** The answer of PreFilter. A status alone leaves all nodes to Filter. */
export class PreFilter {
  constructor(
    readonly status: Status,
    /** The only nodes to look at; null for all. */
    readonly nodes: string[] | null = null,
  ) {}

  /** Leaves these nodes to Filter. With no name the pod is rejected. */
  static only(nodes: string[]): PreFilter {
    return new PreFilter(Status.SUCCESS, nodes);
  }

  /** Hands names and reason to the host and returns the code. */
  send(): i32 {
    const nodes = this.nodes;
    if (nodes === null) return this.status.send();
    if (nodes.length == 0 && this.status.code == Code.Success) {
      return Status.unresolvable("PreFilter leaves no node").send(); // To the host no name means every node.
    }
    send(terminated(nodes), host.resultNodeNames);
    return this.status.send();
  }
}

/** The answer of PostFilter. A status alone nominates no node. */
export class PostFilter {
  constructor(
    readonly status: Status,
    readonly nominated: string | null = null,
  ) {}

  /** The pod is to come to this node once there is room. */
  static nominate(node: string): PostFilter {
    return new PostFilter(Status.SUCCESS, node);
  }

  /** Hands name and reason to the host and returns the nominating mode, Override or none, and the code. */
  send(): i64 {
    const nominated = this.nominated;
    if (nominated !== null) send(nominated, host.resultNominatedNodeName);
    return (nominated !== null ? <i64>1 << 32 : 0) | <i64>this.status.send();
  }
}

/** The answer of Permit. A status alone is final. */
export class Permit {
  constructor(
    readonly status: Status,
    /** How long the pod waits at most, if the code is Wait. */
    readonly timeoutMilliseconds: u32 = 0,
  ) {}

  /** The pod waits. A rejection ends that, or the time. */
  static wait(timeoutMilliseconds: u32, reason: string): Permit {
    return new Permit(new Status(Code.Wait, reason), timeoutMilliseconds);
  }

  /** Hands the reason to the host and returns code and milliseconds. */
  send(): i64 {
    return (<i64>this.status.send() << 32) | <i64>this.timeoutMilliseconds;
  }
}

/** Each text ended by a NUL. */
export function terminated(texts: string[]): string {
  return texts.length == 0 ? "" : texts.join("\0") + "\0";
}
