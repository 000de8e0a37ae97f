;; Configuration: a text. Filter and Score run into a trap for pods in whose object it stands, in their name for instance.
(module
  (import "k8s.io/scheduler" "get_config" (func $get_config (param i32 i32) (result i32)))
  (import "k8s.io/scheduler" "currentPod" (func $current_pod (param i32 i32) (result i32)))
  (memory (export "memory") 2)
  (func $stands_at (param $at i32) (param $length i32) (result i32)
    (loop $next
      (if (i32.eqz (local.get $length)) (then (return (i32.const 1))))
      (local.set $length (i32.sub (local.get $length) (i32.const 1)))
      (br_if $next (i32.eq
        (i32.load8_u (local.get $length))
        (i32.load8_u (i32.add (local.get $at) (local.get $length))))))
    (i32.const 0))
  (func $look
    (local $length i32) (local $at i32) (local $end i32)
    (local.set $length (call $get_config (i32.const 0) (i32.const 1024)))
    (local.set $at (i32.const 1024))
    (local.set $end (i32.add (i32.const 1024) (call $current_pod (i32.const 1024) (i32.const 65536))))
    (loop $next
      (if (call $stands_at (local.get $at) (local.get $length)) (then unreachable))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $at) (local.get $end)))))
  (func $filter (export "filter") (result i32) (call $look) (i32.const 0))
  (func $score (export "score") (result i64) (call $look) (i64.const 0)))
