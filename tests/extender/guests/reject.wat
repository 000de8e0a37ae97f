;; Rejects every node.
(module
  (import "k8s.io/scheduler" "result.status_reason" (func $status_reason (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "no")
  (func (export "filter") (result i32)
    (call $status_reason (i32.const 0) (i32.const 2))
    (i32.const 2)))
