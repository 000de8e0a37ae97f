;; Answers Error with a reason wherever it is called.
(module
  (import "k8s.io/scheduler" "result.status_reason" (func $status_reason (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "no quota service")
  (func $fail (result i32)
    (call $status_reason (i32.const 0) (i32.const 16))
    (i32.const 1))
  (func (export "filter") (result i32) (call $fail))
  (func (export "score") (result i64) (i64.extend_i32_u (call $fail)))
  (func (export "postfilter") (result i64) (i64.extend_i32_u (call $fail))))
