;; Grows its table for ever, whether it gets more or not, wherever it is called.
(module
  (memory (export "memory") 1)
  (table $table 1 funcref)
  (func $grow (loop $more (drop (table.grow $table (ref.null func) (i32.const 1024))) (br $more)))
  (func $filter (export "filter") (result i32) (call $grow) (i32.const 0))
  (func $score (export "score") (result i64) (call $grow) (i64.const 0)))
