;; Grows its memory for ever, whether it gets more or not, wherever it is called.
(module
  (memory (export "memory") 1)
  (func $grow (loop $more (drop (memory.grow (i32.const 1))) (br $more)))
  (func $filter (export "filter") (result i32) (call $grow) (i32.const 0))
  (func $score (export "score") (result i64) (call $grow) (i64.const 0)))
