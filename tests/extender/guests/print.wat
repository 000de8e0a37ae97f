;; Prints for ever wherever it is called.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "again\n")
  (data (i32.const 64) "\00\00\00\00\06\00\00\00")
  (func $again
    (loop $more
      (drop (call $write (i32.const 1) (i32.const 64) (i32.const 1) (i32.const 80)))
      (br $more)))
  (func $filter (export "filter") (result i32) (call $again) (i32.const 0))
  (func $score (export "score") (result i64) (call $again) (i64.const 0)))
