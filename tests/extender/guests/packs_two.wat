;; Takes two pods on a node, of those that the host tells it, and prefers the node that has one already.
(module
  (import "k8s.io/scheduler" "result.status_reason" (func $reason (param i32 i32)))
  (memory (export "memory") 8)
  (data (i32.const 0) "2 pods are there")
  (global $places i32 (i32.const 0x1000)) ;; a u32 for each pod: its node and 1, or 0
  (global $counts i32 (i32.const 0x11000)) ;; a u32 for each node: its pods
  (global $nodes i32 (i32.const 0x21000))
  (global $records i32 (i32.const 0x31000))

  (func $place (param $pod i32) (result i32)
    (i32.add (global.get $places) (i32.shl (local.get $pod) (i32.const 2))))
  (func $count (param $node i32) (result i32)
    (i32.add (global.get $counts) (i32.shl (local.get $node) (i32.const 2))))
  (func $add (param $node i32) (param $by i32)
    (i32.store (call $count (local.get $node))
      (i32.add (i32.load (call $count (local.get $node))) (local.get $by))))

  (func (export "nodechanged") (param i32))
  (func (export "noderemoved") (param i32))
  (func (export "nodebuffer") (param i32) (result i32) (global.get $nodes))
  (func (export "podbuffer") (param i32) (result i32) (global.get $records))

  (func (export "podschanged") (param $left i32)
    (local $at i32) (local $place i32)
    (local.set $at (global.get $records))
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $left)))
        (local.set $place (call $place (i32.load (local.get $at))))
        (if (i32.load (local.get $place))
          (then (call $add (i32.sub (i32.load (local.get $place)) (i32.const 1)) (i32.const -1))))
        (i32.store (local.get $place) (i32.const 0))
        (if (i32.load offset=8 (local.get $at))
          (then
            (i32.store (local.get $place) (i32.add (i32.load offset=4 (local.get $at)) (i32.const 1)))
            (call $add (i32.load offset=4 (local.get $at)) (i32.const 1))))
        (local.set $at
          (i32.and
            (i32.add (i32.add (local.get $at) (i32.const 23)) (i32.load offset=12 (local.get $at)))
            (i32.const -8)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br $next))))

  (func (export "filter") (result i32) (i32.const 0))
  (func (export "filternodes") (param $left i32) (result i32)
    (local $at i32)
    (local.set $at (global.get $nodes))
    (call $reason (i32.const 0) (i32.const 16))
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $left)))
        (i32.store (local.get $at)
          (select (i32.const 0x102) (i32.const 0)
            (i32.ge_u (i32.load (call $count (i32.load (local.get $at)))) (i32.const 2))))
        (local.set $at (i32.add (local.get $at) (i32.const 4)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br $next)))
    (i32.const 0))

  (func (export "score") (result i64) (i64.const 0))
  (func (export "scorenodes") (param $left i32) (result i32)
    (local $at i32)
    (local.set $at (global.get $nodes))
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $left)))
        (i32.store (local.get $at)
          (i32.mul (i32.load (call $count (i32.load (local.get $at)))) (i32.const 50)))
        (local.set $at (i32.add (local.get $at) (i32.const 4)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br $next)))
    (i32.const 0)))
