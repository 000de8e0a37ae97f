/**
 * Holds the pods of a group back until as many are there as the group needs, and puts them where others of it are.
 *
 * PreFilter: a pod whose group is not known, or has too few pods, is rejected. Score: how many of the group's pods are on
 * the node, or expected there.
 */

import { Group, GroupKey, Plugin, Pod, PreFilter, Residents, Status, groups, register } from "kwx-guest";

export * from "kwx-guest/filter";
export * from "kwx-guest/groups";
export * from "kwx-guest/nodes";
export * from "kwx-guest/prefilter";
export * from "kwx-guest/score";

class Wish {
  /** By the nodes' names, how many pods of the group are there. */
  readonly neighbours: Map<string, i32> = new Map<string, i32>();

  constructor(readonly group: GroupKey | null) {}
}

/** Keeps of a node its name. */
class Quorum extends Plugin<Wish, string> {
  wish(pod: Pod): Wish {
    return new Wish(GroupKey.of(pod));
  }

  resident(name: string): string {
    return name;
  }

  prefilter(wish: Wish, nodes: Residents<string>): PreFilter {
    const key = wish.group;
    if (key === null) return new PreFilter(Status.SUCCESS);
    const group = groups.get(key);
    if (group === null) return new PreFilter(Status.unschedulable("the group of the pod is not known yet"));
    for (let i = 0; i < group.members.length; i++) {
      const node = group.members[i].node;
      if (nodes.has(node)) count(wish.neighbours, nodes.get(node));
    }
    return new PreFilter(admit(group));
  }

  score(wish: Wish, node: string): i32 {
    return wish.neighbours.has(node) ? min(wish.neighbours.get(node), 100) : 0;
  }
}

function count(neighbours: Map<string, i32>, node: string): void {
  neighbours.set(node, (neighbours.has(node) ? neighbours.get(node) : 0) + 1);
}

function admit(group: Group): Status {
  const name = group.namespace + "/" + group.name;
  if (group.minimum == 0) return Status.unschedulable("nobody says how many pods the group " + name + " needs");
  const there = group.members.length;
  if (there >= group.minimum) return Status.SUCCESS;
  return Status.unschedulable(there.toString() + " of " + group.minimum.toString() + " pods of the group " + name + " are there");
}

register(new Quorum());
