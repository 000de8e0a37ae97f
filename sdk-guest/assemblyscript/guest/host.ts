/**
 * Every function that a host offers to a guest, with the ABI's own names. A module imports only the ones that it calls.
 *
 * A function that takes `buffer` and `limit` writes its answer there and returns its length. An answer longer than
 * `limit` is not written at all, and the length that it needs is returned: see `answer.ts`.
 */

@external("wasi_snapshot_preview1", "fd_write")
export declare function fd_write(fd: i32, parts: usize, count: i32, written: usize): i32;

@external("wasi_snapshot_preview1", "clock_time_get")
export declare function clock_time_get(clock: i32, precision: u64, time: usize): i32;

@external("k8s.io/api", "node")
export declare function node(name: usize, nameLength: i32, buffer: usize, limit: i32): i32;

@external("k8s.io/klog", "log")
export declare function log(severity: i32, message: usize, length: i32): void;

@external("k8s.io/klog", "severity")
export declare function severity(): i32;

@external("k8s.io/scheduler", "currentPod")
export declare function currentPod(buffer: usize, limit: i32): i32;

@external("k8s.io/scheduler", "currentNodeName")
export declare function currentNodeName(buffer: usize, limit: i32): i32;

@external("k8s.io/scheduler", "targetPod")
export declare function targetPod(buffer: usize, limit: i32): i32;

@external("k8s.io/scheduler", "filteredNodeList")
export declare function filteredNodeList(buffer: usize, limit: i32): i32;

@external("k8s.io/scheduler", "nodeToStatusMap")
export declare function nodeToStatusMap(buffer: usize, limit: i32): i32;

@external("k8s.io/scheduler", "nodeScoreList")
export declare function nodeScoreList(buffer: usize, limit: i32): i32;

@external("k8s.io/scheduler", "get_config")
export declare function getConfig(buffer: usize, limit: i32): i32;

@external("k8s.io/scheduler", "result.cluster_events")
export declare function resultClusterEvents(pairs: usize, length: i32): void;

@external("k8s.io/scheduler", "result.node_names")
export declare function resultNodeNames(names: usize, length: i32): void;

@external("k8s.io/scheduler", "result.nominated_node_name")
export declare function resultNominatedNodeName(name: usize, length: i32): void;

@external("k8s.io/scheduler", "result.status_reason")
export declare function resultStatusReason(reason: usize, length: i32): void;

@external("k8s.io/scheduler", "result.normalized_score_list")
export declare function resultNormalizedScoreList(scores: usize, length: i32): void;

@external("k8s.io/scheduler", "handle.eventrecorder.eventf")
export declare function eventf(event: usize, length: i32): void;

@external("k8s.io/scheduler", "handle.reject_waiting_pod")
export declare function rejectWaitingPod(uid: usize, uidLength: i32, buffer: usize, limit: i32): void;
