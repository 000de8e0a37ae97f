;; Grows its memory until it gets no more, then runs into a trap, wherever it is called.
(module
  (memory (export "memory") 1)
  (func $grow
    (loop $more (br_if $more (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
    unreachable)
  (func $filter (export "filter") (result i32) (call $grow) (i32.const 0))
  (func $score (export "score") (result i64) (call $grow) (i64.const 0)))
