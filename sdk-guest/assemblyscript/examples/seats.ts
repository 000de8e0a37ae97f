/**
 * Finds pods a seat: a node's label `example.com/free-seats` says how many there are, and a pod's label
 * `example.com/seats` how many it takes. A pod with the label `example.com/room` looks at the nodes of that room alone.
 *
 * PreFilter: the nodes of the room, and Skip for a pod that takes no seat. Filter: enough seats, with those of the pods
 * that a preemption would remove. PostFilter: nominates the candidate with the most free seats.
 */

import {
  Code, Plugin, Pod, PostFilter, PreFilter, Residents, Status, TextMap, fail, node, nodeStatuses, register,
} from "kwx-guest";

export * from "kwx-guest/filter";
export * from "kwx-guest/nodes";
export * from "kwx-guest/postfilter";
export * from "kwx-guest/preemption";
export * from "kwx-guest/prefilter";

class Wish {
  /** Seats of pods that are removed from the node at hand, and not added again. */
  freed: i64 = 0;

  constructor(
    readonly seats: i64,
    readonly room: string,
  ) {}
}

class Place {
  constructor(
    readonly free: i64,
    readonly room: string,
  ) {}
}

class Seats extends Plugin<Wish, Place> {
  wish(pod: Pod): Wish {
    const labels = pod.metadata.labels;
    return new Wish(number(labels, "example.com/seats"), labels.get("example.com/room"));
  }

  resident(name: string): Place {
    const labels = node(name).metadata.labels;
    return new Place(number(labels, "example.com/free-seats"), labels.get("example.com/room"));
  }

  prefilter(wish: Wish, nodes: Residents<Place>): PreFilter {
    if (wish.seats == 0 && wish.room.length == 0) return new PreFilter(Status.SKIP);
    if (wish.room.length == 0 || nodes.length == 0) return new PreFilter(Status.SUCCESS);
    const inRoom: string[] = [];
    for (let i = 0; i < nodes.length; i++) {
      if (nodes.has(i) && nodes.get(i).room == wish.room) inRoom.push(nodes.name(i));
    }
    return PreFilter.only(inRoom);
  }

  addpod(wish: Wish, pod: Pod, place: Place): Status {
    wish.freed -= number(pod.metadata.labels, "example.com/seats");
    return Status.SUCCESS;
  }

  removepod(wish: Wish, pod: Pod, place: Place): Status {
    wish.freed += number(pod.metadata.labels, "example.com/seats");
    return Status.SUCCESS;
  }

  filter(wish: Wish, place: Place): Status {
    if (wish.room.length > 0 && wish.room != place.room) return Status.unresolvable("another room");
    const free = place.free + wish.freed;
    if (wish.seats <= free) return Status.SUCCESS;
    return Status.unschedulable(free.toString() + " of " + wish.seats.toString() + " seats are free");
  }

  postfilter(wish: Wish, nodes: Residents<Place>): PostFilter {
    let best = "";
    let most: i64 = 0;
    const statuses = nodeStatuses();
    for (let i = 0, names = statuses.keys(); i < names.length; i++) {
      if (statuses.get(names[i]) != Code.Unschedulable || !nodes.hasName(names[i])) continue;
      const free = nodes.named(names[i]).free;
      if (free <= most) continue;
      best = names[i];
      most = free;
    }
    return most > 0 ? PostFilter.nominate(best) : new PostFilter(Status.unschedulable("no node has a free seat"));
  }
}

/** The label as a number, 0 where there is none. */
function number(labels: TextMap, label: string): i64 {
  const text = labels.get(label);
  if (text.length == 0) return 0;
  const value = I64.parseInt(text);
  if (value.toString() != text) fail("label " + label + " is no number: " + text);
  return value;
}

register(new Seats());
