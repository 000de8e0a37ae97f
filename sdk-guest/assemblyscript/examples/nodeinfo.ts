/** Tells what is known of nodes with the pods on them: rejects each node, with that as the reason, in JSON. */

import { NodeInfo, PluginWithPods, Pod, Resources, Status, node, register } from "kwx-guest";

export * from "kwx-guest/filter";
export * from "kwx-guest/nodes";
export * from "kwx-guest/pods";
export * from "kwx-guest/prefilter";

/** Keeps of a pod its namespace and name, and nothing of a node. */
class Teller extends PluginWithPods<bool, string, bool> {
  wish(pod: Pod): bool {
    return true;
  }

  resident(name: string): NodeInfo<string, bool> {
    return new NodeInfo<string, bool>(node(name), true);
  }

  residentPod(pod: Pod): string {
    return pod.metadata.namespace + "/" + pod.metadata.name;
  }

  filter(wish: bool, node: NodeInfo<string, bool>): Status {
    return Status.unschedulable(json(node));
  }
}

function json(node: NodeInfo<string, bool>): string {
  const pods: string[] = [];
  const tentative: string[] = [];
  for (let i = 0; i < node.pods.length; i++) {
    (node.pods[i].isTentative ? tentative : pods).push('"' + node.pods[i].pod + '"');
  }
  const requested = node.requested;
  return `{"allocatable":${ofResources(node.allocatable)},"requested":${ofResources(requested.resources)},"free":${ofResources(node.free)},"nonZeroRequested":{"milliCPU":${requested.nonZeroMilliCPU},"memory":${requested.nonZeroMemory}},"pods":[${pods.join(",")}],"tentative":[${tentative.join(",")}]}`;
}

function ofResources(resources: Resources): string {
  const scalars: string[] = [];
  for (let i = 0, names = resources.scalars; i < names.length; i++) {
    scalars.push(`"${names[i]}":${resources.scalar(names[i])}`);
  }
  return `{"milliCPU":${resources.milliCPU},"memory":${resources.memory},"ephemeralStorage":${resources.ephemeralStorage},"pods":${resources.pods},"scalars":{${scalars.join(",")}}}`;
}

register(new Teller());
