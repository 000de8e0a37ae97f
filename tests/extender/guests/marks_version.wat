;; VERSION stands for a digit, 0 or 1. Filter keeps the nodes whose last digit has it as its lowest bit, Score prefers
;; those that have it as the bit above, and the pod's annotation `version` says it at the bind: where a pod is tells
;; which version each verb has asked. Filter takes some milliseconds of the processor, so that pods queue up.
(module
  (import "k8s.io/scheduler" "currentNodeName" (func $current_node_name (param i32 i32) (result i32)))
  (import "k8s.io/scheduler" "result.status_reason" (func $status_reason (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "version\00VERSION\00")
  (data (i32.const 32) "of the other version")
  (func $has_version_at (param $bit i32) (result i32)
    (i32.eq
      (i32.const VERSION)
      (i32.and
        (i32.const 1)
        (i32.shr_u
          (i32.load8_u offset=63 (call $current_node_name (i32.const 64) (i32.const 253)))
          (local.get $bit)))))
  (func $toil
    (local $left i32)
    (local.set $left (i32.const 2000000))
    (loop $again (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1))))))
  (func (export "filter") (result i32)
    (call $toil)
    (if (call $has_version_at (i32.const 0)) (then (return (i32.const 0))))
    (call $status_reason (i32.const 32) (i32.const 20))
    (i32.const 2))
  (func (export "score") (result i64)
    (i64.shl (i64.mul (i64.const 100) (i64.extend_i32_u (call $has_version_at (i32.const 1)))) (i64.const 32)))
  (func (export "bindingannotations") (result i64) (i64.const 10)))
