;; Rejects every node with a reason of a whole page of memory.
(module
  (import "k8s.io/scheduler" "result.status_reason" (func $status_reason (param i32 i32)))
  (memory (export "memory") 1)
  (func (export "filter") (result i32)
    (memory.fill (i32.const 0) (i32.const 0x78) (i32.const 65536))
    (call $status_reason (i32.const 0) (i32.const 65536))
    (i32.const 2)))
