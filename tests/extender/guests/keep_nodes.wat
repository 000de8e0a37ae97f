;; Keeps nodes: logs when it is told of one. Filter logs too, and lets all nodes pass.
(module
  (import "k8s.io/klog" "log" (func $log (param i32 i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "nodechanged")
  (data (i32.const 16) "filter")
  (func (export "nodechanged") (param i32) (call $log (i32.const 0) (i32.const 0) (i32.const 11)))
  (func (export "noderemoved") (param i32))
  (func (export "filter") (result i32) (call $log (i32.const 0) (i32.const 16) (i32.const 6)) (i32.const 0)))
