/**
 * Prefers the nodes with the fewest free seats, of which a node's label `example.com/free-seats` says how many.
 *
 * PreScore: Skip where a single node is left. Score: the seats; NormalizeScore: 100 for none, 0 for the most.
 */

import { NodeScore, Plugin, Pod, Residents, Status, filteredNodes, node, register } from "kwx-guest";

export * from "kwx-guest/nodes";
export * from "kwx-guest/normalizescore";
export * from "kwx-guest/prescore";
export * from "kwx-guest/score";

/** Keeps nothing of a pod, and of a node the free seats. */
class Fullest extends Plugin<bool, i32> {
  wish(pod: Pod): bool {
    return true;
  }

  resident(name: string): i32 {
    return I32.parseInt(node(name).metadata.labels.get("example.com/free-seats"));
  }

  prescore(wish: bool, nodes: Residents<i32>): Status {
    return filteredNodes().length == 1 ? Status.SKIP : Status.SUCCESS;
  }

  score(wish: bool, seats: i32): i32 {
    return seats;
  }

  normalizescore(wish: bool, scores: NodeScore[]): Status {
    let most: i64 = 1;
    for (let i = 0; i < scores.length; i++) most = max(most, scores[i].score);
    for (let i = 0; i < scores.length; i++) scores[i].score = 100 - (100 * max<i64>(scores[i].score, 0)) / most;
    return Status.SUCCESS;
  }
}

register(new Fullest());
