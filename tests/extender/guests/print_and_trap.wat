;; Prints two lines, then runs into a trap in a function that has a name.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "panic: no quota\ngoroutine 1\n")
  (data (i32.const 64) "\00\00\00\00\1c\00\00\00")
  (func $give_up unreachable)
  (func (export "filter") (result i32)
    (drop (call $write (i32.const 2) (i32.const 64) (i32.const 1) (i32.const 80)))
    (call $give_up)
    (i32.const 0)))
