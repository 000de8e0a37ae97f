;; Calls itself for ever wherever it is called.
(module
  (memory (export "memory") 1)
  (func $deeper (param $depth i32) (result i32)
    (i32.add (local.get $depth) (call $deeper (i32.add (local.get $depth) (i32.const 1)))))
  (func $filter (export "filter") (result i32) (call $deeper (i32.const 0)))
  (func $score (export "score") (result i64) (i64.extend_i32_u (call $deeper (i32.const 0)))))
