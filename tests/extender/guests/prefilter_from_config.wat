;; Configuration: a digit, then `n` and NUL-terminated node names, or `r` and a reason. PreFilter answers with the
;; digit as status code and hands over the names or the reason. Filter rejects every node.
(module
  (import "k8s.io/scheduler" "get_config" (func $get_config (param i32 i32) (result i32)))
  (import "k8s.io/scheduler" "result.node_names" (func $node_names (param i32 i32)))
  (import "k8s.io/scheduler" "result.status_reason" (func $status_reason (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 8192) "Filter was called")
  (func (export "prefilter") (result i32)
    (local $config i32)
    (local.set $config (call $get_config (i32.const 0) (i32.const 4096)))
    (if (i32.eq (i32.load8_u (i32.const 1)) (i32.const 0x6e))
      (then (call $node_names (i32.const 2) (i32.sub (local.get $config) (i32.const 2)))))
    (if (i32.eq (i32.load8_u (i32.const 1)) (i32.const 0x72))
      (then (call $status_reason (i32.const 2) (i32.sub (local.get $config) (i32.const 2)))))
    (i32.sub (i32.load8_u (i32.const 0)) (i32.const 0x30)))
  (func (export "filter") (result i32)
    (call $status_reason (i32.const 8192) (i32.const 17))
    (i32.const 2)))
