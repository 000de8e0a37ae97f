;; Rejects every node with a reason that is not UTF-8.
(module
  (import "k8s.io/scheduler" "result.status_reason" (func $status_reason (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "a\ff\fe\c3b")
  (func (export "filter") (result i32)
    (call $status_reason (i32.const 0) (i32.const 5))
    (i32.const 2)))
