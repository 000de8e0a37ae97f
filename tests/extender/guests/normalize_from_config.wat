;; Configuration: a JSON object of scores by the node's name. Scores each node 7; NormalizeScore makes those of it.
(module
  (import "k8s.io/scheduler" "get_config" (func $get_config (param i32 i32) (result i32)))
  (import "k8s.io/scheduler" "result.normalized_score_list" (func $normalized (param i32 i32)))
  (memory (export "memory") 1)
  (func (export "score") (result i64) (i64.const 0x700000000))
  (func (export "normalizescore") (result i32)
    (call $normalized (i32.const 0) (call $get_config (i32.const 0) (i32.const 65536)))
    (i32.const 0)))
