;; Configuration: two digits and the name of a node. PostFilter answers with the first digit as nominating mode, the
;; second as status code, and nominates the node.
(module
  (import "k8s.io/scheduler" "get_config" (func $get_config (param i32 i32) (result i32)))
  (import "k8s.io/scheduler" "result.nominated_node_name" (func $nominate (param i32 i32)))
  (memory (export "memory") 1)
  (func (export "postfilter") (result i64)
    (local $config i32)
    (local.set $config (call $get_config (i32.const 0) (i32.const 4096)))
    (call $nominate (i32.const 2) (i32.sub (local.get $config) (i32.const 2)))
    (i64.or
      (i64.shl (i64.extend_i32_u (i32.sub (i32.load8_u (i32.const 0)) (i32.const 0x30))) (i64.const 32))
      (i64.extend_i32_u (i32.sub (i32.load8_u (i32.const 1)) (i32.const 0x30))))))
