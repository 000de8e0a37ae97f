;; The host functions of a guest and the loop over the nodes, inside the guest's own store.
;;
;; A guest asks for the pod, the node and the node's name several times a node. Answered from Python
;; each question costs microseconds, answered here it costs nanoseconds. Three memories meet:
;;
;;   $guest     the guest's own
;;   $call      what belongs to one call: header, pod, list of nodes, results (layout: layout.py)
;;   $snapshot  the nodes: a table of entries, a hash index over their names, their objects
;;
;; @name stands for the offset of a field of the header, %NAME for a constant; both are put in by
;; driver/__init__.py. Rules of the ABI are cited from scheduler/plugin/host.go of the upstream host.
(module $kwx-driver
  (import "guest" "memory" (memory $guest 0))
  (import "wasi" "random_get" (func $random_get (param $buf i32) (param $len i32) (result i32)))
  (import "host" "supply" (func $supply (param $document i32)))
  (import "host" "deliver" (func $deliver (param $delivery i32) (param $ptr i32) (param $len i32)))
  (import "host" "waiting" (func $waiting (param $ptr i32) (param $len i32) (param $reject i32) (result i32)))
  (import "host" "imports" (table $imports %IMPORTS funcref))
  (import "host" "points" (table $points %POINTS funcref))
  ;; WASI's functions write to the memory that their caller exports by this name.
  (export "memory" (memory $guest))
  (memory $call (export "call") 4)
  (memory $snapshot (export "snapshot") 1)
  (data (memory $call) (i32.const %UNREADABLE) "BUG: out of memory reading message")
  (type $code (func (result i32)))
  (type $packed (func (result i64)))
  (type $nothing (func))
  (type $numbered (func (param i32)))
  (type $sized (func (param i32) (result i32)))

  ;; ---- helpers -------------------------------------------------------------------------------

  ;; Whether [ptr, ptr+len) lies inside the guest's memory.
  (func $readable (param $ptr i32) (param $len i32) (result i32)
    (i64.le_u
      (i64.add (i64.extend_i32_u (local.get $ptr)) (i64.extend_i32_u (local.get $len)))
      (i64.shl (i64.extend_i32_u (memory.size $guest)) (i64.const 16))))

  ;; A trap that says what it is about: an access out of bounds.
  (func $require_readable (param $ptr i32) (param $len i32)
    (if (i32.eqz (call $readable (local.get $ptr) (local.get $len)))
      (then (drop (i32.load8_u $guest offset=0xffffffff (i32.const -1))))))

  ;; Hands bytes of $call to the guest. When they do not fit, nothing is written; the needed length
  ;; is returned either way, so that the guest can ask again with a larger buffer. `len - 1 < limit`
  ;; leaves nothing alone as well: an empty answer touches no buffer, wherever that is.
  (func $give (param $ptr i32) (param $len i32) (param $buf i32) (param $limit i32) (result i32)
    (if (i32.lt_u (i32.sub (local.get $len) (i32.const 1)) (local.get $limit))
      (then (memory.copy $guest $call (local.get $buf) (local.get $ptr) (local.get $len))))
    (local.get $len))

  ;; The same from $snapshot.
  (func $give_node (param $ptr i32) (param $len i32) (param $buf i32) (param $limit i32) (result i32)
    (if (i32.lt_u (i32.sub (local.get $len) (i32.const 1)) (local.get $limit))
      (then (memory.copy $guest $snapshot (local.get $buf) (local.get $ptr) (local.get $len))))
    (local.get $len))

  ;; A document that the host makes when it is first asked for in a call.
  (func $give_document (param $document i32) (param $buf i32) (param $limit i32) (result i32)
    (local $field i32)
    (local.set $field (i32.shl (local.get $document) (i32.const 3)))
    (if (i32.eqz (i32.load $call offset=@documents (local.get $field)))
      (then (call $supply (local.get $document))))
    (call $give
      (i32.load $call offset=@documents (local.get $field))
      (i32.load $call offset=@document_lengths (local.get $field))
      (local.get $buf) (local.get $limit)))

  ;; ---- nodes ---------------------------------------------------------------------------------

  (func $entry (param $node i32) (result i32)
    (i32.add (i32.const %TABLE) (i32.mul (local.get $node) (i32.const %ENTRY))))

  ;; FNV-1a over a name in $snapshot, and over one in $guest. An end is met, never passed: that of a
  ;; name at the end of 4 GiB is 0.
  (func $hash_entry (param $ptr i32) (param $len i32) (result i32)
    (local $hash i32) (local $end i32)
    (local.set $hash (i32.const 0x811c9dc5))
    (local.set $end (i32.add (local.get $ptr) (local.get $len)))
    (block $done (loop $next
      (br_if $done (i32.eq (local.get $ptr) (local.get $end)))
      (local.set $hash (i32.mul (i32.const 0x01000193)
        (i32.xor (local.get $hash) (i32.load8_u $snapshot (local.get $ptr)))))
      (local.set $ptr (i32.add (local.get $ptr) (i32.const 1)))
      (br $next)))
    (local.get $hash))

  (func $hash_name (param $ptr i32) (param $len i32) (result i32)
    (local $hash i32) (local $end i32)
    (local.set $hash (i32.const 0x811c9dc5))
    (local.set $end (i32.add (local.get $ptr) (local.get $len)))
    (block $done (loop $next
      (br_if $done (i32.eq (local.get $ptr) (local.get $end)))
      (local.set $hash (i32.mul (i32.const 0x01000193)
        (i32.xor (local.get $hash) (i32.load8_u $guest (local.get $ptr)))))
      (local.set $ptr (i32.add (local.get $ptr) (i32.const 1)))
      (br $next)))
    (local.get $hash))

  ;; Whether the name in the guest's memory is that of an entry.
  (func $is_named (param $node i32) (param $name i32) (param $len i32) (result i32)
    (local $entry i32) (local $theirs i32) (local $end i32)
    (local.set $entry (call $entry (local.get $node)))
    (if (i32.ne (i32.load $snapshot offset=4 (local.get $entry)) (local.get $len))
      (then (return (i32.const 0))))
    (local.set $theirs (i32.load $snapshot (local.get $entry)))
    (local.set $end (i32.add (local.get $name) (local.get $len)))
    (block $same (loop $next
      (br_if $same (i32.eq (local.get $name) (local.get $end)))
      (if (i32.ne (i32.load8_u $guest (local.get $name)) (i32.load8_u $snapshot (local.get $theirs)))
        (then (return (i32.const 0))))
      (local.set $name (i32.add (local.get $name) (i32.const 1)))
      (local.set $theirs (i32.add (local.get $theirs) (i32.const 1)))
      (br $next)))
    (i32.const 1))

  ;; The node of a name: most often the one in hand, else one of those that are there for this call only, else by the
  ;; index. %NONE where there is none.
  (func $find (param $name i32) (param $len i32) (result i32)
    (local $node i32) (local $slot i32)
    (call $require_readable (local.get $name) (local.get $len))
    (local.set $node (i32.load $call offset=@current (i32.const 0)))
    (if (i32.ne (local.get $node) (i32.const %NONE))
      (then (if (call $is_named (local.get $node) (local.get $name) (local.get $len))
        (then (return (local.get $node))))))
    (local.set $node (i32.load $call offset=@lent (i32.const 0)))
    (block $done (loop $next
      (br_if $done (i32.eq (local.get $node) (i32.load $call offset=@lent_end (i32.const 0))))
      (if (call $is_named (local.get $node) (local.get $name) (local.get $len))
        (then (return (local.get $node))))
      (local.set $node (i32.add (local.get $node) (i32.const 1)))
      (br $next)))
    (if (i32.eqz (i32.load $call offset=@slots (i32.const 0)))
      (then (return (i32.const %NONE))))
    (local.set $slot (call $hash_name (local.get $name) (local.get $len)))
    (loop $probe
      (local.set $slot (i32.and (local.get $slot) (i32.load $call offset=@slot_mask (i32.const 0))))
      (local.set $node (i32.load $snapshot (call $slot_address (local.get $slot))))
      (if (i32.eqz (local.get $node)) (then (return (i32.const %NONE))))
      (local.set $node (i32.sub (local.get $node) (i32.const 1)))
      (if (call $is_named (local.get $node) (local.get $name) (local.get $len))
        (then (return (local.get $node))))
      (local.set $slot (i32.add (local.get $slot) (i32.const 1)))
      (br $probe))
    (unreachable))

  (func $slot_address (param $slot i32) (result i32)
    (i32.add (i32.load $call offset=@slots (i32.const 0)) (i32.shl (local.get $slot) (i32.const 2))))

  ;; Puts the entries [first, end) into the index, but for those that stand for no node: they have neither a name nor
  ;; an object. Its slots hold the number of a node plus one, once.
  (func (export "index") (param $first i32) (param $end i32)
    (local $slot i32) (local $entry i32) (local $found i32)
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $first) (local.get $end)))
      (local.set $entry (call $entry (local.get $first)))
      (local.set $first (i32.add (local.get $first) (i32.const 1)))
      (br_if $next (i32.eqz (i32.or
        (i32.load $snapshot offset=4 (local.get $entry)) (i32.load $snapshot offset=12 (local.get $entry)))))
      (local.set $slot (call $hash_entry
        (i32.load $snapshot (local.get $entry)) (i32.load $snapshot offset=4 (local.get $entry))))
      (block $free (loop $probe
        (local.set $slot (i32.and (local.get $slot) (i32.load $call offset=@slot_mask (i32.const 0))))
        (local.set $found (i32.load $snapshot (call $slot_address (local.get $slot))))
        (br_if $free (i32.eqz (local.get $found)))
        (br_if $free (i32.eq (local.get $found) (local.get $first)))
        (local.set $slot (i32.add (local.get $slot) (i32.const 1)))
        (br $probe)))
      (i32.store $snapshot (call $slot_address (local.get $slot)) (local.get $first))
      (br $next))))

  ;; Notes that a guest wanted the object of a node while no node's object is known.
  (func $note_absent_data
    (if (i32.eqz (i32.or (i32.load $call offset=@live (i32.const 0)) (i32.load $call offset=@lent_end (i32.const 0))))
      (then (i32.store $call offset=@data_absent (i32.const 0) (i32.const 1)))))

  ;; ---- the host functions, named like their imports --------------------------------------------

  ;; A name that is not known is answered with an empty object.
  (func $k8s.io/api/node (param $name i32) (param $len i32) (param $buf i32) (param $limit i32) (result i32)
    (local $node i32) (local $entry i32)
    (local.set $node (call $find (local.get $name) (local.get $len)))
    (if (i32.eq (local.get $node) (i32.const %NONE))
      (then (call $note_absent_data) (return (i32.const 0))))
    (local.set $entry (call $entry (local.get $node)))
    (if (i32.eqz (i32.load $snapshot offset=12 (local.get $entry))) (then (call $note_absent_data)))
    (call $give_node
      (i32.load $snapshot offset=8 (local.get $entry)) (i32.load $snapshot offset=12 (local.get $entry))
      (local.get $buf) (local.get $limit)))

  (func $k8s.io/api/nodeList (param $buf i32) (param $limit i32) (result i32)
    (call $note_absent_data)
    (call $give_document (i32.const %NODE_LIST) (local.get $buf) (local.get $limit)))

  ;; A name that is not known, or known without an object, is answered with the JSON of Go's nil map. So is a node that
  ;; is there for this call only: its entry has no states, while those of all others have two bytes at least.
  (func $k8s.io/scheduler/nodeImageStates
    (param $name i32) (param $len i32) (param $buf i32) (param $limit i32) (result i32)
    (local $node i32) (local $entry i32)
    (call $note_absent_data)
    (local.set $node (call $find (local.get $name) (local.get $len)))
    (if (i32.eq (local.get $node) (i32.const %NONE))
      (then (return (call $give (i32.const %NULL) (i32.const 4) (local.get $buf) (local.get $limit)))))
    (local.set $entry (call $entry (local.get $node)))
    (if (i32.or
          (i32.eqz (i32.load $snapshot offset=12 (local.get $entry)))
          (i32.eqz (i32.load $snapshot offset=20 (local.get $entry))))
      (then (return (call $give (i32.const %NULL) (i32.const 4) (local.get $buf) (local.get $limit)))))
    (call $give_node
      (i32.load $snapshot offset=16 (local.get $entry)) (i32.load $snapshot offset=20 (local.get $entry))
      (local.get $buf) (local.get $limit)))
  (data (memory $call) (i32.const %NULL) "null")

  (func $k8s.io/scheduler/currentPod (param $buf i32) (param $limit i32) (result i32)
    (call $give
      (i32.load $call offset=@pod (i32.const 0)) (i32.load $call offset=@pod_length (i32.const 0))
      (local.get $buf) (local.get $limit)))

  (func $k8s.io/scheduler/targetPod (param $buf i32) (param $limit i32) (result i32)
    (call $give
      (i32.load $call offset=@target (i32.const 0)) (i32.load $call offset=@target_length (i32.const 0))
      (local.get $buf) (local.get $limit)))

  (func $k8s.io/scheduler/get_config (param $buf i32) (param $limit i32) (result i32)
    (call $give
      (i32.load $call offset=@config (i32.const 0)) (i32.load $call offset=@config_length (i32.const 0))
      (local.get $buf) (local.get $limit)))

  (func $k8s.io/scheduler/currentNodeName (param $buf i32) (param $limit i32) (result i32)
    (local $entry i32)
    (if (i32.eq (i32.load $call offset=@current (i32.const 0)) (i32.const %NONE))
      (then (return (i32.const 0))))
    (local.set $entry (call $entry (i32.load $call offset=@current (i32.const 0))))
    (call $give_node
      (i32.load $snapshot (local.get $entry)) (i32.load $snapshot offset=4 (local.get $entry))
      (local.get $buf) (local.get $limit)))

  (func $k8s.io/scheduler/filteredNodeList (param $buf i32) (param $limit i32) (result i32)
    (call $give_document (i32.const %FILTERED_NODES) (local.get $buf) (local.get $limit)))

  (func $k8s.io/scheduler/nodeToStatusMap (param $buf i32) (param $limit i32) (result i32)
    (call $give_document (i32.const %NODE_STATUSES) (local.get $buf) (local.get $limit)))

  (func $k8s.io/scheduler/nodeScoreList (param $buf i32) (param $limit i32) (result i32)
    (call $give_document (i32.const %NODE_SCORES) (local.get $buf) (local.get $limit)))

  (func $take (param $delivery i32) (param $ptr i32) (param $len i32)
    (call $require_readable (local.get $ptr) (local.get $len))
    (call $deliver (local.get $delivery) (local.get $ptr) (local.get $len)))

  (func $k8s.io/scheduler/result.cluster_events (param $ptr i32) (param $len i32)
    (call $take (i32.const %CLUSTER_EVENTS) (local.get $ptr) (local.get $len)))

  (func $k8s.io/scheduler/result.node_names (param $ptr i32) (param $len i32)
    (call $take (i32.const %NODE_NAMES) (local.get $ptr) (local.get $len)))

  (func $k8s.io/scheduler/result.nominated_node_name (param $ptr i32) (param $len i32)
    (call $take (i32.const %NOMINATED_NODE_NAME) (local.get $ptr) (local.get $len)))

  (func $k8s.io/scheduler/result.normalized_score_list (param $ptr i32) (param $len i32)
    (call $take (i32.const %NORMALIZED_SCORES) (local.get $ptr) (local.get $len)))

  ;; The reason is written to the end of the reasons; it stays there only if the status turns out not to be
  ;; a success, or in a call for a list, where it gets the next number.
  (func $k8s.io/scheduler/result.status_reason (param $ptr i32) (param $len i32)
    (local $reason i32)
    (local.set $reason (call $write_reason (local.get $ptr) (local.get $len)))
    (i32.store $call offset=@reason (i32.const 0) (local.get $reason))
    (if (i32.load $call offset=@numbered (i32.const 0)) (then (call $number_reason (local.get $reason)))))

  ;; Writes a reason as a length and its bytes, cut to %REASON_LIMIT, and returns where it is; %NONE where there
  ;; is no room. An unreadable one is no trap.
  (func $write_reason (param $ptr i32) (param $len i32) (result i32)
    (local $at i32)
    (local.set $at (i32.load $call offset=@reasons (i32.const 0)))
    (if (i32.gt_u (i32.add (local.get $at) (i32.const %REASON_ROOM))
                  (i32.load $call offset=@reasons_end (i32.const 0)))
      (then (return (i32.const %NONE))))
    (if (i32.eqz (call $readable (local.get $ptr) (local.get $len)))
      (then
        (i32.store $call (local.get $at) (i32.const 34))
        (memory.copy $call $call
          (i32.add (local.get $at) (i32.const 4)) (i32.const %UNREADABLE) (i32.const 34))
        (return (local.get $at))))
    (if (i32.gt_u (local.get $len) (i32.const %REASON_LIMIT))
      (then (local.set $len (i32.const %REASON_LIMIT))))
    (i32.store $call (local.get $at) (local.get $len))
    (memory.copy $call $guest (i32.add (local.get $at) (i32.const 4)) (local.get $ptr) (local.get $len))
    (local.get $at))

  ;; Keeps a reason for good, and what is written next behind it.
  (func $keep (param $reason i32)
    (i32.store $call offset=@reasons (i32.const 0)
      (i32.and (i32.const -4)
        (i32.add (local.get $reason) (i32.add (i32.load $call (local.get $reason)) (i32.const 7))))))

  ;; Puts a reason of a list at the end of @numbered, if there is room.
  (func $number_reason (param $reason i32)
    (local $count i32)
    (local.set $count (i32.load $call offset=@numbered_count (i32.const 0)))
    (if (i32.ge_u (local.get $count) (i32.load $call offset=@numbered_limit (i32.const 0))) (then (return)))
    (i32.store $call
      (i32.add (i32.load $call offset=@numbered (i32.const 0)) (i32.shl (local.get $count) (i32.const 2)))
      (local.get $reason))
    (i32.store $call offset=@numbered_count (i32.const 0) (i32.add (local.get $count) (i32.const 1)))
    (if (i32.ne (local.get $reason) (i32.const %NONE)) (then (call $keep (local.get $reason)))))

  ;; Keeps the reason that was just given and returns where it is; one that repeats the reason kept
  ;; before it is not kept twice. 0 where none was given, %NONE where there was no room.
  (func $keep_reason (param $previous i32) (result i32)
    (local $reason i32) (local $len i32) (local $i i32)
    (local.set $reason (i32.load $call offset=@reason (i32.const 0)))
    (if (i32.or (i32.eqz (local.get $reason)) (i32.eq (local.get $reason) (i32.const %NONE)))
      (then (return (local.get $reason))))
    (local.set $len (i32.load $call (local.get $reason)))
    (block $differs
      (br_if $differs (i32.eqz (local.get $previous)))
      (br_if $differs (i32.ne (local.get $len) (i32.load $call (local.get $previous))))
      (block $same (loop $next
        (br_if $same (i32.ge_u (local.get $i) (local.get $len)))
        (br_if $differs (i32.ne
          (i32.load8_u $call offset=4 (i32.add (local.get $reason) (local.get $i)))
          (i32.load8_u $call offset=4 (i32.add (local.get $previous) (local.get $i)))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $next)))
      (return (local.get $previous)))
    (call $keep (local.get $reason))
    (local.get $reason))

  ;; ---- logs, events and output: written down here, read by the host after the call ---------------

  ;; Appends a record of the journal: kind, severity, three lengths, then the name of the current node, which
  ;; may have no index any more when the record is read, and two byte strings. One that does not fit is
  ;; counted instead.
  (func $record (param $kind i32) (param $severity i32)
                (param $ptr i32) (param $len i32) (param $more i32) (param $more_len i32)
    (local $length i32) (local $end i64) (local $at i32) (local $name i32) (local $name_len i32)
    (local.set $at (i32.load $call offset=@current (i32.const 0)))
    (if (i32.ne (local.get $at) (i32.const %NONE))
      (then
        (local.set $at (call $entry (local.get $at)))
        (local.set $name (i32.load $snapshot (local.get $at)))
        (local.set $name_len (i32.load $snapshot offset=4 (local.get $at)))))
    (local.set $length (i32.load $call offset=@journal_length (i32.const 0)))
    (local.set $end (i64.add
      (i64.extend_i32_u (i32.add (local.get $length) (i32.add (local.get $name_len) (i32.const 20))))
      (i64.add (i64.extend_i32_u (local.get $len)) (i64.extend_i32_u (local.get $more_len)))))
    (if (i64.gt_u (local.get $end) (i64.load32_u $call offset=@journal_limit (i32.const 0)))
      (then
        (i32.store $call offset=@journal_dropped (i32.const 0)
          (i32.add (i32.const 1) (i32.load $call offset=@journal_dropped (i32.const 0))))
        (return)))
    (local.set $at (i32.add (i32.load $call offset=@journal (i32.const 0)) (local.get $length)))
    (i32.store $call (local.get $at) (local.get $kind))
    (i32.store $call offset=4 (local.get $at) (local.get $severity))
    (i32.store $call offset=8 (local.get $at) (local.get $name_len))
    (i32.store $call offset=12 (local.get $at) (local.get $len))
    (i32.store $call offset=16 (local.get $at) (local.get $more_len))
    (local.set $at (i32.add (local.get $at) (i32.const 20)))
    (memory.copy $call $snapshot (local.get $at) (local.get $name) (local.get $name_len))
    (local.set $at (i32.add (local.get $at) (local.get $name_len)))
    (memory.copy $call $guest (local.get $at) (local.get $ptr) (local.get $len))
    (memory.copy $call $guest
      (i32.add (local.get $at) (local.get $len)) (local.get $more) (local.get $more_len))
    (i32.store $call offset=@journal_length (i32.const 0) (i32.wrap_i64 (local.get $end))))

  (func $k8s.io/klog/severity (result i32)
    (i32.load $call offset=@severity (i32.const 0)))

  ;; A message that cannot be read is dropped, it is no trap.
  (func $k8s.io/klog/logs
    (param $severity i32) (param $ptr i32) (param $len i32) (param $kvs i32) (param $kvs_len i32)
    (if (i32.lt_s (local.get $severity) (i32.load $call offset=@severity (i32.const 0))) (then (return)))
    (if (i32.eqz (call $readable (local.get $ptr) (local.get $len))) (then (return)))
    (if (i32.eqz (call $readable (local.get $kvs) (local.get $kvs_len))) (then (return)))
    (call $record (i32.const %LOG) (local.get $severity)
      (local.get $ptr) (local.get $len) (local.get $kvs) (local.get $kvs_len)))

  (func $k8s.io/klog/log (param $severity i32) (param $ptr i32) (param $len i32)
    (call $k8s.io/klog/logs
      (local.get $severity) (local.get $ptr) (local.get $len) (i32.const 0) (i32.const 0)))

  (func $k8s.io/scheduler/handle.eventrecorder.eventf (param $ptr i32) (param $len i32)
    (call $require_readable (local.get $ptr) (local.get $len))
    (call $record (i32.const %EVENT) (i32.const 0)
      (local.get $ptr) (local.get $len) (i32.const 0) (i32.const 0)))

  ;; The pod that waits on Permit, or a u64 of 0. Its length is not told.
  (func $k8s.io/scheduler/handle.get_waiting_pod
    (param $uid i32) (param $len i32) (param $buf i32) (param $limit i32)
    (call $require_readable (local.get $uid) (local.get $len))
    (if (call $waiting (local.get $uid) (local.get $len) (i32.const 0))
      (then (drop (call $give_document (i32.const %WAITING_POD) (local.get $buf) (local.get $limit))))
      (else (i64.store $guest (local.get $buf) (i64.const 0)))))

  (func $k8s.io/scheduler/handle.reject_waiting_pod
    (param $uid i32) (param $len i32) (param $buf i32) (param $limit i32)
    (call $require_readable (local.get $uid) (local.get $len))
    (i64.store $guest (local.get $buf)
      (i64.extend_i32_u (call $waiting (local.get $uid) (local.get $len) (i32.const 1)))))

  ;; WASI's fd_write for stdout and stderr: keeps the first @output_limit bytes of each call and says
  ;; that all was written. Any other descriptor is errno 8, badf.
  (func $wasi_snapshot_preview1/fd_write
    (param $fd i32) (param $iovs i32) (param $count i32) (param $written i32) (result i32)
    (local $total i32) (local $ptr i32) (local $len i32) (local $at i32) (local $room i32)
    (if (i32.or (i32.eqz (local.get $fd)) (i32.gt_u (local.get $fd) (i32.const 2)))
      (then (return (i32.const 8))))
    (block $done (loop $next
      (br_if $done (i32.eqz (local.get $count)))
      (local.set $ptr (i32.load $guest (local.get $iovs)))
      (local.set $len (i32.load $guest offset=4 (local.get $iovs)))
      (call $require_readable (local.get $ptr) (local.get $len))
      (local.set $total (i32.add (local.get $total) (local.get $len)))
      (local.set $at (i32.load $call offset=@output_length (i32.const 0)))
      (local.set $room (i32.sub (i32.load $call offset=@output_limit (i32.const 0)) (local.get $at)))
      (if (i32.gt_u (local.get $len) (local.get $room)) (then (local.set $len (local.get $room))))
      (memory.copy $call $guest
        (i32.add (i32.load $call offset=@output (i32.const 0)) (local.get $at)) (local.get $ptr) (local.get $len))
      (i32.store $call offset=@output_length (i32.const 0) (i32.add (local.get $at) (local.get $len)))
      (local.set $iovs (i32.add (local.get $iovs) (i32.const 8)))
      (local.set $count (i32.sub (local.get $count) (i32.const 1)))
      (br $next)))
    (i32.store $guest (local.get $written) (local.get $total))
    (i32.const 0))

  ;; WASI's poll_oneoff: says at once that each clock has come to its time, and that each descriptor is
  ;; errno 8, badf. An engine would sleep in it, where no deadline reaches. Offsets are those of the
  ;; records subscription (48 bytes) and event (32 bytes) of WASI preview 1; no record is errno 28, inval.
  (func $wasi_snapshot_preview1/poll_oneoff
    (param $in i32) (param $out i32) (param $count i32) (param $stored i32) (result i32)
    (local $i i32) (local $kind i32)
    (if (i32.eqz (local.get $count)) (then (return (i32.const 28))))
    (loop $next
      (local.set $kind (i32.load8_u $guest offset=8 (local.get $in)))
      (i64.store $guest (local.get $out) (i64.load $guest (local.get $in)))
      (i64.store $guest offset=8 (local.get $out) (i64.const 0))
      (i64.store $guest offset=16 (local.get $out) (i64.const 0))
      (i64.store $guest offset=24 (local.get $out) (i64.const 0))
      (i32.store8 $guest offset=10 (local.get $out) (local.get $kind))
      (if (local.get $kind) (then (i32.store8 $guest offset=8 (local.get $out) (i32.const 8))))
      (local.set $in (i32.add (local.get $in) (i32.const 48)))
      (local.set $out (i32.add (local.get $out) (i32.const 32)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $i) (local.get $count))))
    (i32.store $guest (local.get $stored) (local.get $count))
    (i32.const 0))

  ;; WASI's random_get, asked for in pieces: an engine fills any length at one go, past every deadline.
  (func $wasi_snapshot_preview1/random_get (param $buf i32) (param $len i32) (result i32)
    (local $piece i32) (local $errno i32)
    (call $require_readable (local.get $buf) (local.get $len))
    (block $done (loop $next
      (br_if $done (i32.eqz (local.get $len)))
      (local.set $piece (select (local.get $len) (i32.const %PAGE)
        (i32.lt_u (local.get $len) (i32.const %PAGE))))
      (local.set $errno (call $random_get (local.get $buf) (local.get $piece)))
      (br_if $done (local.get $errno))
      (local.set $buf (i32.add (local.get $buf) (local.get $piece)))
      (local.set $len (i32.sub (local.get $len) (local.get $piece)))
      (br $next)))
    (local.get $errno))

  ;; ---- calls -----------------------------------------------------------------------------------

  ;; Forgets what the guest said and printed in the call before.
  (func $begin
    (i32.store $call offset=@reason (i32.const 0) (i32.const 0))
    (i32.store $call offset=@output_length (i32.const 0) (i32.const 0)))

  ;; Calls a point of the guest by its kind: 0 returns nothing, 1 a code, 2 a packed pair.
  (func $enter (param $point i32) (param $kind i32) (result i64)
    (call $begin)
    (if (i32.eq (local.get $kind) (i32.const 2))
      (then (return (call_indirect $points (type $packed) (local.get $point)))))
    (if (i32.eq (local.get $kind) (i32.const 1))
      (then (return (i64.extend_i32_u (call_indirect $points (type $code) (local.get $point))))))
    (call_indirect $points (type $nothing) (local.get $point))
    (i64.const 0))

  ;; Calls a point once. A reason stays where header.reason says.
  (func (export "once") (param $point i32) (param $kind i32) (result i64)
    (call $enter (local.get $point) (local.get $kind)))

  ;; Whether a code is not among `tolerated` (a bit a code). It ends the call then, and is left in header.refused.
  (func $is_refused (param $code i32) (param $tolerated i32) (result i32)
    (if (i32.lt_u (local.get $code) (i32.const 32))
      (then (if (i32.and (i32.const 1) (i32.shr_u (local.get $tolerated) (local.get $code)))
        (then (return (i32.const 0))))))
    (i32.store $call offset=@refused (i32.const 0) (local.get $code))
    (i32.const 1))

  ;; Calls a point for each of `count` nodes and writes the low half of each result to `codes` (a byte each) and the
  ;; high half to `values` (u32 each), and for each code other than 0, counted by header.failures, the place of the
  ;; reason to `reasons`. Stops behind the first node whose code is not among `tolerated` (a bit a code), which is left
  ;; in header.refused, and when there is no node data at all. Returns the number of nodes that were called.
  (func (export "each") (param $point i32) (param $kind i32) (param $tolerated i32) (param $count i32)
                        (param $nodes i32) (param $codes i32) (param $values i32) (param $reasons i32)
                        (result i32)
    (local $i i32) (local $failures i32) (local $result i64) (local $code i32)
    (local $reason i32) (local $previous i32)
    (block $stop (loop $next
      (br_if $stop (i32.ge_u (local.get $i) (local.get $count)))
      (i32.store $call offset=@current (i32.const 0)
        (i32.load $call (i32.add (local.get $nodes) (i32.shl (local.get $i) (i32.const 2)))))
      (local.set $result (call $enter (local.get $point) (local.get $kind)))
      (local.set $code (i32.wrap_i64 (local.get $result)))
      (i32.store8 $call (i32.add (local.get $codes) (local.get $i)) (local.get $code))
      (i32.store $call (i32.add (local.get $values) (i32.shl (local.get $i) (i32.const 2)))
        (i32.wrap_i64 (i64.shr_u (local.get $result) (i64.const 32))))
      (if (local.get $code)
        (then
          (local.set $reason (call $keep_reason (local.get $previous)))
          (i32.store $call (i32.add (local.get $reasons) (i32.shl (local.get $failures) (i32.const 2)))
            (local.get $reason))
          (local.set $failures (i32.add (local.get $failures) (i32.const 1)))
          (if (i32.and (i32.ne (local.get $reason) (i32.const 0))
                       (i32.ne (local.get $reason) (i32.const %NONE)))
            (then (local.set $previous (local.get $reason))))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $stop (i32.load $call offset=@data_absent (i32.const 0)))
      (br_if $next (i32.eqz (call $is_refused (local.get $code) (local.get $tolerated))))))
    (i32.store $call offset=@failures (i32.const 0) (local.get $failures))
    (i32.store $call offset=@current (i32.const 0) (i32.const %NONE))
    (local.get $i))

  ;; Tells the guest of `count` nodes by their numbers. Each is the current one meanwhile, unless it is gone.
  (func (export "tell") (param $point i32) (param $gone i32) (param $count i32) (param $nodes i32)
    (local $end i32) (local $node i32)
    (local.set $end (i32.add (local.get $nodes) (i32.shl (local.get $count) (i32.const 2))))
    (block $done (loop $next
      (br_if $done (i32.eq (local.get $nodes) (local.get $end)))
      (local.set $node (i32.load $call (local.get $nodes)))
      (i32.store $call offset=@current (i32.const 0)
        (select (i32.const %NONE) (local.get $node) (local.get $gone)))
      (call $begin)
      (call_indirect $points (type $numbered) (local.get $node) (local.get $point))
      (local.set $nodes (i32.add (local.get $nodes) (i32.const 4)))
      (br $next)))
    (i32.store $call offset=@current (i32.const 0) (i32.const %NONE)))

  ;; Whether each of `count` nodes has an object, and so is known to a guest that is told of nodes.
  (func $are_resident (param $count i32) (param $nodes i32) (result i32)
    (local $end i32)
    (local.set $end (i32.add (local.get $nodes) (i32.shl (local.get $count) (i32.const 2))))
    (block $done (loop $next
      (br_if $done (i32.eq (local.get $nodes) (local.get $end)))
      (if (i32.eqz (i32.load $snapshot offset=12 (call $entry (i32.load $call (local.get $nodes)))))
        (then (return (i32.const 0))))
      (local.set $nodes (i32.add (local.get $nodes) (i32.const 4)))
      (br $next)))
    (i32.const 1))

  ;; Calls a point once for all of `count` nodes, whose numbers it finds in a buffer of the guest, and copies what
  ;; it has written over them to `answers`; those of Filter are split. The places of its reasons, not of those that the
  ;; buffer came with, are written to `numbered`. Returns the point's code << 32 | the number of nodes that were answered
  ;; for; %NONE without a call where a node has no object; the buffer's address << 32 | %NO_ROOM where it is not in the
  ;; memory.
  (func (export "all") (param $buffer i32) (param $point i32) (param $splits i32) (param $tolerated i32)
                       (param $count i32) (param $nodes i32) (param $answers i32) (param $codes i32) (param $reasons i32)
                       (param $numbered i32) (result i64)
    (local $code i32) (local $at i32) (local $size i32)
    (if (i32.eqz (call $are_resident (local.get $count) (local.get $nodes))) (then (return (i64.const %NONE))))
    (call $begin)
    (local.set $size (i32.shl (local.get $count) (i32.const 2)))
    (local.set $at (call_indirect $points (type $sized) (local.get $count) (local.get $buffer)))
    (if (i32.eqz (call $readable (local.get $at) (local.get $size)))
      (then (return (i64.or (i64.shl (i64.extend_i32_u (local.get $at)) (i64.const 32)) (i64.const %NO_ROOM)))))
    (call $begin)
    (i32.store $call offset=@numbered (i32.const 0) (local.get $numbered))
    (memory.copy $guest $call (local.get $at) (local.get $nodes) (local.get $size))
    (local.set $code (call_indirect $points (type $sized) (local.get $count) (local.get $point)))
    (memory.copy $call $guest (local.get $answers) (local.get $at) (local.get $size))
    (if (i32.and (local.get $splits) (i32.eqz (local.get $code)))
      (then (local.set $count
        (call $split (local.get $tolerated) (local.get $count)
          (local.get $answers) (local.get $codes) (local.get $reasons)))))
    (i64.or (i64.shl (i64.extend_i32_u (local.get $code)) (i64.const 32)) (i64.extend_i32_u (local.get $count))))

  ;; Splits the answers of Filter for a list, code | number of the reason << 8, into `codes` and `reasons`, as `each`
  ;; writes them. Stops behind the first node whose code is not among `tolerated`. Returns the number of nodes until
  ;; there.
  (func $split (param $tolerated i32) (param $count i32)
               (param $answers i32) (param $codes i32) (param $reasons i32) (result i32)
    (local $i i32) (local $failures i32) (local $code i32) (local $number i32) (local $offset i32)
    (block $stop (loop $next
      (br_if $stop (i32.ge_u (local.get $i) (local.get $count)))
      (local.set $offset (i32.shl (local.get $i) (i32.const 2)))
      (local.set $number (i32.load $call (i32.add (local.get $answers) (local.get $offset))))
      (local.set $code (i32.and (local.get $number) (i32.const 255)))
      (local.set $number (i32.sub (i32.shr_u (local.get $number) (i32.const 8)) (i32.const 1)))
      (i32.store8 $call (i32.add (local.get $codes) (local.get $i)) (local.get $code))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $next (i32.eqz (local.get $code)))
      (i32.store $call (i32.add (local.get $reasons) (i32.shl (local.get $failures) (i32.const 2)))
        (call $reason_of (local.get $number)))
      (local.set $failures (i32.add (local.get $failures) (i32.const 1)))
      (br_if $next (i32.eqz (call $is_refused (local.get $code) (local.get $tolerated))))))
    (i32.store $call offset=@failures (i32.const 0) (local.get $failures))
    (local.get $i))

  ;; Where the reason of a list is, counted from 0; 0 for a number that was not given.
  (func $reason_of (param $number i32) (result i32)
    (if (i32.ge_u (local.get $number) (i32.load $call offset=@numbered_count (i32.const 0)))
      (then (return (i32.const 0))))
    (i32.load $call
      (i32.add (i32.load $call offset=@numbered (i32.const 0)) (i32.shl (local.get $number) (i32.const 2)))))

  ;; The host functions, in the order of abi.IMPORTS.
  (elem (table $imports) (i32.const 0) func %ELEMENTS)
)
