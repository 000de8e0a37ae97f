;; Scores every node 100 if PreFilter was called for the pod, and every node 0 otherwise.
(module
  (memory (export "memory") 1)
  (global $seen (mut i64) (i64.const 0))
  (func (export "prefilter") (result i32) (global.set $seen (i64.const 100)) (i32.const 0))
  (func (export "score") (result i64) (i64.shl (global.get $seen) (i64.const 32))))
