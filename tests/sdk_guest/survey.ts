/**
 * Tells what it saw of the candidates together, for tests: a pod whose name is the letter of a node fits the nodes at least
 * as good. A node's score is how many candidates there were.
 */

import { Candidates, Plugin, Pod, Status, fail, register } from "kwx-guest";

export * from "kwx-guest/filter";
export * from "kwx-guest/nodes";
export * from "kwx-guest/prefilter";
export * from "kwx-guest/score";

class Wish {
  /** The names of the candidates of each survey. */
  readonly seen: string[] = [];
  count: i32 = 0;

  constructor(readonly pod: string) {}
}

class Teller extends Plugin<Wish, string> {
  wish(pod: Pod): Wish {
    return new Wish(pod.metadata.name);
  }

  resident(name: string): string {
    if (name == "unread") fail("it cannot be read");
    return name;
  }

  survey(wish: Wish, candidates: Candidates<string>): Status {
    let names = "";
    const numbers = candidates.numbers;
    for (let i = 0; i < numbers.length; i++) names += candidates.residents.get(numbers[i]) + numbers[i].toString() + " ";
    wish.seen.push(names);
    wish.count = numbers.length;
    if (wish.pod == "none") return Status.unresolvable("seen " + wish.seen.join(""));
    return wish.pod == "bad" ? Status.error("bad candidates") : Status.SUCCESS;
  }

  filter(wish: Wish, node: string): Status {
    return node >= wish.pod ? Status.SUCCESS : Status.unschedulable(node + " after " + wish.seen.join(""));
  }

  score(wish: Wish, node: string): i32 {
    return wish.count + 10 * wish.seen.length;
  }
}

register(new Teller());
