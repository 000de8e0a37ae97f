/**
 * Scores nodes by number: a pod whose name ends in a digit prefers the nodes whose names end in the same digit. It knows
 * nodes by name only, so it runs where the host has no node objects.
 *
 * Configuration: `{"reverse": true}` prefers all the other nodes instead.
 */

import { Plugin, Pod, Residents, Status, config, register } from "kwx-guest";

export * from "kwx-guest/nodes";
export * from "kwx-guest/prescore";
export * from "kwx-guest/score";

/** Stands for the last digit of a name that does not end in one. */
const NONE = -1;

/** Keeps the last digits of the pod's name and of each node's. */
class NodeNumber extends Plugin<i32, i32> {
  private readonly reverse: bool = config.getBool("reverse", false);

  wish(pod: Pod): i32 {
    return lastDigit(pod.metadata.name);
  }

  resident(name: string): i32 {
    return lastDigit(name);
  }

  prescore(digit: i32, nodes: Residents<i32>): Status {
    return digit == NONE ? Status.SKIP : Status.SUCCESS;
  }

  score(digit: i32, node: i32): i32 {
    return digit != NONE && (digit == node) != this.reverse ? 100 : 0;
  }
}

function lastDigit(name: string): i32 {
  const digit = name.length > 0 ? name.charCodeAt(name.length - 1) - 0x30 : NONE;
  return digit >= 0 && digit <= 9 ? digit : NONE;
}

register(new NodeNumber());
