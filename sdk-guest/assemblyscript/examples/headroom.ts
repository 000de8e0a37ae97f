/**
 * Prefers the nodes that a pod leaves the most room on.
 *
 * Filter: the zone that the pod's label `example.com/zone` names, if it does, and enough cpu and memory. Score: of cpu and
 * memory, what is left of the scarcer one, in percent of all of it; half of that if the pod's label
 * `example.com/instance-type` names another type than the node's. Other pods on the node do not count.
 */

import { Plugin, Pod, Status, node, register } from "kwx-guest";

export * from "kwx-guest/filter";
export * from "kwx-guest/nodes";
export * from "kwx-guest/prefilter";
export * from "kwx-guest/score";

const ANOTHER_ZONE = Status.unresolvable("node(s) in another zone");
const TOO_LITTLE_CPU = Status.unschedulable("Insufficient cpu");
const TOO_LITTLE_MEMORY = Status.unschedulable("Insufficient memory");

/** What a pod asks for, or what a node has: millicores, and bytes. */
class Room {
  cpu: i64 = 0;
  memory: i64 = 0;
  zone: string = "";
  instanceType: string = "";
}

class Headroom extends Plugin<Room, Room> {
  wish(pod: Pod): Room {
    const wish = new Room();
    for (let i = 0, containers = pod.spec.containers; i < containers.length; i++) {
      const requests = containers[i].resources.requests;
      wish.cpu = plus(wish.cpu, requests.get("cpu").milliValue);
      wish.memory = plus(wish.memory, requests.get("memory").value);
    }
    wish.zone = pod.metadata.labels.get("example.com/zone");
    wish.instanceType = pod.metadata.labels.get("example.com/instance-type");
    return wish;
  }

  resident(name: string): Room {
    const object = node(name);
    const allocatable = object.status.allocatable;
    const room = new Room();
    room.cpu = allocatable.get("cpu").milliValue;
    room.memory = allocatable.get("memory").value;
    room.zone = object.metadata.labels.get("topology.kubernetes.io/zone");
    room.instanceType = object.metadata.labels.get("node.kubernetes.io/instance-type");
    return room;
  }

  filter(wish: Room, room: Room): Status {
    if (wish.zone.length > 0 && wish.zone != room.zone) return ANOTHER_ZONE;
    if (wish.cpu > room.cpu) return TOO_LITTLE_CPU;
    if (wish.memory > room.memory) return TOO_LITTLE_MEMORY;
    return Status.SUCCESS;
  }

  score(wish: Room, room: Room): i32 {
    const score = min(percentLeft(wish.cpu, room.cpu), percentLeft(wish.memory, room.memory));
    return wish.instanceType.length == 0 || wish.instanceType == room.instanceType ? score : score / 2;
  }
}

/** The sum, or the largest number. */
function plus(one: i64, other: i64): i64 {
  return one > i64.MAX_VALUE - other ? i64.MAX_VALUE : one + other;
}

function percentLeft(request: i64, allocatable: i64): i32 {
  if (allocatable <= 0 || request > allocatable) return 0;
  return <i32>((100 * (allocatable - request)) / allocatable);
}

register(new Headroom());
