;; Records Events for ever wherever it is called.
(module
  (import "k8s.io/scheduler" "handle.eventrecorder.eventf" (func $eventf (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "{\22RegardingReference\22:{\22Kind\22:\22Node\22,\22Name\22:\22node-7\22},\22Reason\22:\22Again\22}")
  (func $again (loop $more (call $eventf (i32.const 0) (i32.const 71)) (br $more)))
  (func $filter (export "filter") (result i32) (call $again) (i32.const 0))
  (func $score (export "score") (result i64) (call $again) (i64.const 0)))
