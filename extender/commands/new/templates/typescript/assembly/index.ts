/** Prefers the nodes of the tier that a pod's label names, or the configuration. */

import { Plugin, Pod, Status, config, node, register } from "kwx-guest";

export * from "kwx-guest/filter";
export * from "kwx-guest/nodes";
export * from "kwx-guest/prefilter";
export * from "kwx-guest/score";

/** What is kept of a node. */
class Kept {
  constructor(
    readonly tier: string,
    readonly isRetired: bool,
  ) {}
}

/** Keeps of a pod the tier that it wishes for. */
class Tier extends Plugin<string, Kept> {
  private readonly tier: string = config.getString("tier", "spot");

  /** Asked once a pod. */
  wish(pod: Pod): string {
    const labels = pod.metadata.labels;
    return labels.has("example.com/tier") ? labels.get("example.com/tier") : this.tier;
  }

  /** Asked once a node, when it changes. */
  resident(name: string): Kept {
    const labels = node(name).metadata.labels;
    return new Kept(labels.get("example.com/tier"), labels.has("example.com/retired"));
  }

  filter(tier: string, node: Kept): Status {
    return node.isRetired ? Status.unresolvable("node is retired") : Status.SUCCESS;
  }

  score(tier: string, node: Kept): i32 {
    return node.tier == tier ? 100 : 0;
  }
}

register(new Tier());
