;; Imports a function that no host has, and one with another signature than hosts have.
(module
  (import "k8s.io/scheduler" "currentPodName" (func (param i32 i32) (result i32)))
  (import "k8s.io/klog" "severity" (func (result i64)))
  (memory (export "memory") 1)
  (func (export "filter") (result i32) (i32.const 0)))
