;; PreScore answers Skip; Score would give every node 100.
(module
  (memory (export "memory") 1)
  (func (export "prescore") (result i32) (i32.const 5))
  (func (export "score") (result i64) (i64.shl (i64.const 100) (i64.const 32))))
