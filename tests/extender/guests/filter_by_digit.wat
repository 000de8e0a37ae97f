;; Configuration: a character, a digit, a reason. Rejects the nodes whose name ends in the character (`*`: all
;; nodes) with the digit as status code; gives the reason unless it is empty.
(module
  (import "k8s.io/scheduler" "get_config" (func $get_config (param i32 i32) (result i32)))
  (import "k8s.io/scheduler" "currentNodeName" (func $current_node_name (param i32 i32) (result i32)))
  (import "k8s.io/scheduler" "result.status_reason" (func $status_reason (param i32 i32)))
  (memory (export "memory") 1)
  (func (export "filter") (result i32)
    (local $config i32) (local $name i32)
    (local.set $config (call $get_config (i32.const 0) (i32.const 4096)))
    (local.set $name (call $current_node_name (i32.const 4096) (i32.const 4096)))
    (if (i32.and
          (i32.ne (i32.load8_u (i32.const 0)) (i32.const 0x2a))
          (i32.ne (i32.load8_u (i32.const 0)) (i32.load8_u offset=4095 (local.get $name))))
      (then (return (i32.const 0))))
    (if (i32.gt_u (local.get $config) (i32.const 2))
      (then (call $status_reason (i32.const 2) (i32.sub (local.get $config) (i32.const 2)))))
    (i32.sub (i32.load8_u (i32.const 1)) (i32.const 0x30))))
