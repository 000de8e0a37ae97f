;; Reserve rejects the pod with a digit as reason: for how many nodes Filter was called since PreFilter.
(module
  (import "k8s.io/scheduler" "result.status_reason" (func $status_reason (param i32 i32)))
  (memory (export "memory") 1)
  (func (export "prefilter") (result i32)
    (i32.store8 (i32.const 0) (i32.const 0x30))
    (i32.const 0))
  (func (export "filter") (result i32)
    (i32.store8 (i32.const 0) (i32.add (i32.load8_u (i32.const 0)) (i32.const 1)))
    (i32.const 0))
  (func (export "reserve") (result i32)
    (call $status_reason (i32.const 0) (i32.const 1))
    (i32.const 2)))
