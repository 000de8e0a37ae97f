import * as host from "./host";

/** What changes, by its number in the ABI. */
export enum EventResource {
  Pod = 0,
  Node = 1,
  PersistentVolume = 2,
  PersistentVolumeClaim = 3,
  PodSchedulingContext = 4,
  ResourceClaim = 5,
  StorageClass = 6,
  CsiNode = 7,
  CsiDriver = 8,
  CsiStorageCapacity = 9,
  Any = 10,
}

/** A change in the cluster after which a rejected pod is worth another attempt. */
export class ClusterEvent {
  static readonly ADD: u32 = 1;
  static readonly DELETE: u32 = 1 << 1;
  static readonly UPDATE_NODE_ALLOCATABLE: u32 = 1 << 2;
  static readonly UPDATE_NODE_LABEL: u32 = 1 << 3;
  static readonly UPDATE_NODE_TAINT: u32 = 1 << 4;
  static readonly UPDATE_NODE_CONDITION: u32 = 1 << 5;

  constructor(
    readonly resource: EventResource,
    /** A bit an action, as in `guest/api/clusterevent.go` of kube-scheduler-wasm-extension. */
    readonly actions: u32,
  ) {}
}

/** Hands the events to the host, as pairs of numbers. */
export function sendClusterEvents(events: ClusterEvent[]): void {
  const pairs = new StaticArray<u32>(2 * events.length);
  for (let i = 0; i < events.length; i++) {
    pairs[2 * i] = events[i].resource;
    pairs[2 * i + 1] = events[i].actions;
  }
  host.resultClusterEvents(changetype<usize>(pairs), 8 * events.length);
}
