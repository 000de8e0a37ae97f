//! Every function that a host offers to a guest, with the ABI's own names. A module imports only
//! the ones that it calls.
//!
//! A function that takes `buf` and `limit` writes its answer there and returns its length. An
//! answer longer than `limit` is not written at all, and the length that it needs is returned:
//! see `memory.read`.

/// Bytes that `fd_write` writes.
pub const Part = extern struct { at: [*]const u8, len: usize };

pub extern "wasi_snapshot_preview1" fn fd_write(fd: i32, parts: [*]const Part, count: usize, written: *usize) i32;

pub extern "k8s.io/api" fn node(name: [*]const u8, name_len: usize, buf: [*]u8, limit: usize) usize;
pub extern "k8s.io/api" fn nodeList(buf: [*]u8, limit: usize) usize;

pub extern "k8s.io/klog" fn log(severity: i32, msg: [*]const u8, msg_len: usize) void;
pub extern "k8s.io/klog" fn logs(severity: i32, msg: [*]const u8, msg_len: usize, kvs: [*]const u8, kvs_len: usize) void;
pub extern "k8s.io/klog" fn severity() i32;

pub extern "k8s.io/scheduler" fn currentPod(buf: [*]u8, limit: usize) usize;
pub extern "k8s.io/scheduler" fn currentNodeName(buf: [*]u8, limit: usize) usize;
pub extern "k8s.io/scheduler" fn targetPod(buf: [*]u8, limit: usize) usize;
pub extern "k8s.io/scheduler" fn filteredNodeList(buf: [*]u8, limit: usize) usize;
pub extern "k8s.io/scheduler" fn nodeToStatusMap(buf: [*]u8, limit: usize) usize;
pub extern "k8s.io/scheduler" fn nodeScoreList(buf: [*]u8, limit: usize) usize;
pub extern "k8s.io/scheduler" fn nodeImageStates(name: [*]const u8, name_len: usize, buf: [*]u8, limit: usize) usize;
pub extern "k8s.io/scheduler" fn get_config(buf: [*]u8, limit: usize) usize;

pub extern "k8s.io/scheduler" fn @"result.cluster_events"(buf: [*]const u8, len: usize) void;
pub extern "k8s.io/scheduler" fn @"result.node_names"(buf: [*]const u8, len: usize) void;
pub extern "k8s.io/scheduler" fn @"result.nominated_node_name"(buf: [*]const u8, len: usize) void;
pub extern "k8s.io/scheduler" fn @"result.status_reason"(buf: [*]const u8, len: usize) void;
pub extern "k8s.io/scheduler" fn @"result.normalized_score_list"(buf: [*]const u8, len: usize) void;

pub extern "k8s.io/scheduler" fn @"handle.eventrecorder.eventf"(buf: [*]const u8, len: usize) void;
pub extern "k8s.io/scheduler" fn @"handle.reject_waiting_pod"(uid: [*]const u8, uid_len: usize, buf: [*]u8, limit: usize) void;
pub extern "k8s.io/scheduler" fn @"handle.get_waiting_pod"(uid: [*]const u8, uid_len: usize, buf: [*]u8, limit: usize) void;
