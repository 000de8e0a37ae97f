;; Logs the minimum of a group when it is told, and the state of a member.
(module
  (import "k8s.io/klog" "log" (func $log (param i32 i32 i32)))
  (memory (export "memory") 4)
  (data (i32.const 0) "group of 0")
  (data (i32.const 16) "member is 0")
  (func (export "podbuffer") (param i32) (result i32) (i32.const 0x10000))
  (func (export "groupschanged") (param $left i32)
    (local $at i32)
    (local.set $at (i32.const 0x10000))
    (loop $next
      (i32.store8 (i32.const 9) (i32.add (i32.const 48) (i32.load offset=12 (local.get $at))))
      (call $log (i32.const 0) (i32.const 0) (i32.const 10))
      (local.set $at
        (i32.add
          (i32.add (local.get $at) (i32.const 40))
          (i32.and
            (i32.add
              (i32.add (i32.load offset=32 (local.get $at)) (i32.load offset=36 (local.get $at)))
              (i32.const 7))
            (i32.const -8))))
      (br_if $next (local.tee $left (i32.sub (local.get $left) (i32.const 1))))))
  (func (export "memberschanged") (param $left i32)
    (local $at i32)
    (local.set $at (i32.const 0x10000))
    (loop $next
      (i32.store8 (i32.const 26) (i32.add (i32.const 48) (i32.load offset=8 (local.get $at))))
      (call $log (i32.const 0) (i32.const 16) (i32.const 11))
      (local.set $at (i32.add (local.get $at) (i32.const 16)))
      (br_if $next (local.tee $left (i32.sub (local.get $left) (i32.const 1))))))
  (func (export "filter") (result i32) (i32.const 0)))
