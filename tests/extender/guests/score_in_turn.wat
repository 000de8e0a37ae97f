;; Scores nodes 0, 10, 20 and so on in the order in which they come after PreFilter.
(module
  (memory (export "memory") 1)
  (global $next (mut i64) (i64.const 0))
  (func (export "prefilter") (result i32) (global.set $next (i64.const 0)) (i32.const 0))
  (func (export "score") (result i64)
    (local $score i64)
    (local.set $score (global.get $next))
    (global.set $next (i64.add (local.get $score) (i64.const 10)))
    (i64.shl (local.get $score) (i64.const 32))))
