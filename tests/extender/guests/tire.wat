;; Configuration: a digit. Filter runs into a trap when it is called so many times, and lets all nodes pass until then.
(module
  (import "k8s.io/scheduler" "get_config" (func $get_config (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (global $calls (mut i32) (i32.const 0))
  (func (export "filter") (result i32)
    (drop (call $get_config (i32.const 0) (i32.const 1)))
    (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
    (if (i32.eq (global.get $calls) (i32.sub (i32.load8_u (i32.const 0)) (i32.const 0x30)))
      (then unreachable))
    (i32.const 0)))
