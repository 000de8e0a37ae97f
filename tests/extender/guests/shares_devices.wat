;; Gives each pod one of the two devices of its node, by the annotation `example.com/device`, and finds there which ones
;; other pods have. Nodes are told apart by the last character of their names.
(module
  (import "k8s.io/scheduler" "currentNodeName" (func $node_name (param i32 i32) (result i32)))
  (import "k8s.io/scheduler" "result.status_reason" (func $reason (param i32 i32)))
  (memory (export "memory") 8)
  (data (i32.const 0) "no device is free")
  (data (i32.const 32) "example.com/device\000\00")
  (data (i32.const 64) "device\12\01") ;; the end of the key and the head of the value, in protobuf
  (global $numbers i32 (i32.const 0x400)) ;; a u32 for each last character of a name: the number of its node
  (global $pods i32 (i32.const 0x1000)) ;; two u32 for each pod: its node and 1, or 0; the character of its device, or 0
  (global $end (mut i32) (i32.const 0x1000)) ;; where the last of them ends
  (global $records i32 (i32.const 0x31000))

  (func $pod (param $number i32) (result i32)
    (local $at i32)
    (local.set $at (i32.add (global.get $pods) (i32.shl (local.get $number) (i32.const 3))))
    (if (i32.ge_u (local.get $at) (global.get $end))
      (then (global.set $end (i32.add (local.get $at) (i32.const 8)))))
    (local.get $at))

  ;; Where the number of the current node is.
  (func $place (result i32)
    (i32.add (global.get $numbers)
      (i32.shl (i32.load8_u offset=0x1ff (call $node_name (i32.const 0x200) (i32.const 0x200))) (i32.const 2))))

  (func (export "nodechanged") (param $number i32) (i32.store (call $place) (local.get $number)))
  (func (export "noderemoved") (param i32))
  (func (export "podbuffer") (param i32) (result i32) (global.get $records))

  ;; The device of a pod's object, or 0.
  (func $device (param $at i32) (param $length i32) (result i32)
    (local $end i32)
    (local.set $end (i32.add (local.get $at) (local.get $length)))
    (loop $next
      (if (i64.eq (i64.load (local.get $at)) (i64.load (i32.const 64)))
        (then (return (i32.load8_u offset=8 (local.get $at)))))
      (br_if $next (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 1))) (local.get $end))))
    (i32.const 0))

  (func (export "podschanged") (param $left i32)
    (local $at i32) (local $pod i32) (local $length i32)
    (local.set $at (global.get $records))
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $left)))
        (local.set $pod (call $pod (i32.load (local.get $at))))
        (local.set $length (i32.load offset=12 (local.get $at)))
        (if (i32.load offset=8 (local.get $at))
          (then
            (i32.store (local.get $pod) (i32.add (i32.load offset=4 (local.get $at)) (i32.const 1)))
            (if (local.get $length)
              (then
                (i32.store offset=4 (local.get $pod)
                  (call $device (i32.add (local.get $at) (i32.const 16)) (local.get $length))))))
          (else (i64.store (local.get $pod) (i64.const 0))))
        (local.set $at
          (i32.and (i32.add (i32.add (local.get $at) (i32.const 23)) (local.get $length)) (i32.const -8)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br $next))))

  ;; Whether a pod on a node has a device.
  (func $is_taken (param $node i32) (param $device i32) (result i32)
    (local $pod i32)
    (local.set $pod (global.get $pods))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $pod) (global.get $end)))
        (if (i32.and
              (i32.eq (i32.load (local.get $pod)) (i32.add (local.get $node) (i32.const 1)))
              (i32.eq (i32.load offset=4 (local.get $pod)) (local.get $device)))
          (then (return (i32.const 1))))
        (local.set $pod (i32.add (local.get $pod) (i32.const 8)))
        (br $next)))
    (i32.const 0))

  ;; The first device of the current node that no pod has; else the character behind the last.
  (func $free (result i32)
    (local $node i32) (local $device i32)
    (local.set $node (i32.load (call $place)))
    (local.set $device (i32.const 0x30))
    (loop $next
      (if (i32.eqz (call $is_taken (local.get $node) (local.get $device)))
        (then (return (local.get $device))))
      (br_if $next (i32.lt_u (local.tee $device (i32.add (local.get $device) (i32.const 1))) (i32.const 0x32))))
    (local.get $device))

  (func $answer (param $device i32) (result i32)
    (if (i32.lt_u (local.get $device) (i32.const 0x32)) (then (return (i32.const 0))))
    (call $reason (i32.const 0) (i32.const 17))
    (i32.const 2))

  (func (export "filter") (result i32) (call $answer (call $free)))
  (func (export "score") (result i64) (i64.const 0))
  (func (export "reserve") (result i32)
    (i32.store8 (i32.const 51) (call $free))
    (call $answer (i32.load8_u (i32.const 51))))
  (func (export "bindingannotations") (result i64)
    (i64.or (i64.shl (i64.const 32) (i64.const 32)) (i64.const 21)))
  (func (export "unreserve")))
