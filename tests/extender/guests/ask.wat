;; Asks the host for all documents that it has for ever, wherever it is called.
(module
  (import "k8s.io/scheduler" "currentPod" (func $pod (param i32 i32) (result i32)))
  (import "k8s.io/scheduler" "get_config" (func $config (param i32 i32) (result i32)))
  (import "k8s.io/scheduler" "filteredNodeList" (func $filtered (param i32 i32) (result i32)))
  (import "k8s.io/scheduler" "nodeToStatusMap" (func $statuses (param i32 i32) (result i32)))
  (import "k8s.io/scheduler" "nodeScoreList" (func $scores (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $again
    (loop $more
      (drop (call $pod (i32.const 0) (i32.const 65536)))
      (drop (call $config (i32.const 0) (i32.const 65536)))
      (drop (call $filtered (i32.const 0) (i32.const 65536)))
      (drop (call $statuses (i32.const 0) (i32.const 65536)))
      (drop (call $scores (i32.const 0) (i32.const 65536)))
      (br $more)))
  (func $filter (export "filter") (result i32) (call $again) (i32.const 0))
  (func $score (export "score") (result i64) (call $again) (i64.const 0)))
