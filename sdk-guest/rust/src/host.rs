//! Every function that a host offers to a guest, with the ABI's own names where Rust can write them. A
//! module imports only the ones that it calls.
//!
//! A function that takes `buf` and `limit` writes its answer there and returns its length. An answer
//! longer than `limit` is not written at all, and the length that it needs is returned: see `read`.

/// The answer of a function that takes `buf` and `limit`. With room for `capacity` bytes one call is the
/// rule, and a second one, with as much room as the first asked for, the exception.
pub fn read(capacity: usize, ask: impl Fn(*mut u8, usize) -> usize) -> Vec<u8> {
    let mut answer = Vec::with_capacity(capacity);
    loop {
        let needed = ask(answer.as_mut_ptr(), answer.capacity());
        if needed <= answer.capacity() {
            // SAFETY: the host has written that many bytes.
            unsafe { answer.set_len(needed) };
            return answer;
        }
        answer.reserve_exact(needed);
    }
}

macro_rules! functions {
    ($($module:tt { $($name:ident = $import:tt ($($parameter:ident: $type:ty),*) $(-> $result:ty)?;)* })*) => {$(
        #[cfg(target_arch = "wasm32")]
        #[link(wasm_import_module = $module)]
        extern "C" {$(
            #[link_name = $import]
            pub fn $name($($parameter: $type),*) $(-> $result)?;
        )*}
        $(
            /// Natively, where only tests run, the host of [`hosttest`](crate::hosttest) answers.
            ///
            /// # Safety
            /// Pointers and lengths are those of bytes, as in a module.
            #[cfg(not(target_arch = "wasm32"))]
            pub unsafe fn $name($($parameter: $type),*) $(-> $result)? {
                crate::hosttest::world::$name($($parameter),*)
            }
        )*
    )*};
}

functions! {
    "wasi_snapshot_preview1" {
        clock_time_get = "clock_time_get"(clock: u32, precision: u64, time: *mut u64) -> u32;
        fd_write = "fd_write"(fd: u32, parts: *const [usize; 2], count: usize, written: *mut usize) -> u32;
    }
    "k8s.io/api" {
        node = "node"(name: *const u8, name_len: usize, buf: *mut u8, limit: usize) -> usize;
        node_list = "nodeList"(buf: *mut u8, limit: usize) -> usize;
    }
    "k8s.io/klog" {
        log = "log"(severity: i32, msg: *const u8, msg_len: usize);
        logs = "logs"(severity: i32, msg: *const u8, msg_len: usize, kvs: *const u8, kvs_len: usize);
        severity = "severity"() -> i32;
    }
    "k8s.io/scheduler" {
        current_pod = "currentPod"(buf: *mut u8, limit: usize) -> usize;
        current_node_name = "currentNodeName"(buf: *mut u8, limit: usize) -> usize;
        target_pod = "targetPod"(buf: *mut u8, limit: usize) -> usize;
        filtered_node_list = "filteredNodeList"(buf: *mut u8, limit: usize) -> usize;
        node_to_status_map = "nodeToStatusMap"(buf: *mut u8, limit: usize) -> usize;
        node_score_list = "nodeScoreList"(buf: *mut u8, limit: usize) -> usize;
        node_image_states = "nodeImageStates"(name: *const u8, name_len: usize, buf: *mut u8, limit: usize) -> usize;
        get_config = "get_config"(buf: *mut u8, limit: usize) -> usize;
        result_cluster_events = "result.cluster_events"(buf: *const u8, len: usize);
        result_node_names = "result.node_names"(buf: *const u8, len: usize);
        result_nominated_node_name = "result.nominated_node_name"(buf: *const u8, len: usize);
        result_status_reason = "result.status_reason"(buf: *const u8, len: usize);
        result_normalized_score_list = "result.normalized_score_list"(buf: *const u8, len: usize);
        eventf = "handle.eventrecorder.eventf"(buf: *const u8, len: usize);
        reject_waiting_pod = "handle.reject_waiting_pod"(uid: *const u8, uid_len: usize, buf: *mut u8, limit: usize);
        get_waiting_pod = "handle.get_waiting_pod"(uid: *const u8, uid_len: usize, buf: *mut u8, limit: usize);
    }
}

#[cfg(test)]
mod tests {
    use super::read;
    use std::cell::RefCell;

    #[test]
    fn asks_again_with_as_much_room_as_the_answer_needs() {
        for (capacity, asked) in [(8, 1), (5, 1), (4, 2), (0, 2)] {
            let limits = RefCell::new(Vec::new());
            let answer = read(capacity, |buffer, limit| {
                limits.borrow_mut().push(limit);
                if limit >= 5 {
                    unsafe { buffer.copy_from(b"hello".as_ptr(), 5) };
                }
                5
            });
            assert_eq!((answer.as_slice(), limits.borrow().len()), (&b"hello"[..], asked));
        }
    }
}
