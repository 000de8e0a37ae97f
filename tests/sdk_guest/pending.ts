/** Tells which pods have no node, for tests: it rejects every pod, and the reason is their names and jobs. */

import { NodeInfo, PluginWithPods, Pod, PreFilter, Residents, Status, node, register } from "kwx-guest";

export * from "kwx-guest/pendingpods";
export * from "kwx-guest/nodes";
export * from "kwx-guest/pods";
export * from "kwx-guest/prefilter";

class Teller extends PluginWithPods<bool, bool, bool> {
  /** Name and job of each, by its number. */
  private readonly pending: Map<u32, string> = new Map<u32, string>();

  wish(pod: Pod): bool {
    return true;
  }

  resident(name: string): NodeInfo<bool, bool> {
    return new NodeInfo<bool, bool>(node(name), true);
  }

  residentPod(pod: Pod): bool {
    return true;
  }

  pendingPodChanged(number: u32, pod: Pod): void {
    this.pending.set(number, pod.metadata.name + "=" + pod.metadata.labels.get("job"));
  }

  pendingPodRemoved(number: u32): void {
    this.pending.delete(number);
  }

  prefilter(wish: bool, nodes: Residents<NodeInfo<bool, bool>>): PreFilter {
    let onNodes = 0;
    for (let i = 0; i < nodes.length; i++) if (nodes.has(i)) onNodes += nodes.get(i).pods.length;
    const told = this.pending.values().sort();
    return new PreFilter(Status.unschedulable("[" + told.join(" ") + "] and " + onNodes.toString() + " on nodes"));
  }
}

register(new Teller());
