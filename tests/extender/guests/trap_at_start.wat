;; Runs into a trap when it is started.
(module
  (memory (export "memory") 1)
  (func (export "_initialize") unreachable)
  (func (export "filter") (result i32) (i32.const 0)))
