;; VERSION stands for a number of two digits. Rejects the nodes whose name ends in its second digit, with `version` and
;; the number as reason, and scores the others with the number. SALT makes modules of the same version differ.
(module
  (import "k8s.io/scheduler" "currentNodeName" (func $current_node_name (param i32 i32) (result i32)))
  (import "k8s.io/scheduler" "result.status_reason" (func $status_reason (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "version VERSION")
  (data (i32.const 16) "SALT")
  (func (export "filter") (result i32)
    (if (i32.ne
          (i32.load8_u offset=63 (call $current_node_name (i32.const 64) (i32.const 253)))
          (i32.load8_u (i32.const 9)))
      (then (return (i32.const 0))))
    (call $status_reason (i32.const 0) (i32.const 10))
    (i32.const 2))
  (func (export "score") (result i64) (i64.shl (i64.const VERSION) (i64.const 32))))
