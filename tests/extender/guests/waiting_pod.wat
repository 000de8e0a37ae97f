;; Configuration: `g` or `r`. Looks for the pod that waits on Permit whose UID is the name of the current pod, and
;; rejects every node with a reason: the name of the pod that waits (`g`), that it was rejected (`r`), or that it does
;; not wait. Names of pods are shorter than 128 bytes here, and so is their metadata.
(module
  (import "k8s.io/scheduler" "get_config" (func $get_config (param i32 i32) (result i32)))
  (import "k8s.io/scheduler" "currentPod" (func $current_pod (param i32 i32) (result i32)))
  (import "k8s.io/scheduler" "result.status_reason" (func $status_reason (param i32 i32)))
  (import "k8s.io/scheduler" "handle.get_waiting_pod" (func $get_waiting_pod (param i32 i32 i32 i32)))
  (import "k8s.io/scheduler" "handle.reject_waiting_pod" (func $reject_waiting_pod (param i32 i32 i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "does not wait")
  (data (i32.const 16) "was rejected")
  (func (export "filter") (result i32)
    (drop (call $get_config (i32.const 32) (i32.const 1)))
    (drop (call $current_pod (i32.const 1024) (i32.const 4096)))
    (if (i32.eq (i32.load8_u (i32.const 32)) (i32.const 0x72))
      (then
        (call $reject_waiting_pod
          (i32.const 1028) (i32.load8_u (i32.const 1027)) (i32.const 8192) (i32.const 8))
        (if (i32.wrap_i64 (i64.load (i32.const 8192)))
          (then (call $status_reason (i32.const 16) (i32.const 12)))
          (else (call $status_reason (i32.const 0) (i32.const 13)))))
      (else
        (call $get_waiting_pod
          (i32.const 1028) (i32.load8_u (i32.const 1027)) (i32.const 8192) (i32.const 4096))
        (if (i64.eqz (i64.load (i32.const 8192)))
          (then (call $status_reason (i32.const 0) (i32.const 13)))
          (else (call $status_reason (i32.const 8196) (i32.load8_u (i32.const 8195)))))))
    (i32.const 2)))
