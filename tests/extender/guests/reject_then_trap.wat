;; Filter rejects every node; PostFilter runs into a trap.
(module
  (memory (export "memory") 1)
  (func (export "filter") (result i32) (i32.const 2))
  (func (export "postfilter") (result i64) unreachable))
