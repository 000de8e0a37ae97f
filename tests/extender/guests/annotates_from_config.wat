;; Configuration: a character, then the annotations that the guest gives, with newlines in the place of NULs. With `r`
;; Reserve rejects the pod, with `e` it answers Error, and with `t` bindingannotations traps. Tells of each call by asking
;; for a waiting pod of the export's name.
(module
  (import "k8s.io/scheduler" "get_config" (func $get_config (param i32 i32) (result i32)))
  (import "k8s.io/scheduler" "handle.get_waiting_pod" (func $get_waiting_pod (param i32 i32 i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "reserve")
  (data (i32.const 16) "bindingannotations")
  (data (i32.const 48) "unreserve")
  (func $tell (param $name i32) (param $length i32)
    (call $get_waiting_pod (local.get $name) (local.get $length) (i32.const 512) (i32.const 8)))
  (func $is (param $character i32) (result i32)
    (drop (call $get_config (i32.const 1023) (i32.const 4096)))
    (i32.eq (local.get $character) (i32.load8_u (i32.const 1023))))
  (func (export "reserve") (result i32)
    (call $tell (i32.const 0) (i32.const 7))
    (select (i32.const 2) (call $is (i32.const 0x65)) (call $is (i32.const 0x72))))
  (func $bindingannotations (export "bindingannotations") (result i64)
    (local $at i32) (local $end i32)
    (call $tell (i32.const 16) (i32.const 18))
    (if (call $is (i32.const 0x74)) (then unreachable))
    (local.set $at (i32.const 1023))
    (local.set $end (i32.add (local.get $at) (call $get_config (i32.const 1023) (i32.const 4096))))
    (loop $next
      (if (i32.eq (i32.load8_u (local.get $at)) (i32.const 0x0a))
        (then (i32.store8 (local.get $at) (i32.const 0))))
      (br_if $next (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 1))) (local.get $end))))
    (i64.or
      (i64.shl (i64.const 1024) (i64.const 32))
      (i64.extend_i32_u (i32.sub (local.get $end) (i32.const 1024)))))
  (func (export "unreserve") (call $tell (i32.const 48) (i32.const 9))))
