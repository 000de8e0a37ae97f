;; Runs into a trap wherever it is called.
(module
  (memory (export "memory") 1)
  (func (export "filter") (result i32) unreachable)
  (func (export "score") (result i64) unreachable)
  (func (export "postfilter") (result i64) unreachable))
