/**
 * Shows pods to their node, by annotations `example.com/…` of the pod. It has a part in each step of binding.
 *
 * Enqueue: a new node or other labels of one. Reserve: no pod on a node with the label `example.com/closed`. Permit:
 * `replaces` is the UID of a waiting pod that gives way, `wait` the seconds to wait. PreBind: no pod whose `ticket` is
 * `void`. Bind: left to others, with an annotation of the steps so far. PostBind and Unreserve: an Event about the pod.
 */

import {
  ClusterEvent, Event, EventResource, Permit, Plugin, Pod, Reference, Residents, Status, currentNodeName, fail, node,
  register, rejectWaitingPod,
} from "kwx-guest";

export * from "kwx-guest/bind";
export * from "kwx-guest/bindingannotations";
export * from "kwx-guest/enqueue";
export * from "kwx-guest/nodes";
export * from "kwx-guest/permit";
export * from "kwx-guest/postbind";
export * from "kwx-guest/prebind";
export * from "kwx-guest/prefilter";
export * from "kwx-guest/reserve";
export * from "kwx-guest/unreserve";

class Wish {
  /** What was done for the pod so far. */
  readonly steps: string[] = [];

  constructor(
    readonly pod: Reference,
    /** Seconds; -1 not to wait. */
    readonly wait: i32,
    readonly replaces: string,
    readonly hasVoidTicket: bool,
  ) {}

  tell(reason: string, isWarning: bool): void {
    const event = new Event(this.pod, reason, "Binding", "after " + this.steps.join(", "));
    event.related = Reference.node(currentNodeName());
    event.isWarning = isWarning;
    event.record();
  }
}

/** Keeps of a node whether it is closed. */
class Usher extends Plugin<Wish, bool> {
  wish(pod: Pod): Wish {
    const annotations = pod.metadata.annotations;
    const replaces = annotations.get("example.com/replaces");
    const isVoid = annotations.get("example.com/ticket") == "void";
    return new Wish(Reference.pod(pod), seconds(annotations.get("example.com/wait")), replaces, isVoid);
  }

  resident(name: string): bool {
    return node(name).metadata.labels.has("example.com/closed");
  }

  enqueue(): ClusterEvent[] {
    return [new ClusterEvent(EventResource.Node, ClusterEvent.ADD | ClusterEvent.UPDATE_NODE_LABEL)];
  }

  reserve(wish: Wish, isClosed: bool): Status {
    if (isClosed) return Status.unschedulable("the node is closed");
    wish.steps.push("reserve");
    return Status.SUCCESS;
  }

  bindingannotations(wish: Wish, isClosed: bool): Map<string, string> {
    const annotations = new Map<string, string>();
    annotations.set("example.com/steps", wish.steps.join(", "));
    return annotations;
  }

  unreserve(wish: Wish, isClosed: bool, nodes: Residents<bool>): void {
    wish.tell("TurnedAway", true);
  }

  permit(wish: Wish, isClosed: bool, nodes: Residents<bool>): Permit {
    wish.steps.push("permit");
    if (wish.replaces.length > 0 && !rejectWaitingPod(wish.replaces)) {
      return new Permit(Status.unschedulable("nobody waits whom the pod could replace"));
    }
    if (wish.wait < 0) return new Permit(Status.SUCCESS);
    return Permit.wait(1000 * wish.wait, "the doors are not open yet");
  }

  prebind(wish: Wish, isClosed: bool): Status {
    if (wish.hasVoidTicket) return Status.unresolvable("the ticket is void");
    wish.steps.push("prebind");
    return Status.SUCCESS;
  }

  bind(wish: Wish, isClosed: bool): Status {
    wish.steps.push("bind");
    return Status.SKIP;
  }

  postbind(wish: Wish, isClosed: bool): void {
    wish.tell("Seated", false);
  }
}

/** The annotation as a number; -1 where there is none. */
function seconds(text: string): i32 {
  if (text.length == 0) return -1;
  const value = I32.parseInt(text);
  if (value < 0 || value.toString() != text) fail("annotation example.com/wait is no number of seconds");
  return value;
}

register(new Usher());
