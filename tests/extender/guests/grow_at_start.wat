;; Grows its memory until it gets no more when it is started after MOMENT, a time in nanoseconds; runs into a trap then,
;; and wherever it is called.
(module
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
  (memory (export "memory") 1)
  (func $grow
    (loop $more (br_if $more (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
    unreachable)
  (func $initialize (export "_initialize")
    (drop (call $clock (i32.const 0) (i64.const 0) (i32.const 0)))
    (if (i64.gt_u (i64.load (i32.const 0)) (i64.const MOMENT)) (then (call $grow))))
  (func $filter (export "filter") (result i32) unreachable)
  (func $score (export "score") (result i64) unreachable))
