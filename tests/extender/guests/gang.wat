;; Configuration: two numbers, each as the character that is so many after `0`, and a text. Lets a pod wait on Permit
;; until as many pods as the first number says are on nodes or expected there whose objects have the text. Rejects it
;; once there are more than the second number says, which is none for `-`. Tells of each call by asking for a waiting pod
;; that says which export it is.
(module
  (import "k8s.io/scheduler" "get_config" (func $get_config (param i32 i32) (result i32)))
  (import "k8s.io/scheduler" "result.status_reason" (func $reason (param i32 i32)))
  (import "k8s.io/scheduler" "handle.get_waiting_pod" (func $get_waiting_pod (param i32 i32 i32 i32)))
  (memory (export "memory") 32)
  (data (i32.const 0) "prefilter")
  (data (i32.const 16) "reserve")
  (data (i32.const 32) "unreserve")
  (data (i32.const 48) "permit")
  (data (i32.const 64) "prebind")
  (data (i32.const 80) "postbind")
  (data (i32.const 96) "too many are there")
  (global $config i32 (i32.const 0x200))
  (global $places i32 (i32.const 0x1000)) ;; a byte for each pod: whether it is counted
  (global $records i32 (i32.const 0x11000))
  (global $count (mut i32) (i32.const 0))

  (func $tell (param $name i32) (param $length i32)
    (call $get_waiting_pod (local.get $name) (local.get $length) (i32.const 0x180) (i32.const 8)))
  (func $number (param $at i32) (result i32)
    (drop (call $get_config (global.get $config) (i32.const 64)))
    (i32.sub (i32.load8_u (i32.add (global.get $config) (local.get $at))) (i32.const 0x30)))

  (func $has_text (param $at i32) (param $length i32) (result i32)
    (local $end i32) (local $text i32) (local $same i32)
    (local.set $text (i32.sub (call $get_config (global.get $config) (i32.const 64)) (i32.const 2)))
    (local.set $end (i32.sub (i32.add (local.get $at) (local.get $length)) (local.get $text)))
    (loop $next
      (if (i32.gt_s (local.get $at) (local.get $end)) (then (return (i32.const 0))))
      (local.set $same (i32.const 0))
      (block $differs
        (loop $byte
          (if (i32.eq (local.get $same) (local.get $text)) (then (return (i32.const 1))))
          (br_if $differs
            (i32.ne
              (i32.load8_u (i32.add (local.get $at) (local.get $same)))
              (i32.load8_u offset=2 (i32.add (global.get $config) (local.get $same)))))
          (local.set $same (i32.add (local.get $same) (i32.const 1)))
          (br $byte)))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br $next))
    (unreachable))

  (func (export "nodechanged") (param i32))
  (func (export "noderemoved") (param i32))
  (func (export "podbuffer") (param i32) (result i32) (global.get $records))

  (func (export "podschanged") (param $left i32)
    (local $at i32) (local $place i32) (local $counts i32)
    (local.set $at (global.get $records))
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $left)))
        (local.set $place (i32.add (global.get $places) (i32.load (local.get $at))))
        (local.set $counts (i32.load8_u (local.get $place)))
        (global.set $count (i32.sub (global.get $count) (local.get $counts)))
        (if (i32.load offset=12 (local.get $at))
          (then
            (local.set $counts
              (call $has_text
                (i32.add (local.get $at) (i32.const 16)) (i32.load offset=12 (local.get $at))))))
        (if (i32.eqz (i32.load offset=8 (local.get $at))) (then (local.set $counts (i32.const 0))))
        (i32.store8 (local.get $place) (local.get $counts))
        (global.set $count (i32.add (global.get $count) (local.get $counts)))
        (local.set $at
          (i32.and
            (i32.add (i32.add (local.get $at) (i32.const 23)) (i32.load offset=12 (local.get $at)))
            (i32.const -8)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br $next))))

  (func (export "prefilter") (result i32) (call $tell (i32.const 0) (i32.const 9)) (i32.const 0))
  (func (export "reserve") (result i32) (call $tell (i32.const 16) (i32.const 7)) (i32.const 0))
  (func (export "unreserve") (call $tell (i32.const 32) (i32.const 9)))
  (func (export "permit") (result i64)
    (call $tell (i32.const 48) (i32.const 6))
    (if (i32.gt_u (global.get $count) (call $number (i32.const 1))) ;; `-` is below 0, which is more than any count
      (then
        (call $reason (i32.const 96) (i32.const 18))
        (return (i64.shl (i64.const 2) (i64.const 32)))))
    (if (i32.ge_s (global.get $count) (call $number (i32.const 0))) (then (return (i64.const 0))))
    (i64.or (i64.shl (i64.const 4) (i64.const 32)) (i64.const 60000)))
  (func (export "prebind") (result i32) (call $tell (i32.const 64) (i32.const 7)) (i32.const 0))
  (func (export "postbind") (call $tell (i32.const 80) (i32.const 8))))
