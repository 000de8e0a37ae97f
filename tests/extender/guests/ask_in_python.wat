;; Asks for a pod that does not wait, and hands over the names of nodes, for ever, wherever it is called: what the host
;; answers in Python.
(module
  (import "k8s.io/scheduler" "handle.get_waiting_pod" (func $waiting (param i32 i32 i32 i32)))
  (import "k8s.io/scheduler" "result.node_names" (func $names (param i32 i32)))
  (memory (export "memory") 16)
  (func $again
    (loop $more
      (call $waiting (i32.const 0) (i32.const 8) (i32.const 64) (i32.const 8))
      (call $names (i32.const 0) (i32.const 262144))
      (br $more)))
  (func $filter (export "filter") (result i32) (call $again) (i32.const 0))
  (func $score (export "score") (result i64) (call $again) (i64.const 0)))
