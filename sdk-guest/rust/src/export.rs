/// Exports a plugin's functions, and keeps its nodes:
///
/// - `export!(Type: prefilter, filter)`, with any functions of [`Plugin`](crate::Plugin) behind or in place of `filter`;
/// - `export!(Type: prescore, score)`, with `normalizescore` and `enqueue` behind or not;
/// - `export!(Type: prefilter, filter; pods)`, with any functions, for a plugin whose `Resident` is a
///   [`NodeInfo`](crate::NodeInfo): it is told which pods are on nodes;
/// - `export!(Type: prefilter, filter; pending)` or `export!(Type: prefilter, filter; pods, pending)`, with any functions,
///   for a plugin that is [`KeepsPending`](crate::KeepsPending): it is told which pods have no node yet;
/// - `; groups` behind any of these, or behind `pods` and `pending` as in `; pods, groups`: it is told of groups of pods,
///   which [`groups`](crate::groups()) finds.
///
/// The first one begins the pod's cycle, so it is there even if the plugin leaves it as it is. Natively, where only
/// tests run, nothing is exported: there the plugin is [`Exported`](crate::hosttest::Exported) to the host of tests.
#[macro_export]
macro_rules! export {
    ($plugin:ty: $($name:ident),+ $(; $($told:ident),+)?) => {
        $crate::export!(@module $plugin: $($name),+ $(; $($told),+)?);
        #[cfg(not(target_arch = "wasm32"))]
        const _: fn() -> $crate::Result<$plugin> = <$plugin as $crate::Plugin>::new; // It is used, though no test makes one.
        #[cfg(not(target_arch = "wasm32"))]
        impl $crate::hosttest::Exported for $plugin {
            const POINTS: &'static [&'static str] = &[$(stringify!($name)),+];
            $crate::export!(@told $($($told),+)?);
        }
    };
    (@module $plugin:ty: prescore, score $(, $name:ident)*) => {
        $crate::export!(@guest $plugin);
        $crate::export!(@nodes);
        $crate::export!(@function prescore() -> i32 { begin_prescore });
        $crate::export!(@point score);
        $($crate::export!(@behind_score $name);)*
    };
    (@module $plugin:ty: prefilter $(, $name:ident)*) => {
        $crate::export!(@guest $plugin);
        $crate::export!(@nodes);
        $crate::export!(@point prefilter);
        $($crate::export!(@point $name);)*
    };
    (@module $plugin:ty: prefilter $(, $name:ident)*; pods) => {
        $crate::export!(@guest $plugin);
        $crate::export!(@function nodechanged(number: u32) { node_changed_with_pods });
        $crate::export!(@function noderemoved(number: u32) { node_removed_with_pods });
        $crate::export!(@function podbuffer(length: usize) -> *mut u64 { pod_buffer });
        $crate::export!(@function podschanged(count: usize) { pods_changed });
        $crate::export!(@function prefilter() -> i32 { prefilter_with_pods });
        $($crate::export!(@point $name);)*
    };
    (@module $plugin:ty: prefilter $(, $name:ident)*; pods, pending) => {
        $crate::export!(@module $plugin: prefilter $(, $name)*; pods);
        $crate::export!(@function pendingpodschanged(count: usize) { pending_pods_changed });
    };
    (@module $plugin:ty: prefilter $(, $name:ident)*; pending) => {
        $crate::export!(@module $plugin: prefilter $(, $name)*);
        $crate::export!(@function podbuffer(length: usize) -> *mut u64 { pod_buffer });
        $crate::export!(@function pendingpodschanged(count: usize) { pending_pods_changed });
    };
    (@module $plugin:ty: prefilter $(, $name:ident)*; groups) => {
        $crate::export!(@module $plugin: prefilter $(, $name)*);
        $crate::export!(@function podbuffer(length: usize) -> *mut u64 { pod_buffer });
        $crate::export!(@groups);
    };
    (@module $plugin:ty: prescore, score $(, $name:ident)*; groups) => {
        $crate::export!(@module $plugin: prescore, score $(, $name)*);
        $crate::export!(@function podbuffer(length: usize) -> *mut u64 { pod_buffer });
        $crate::export!(@groups);
    };
    (@module $plugin:ty: prefilter $(, $name:ident)*; pods, groups) => {
        $crate::export!(@module $plugin: prefilter $(, $name)*; pods);
        $crate::export!(@groups);
    };
    (@module $plugin:ty: prefilter $(, $name:ident)*; pending, groups) => {
        $crate::export!(@module $plugin: prefilter $(, $name)*; pending);
        $crate::export!(@groups);
    };
    (@module $plugin:ty: prefilter $(, $name:ident)*; pods, pending, groups) => {
        $crate::export!(@module $plugin: prefilter $(, $name)*; pods, pending);
        $crate::export!(@groups);
    };
    (@told) => {};
    (@told pods $(, $more:ident)*) => {
        fn node_changed(guest: &mut $crate::Guest<Self>, number: u32) {
            guest.node_changed_with_pods(number);
        }

        fn node_removed(guest: &mut $crate::Guest<Self>, number: u32) {
            guest.node_removed_with_pods(number);
        }

        fn begin(guest: &mut $crate::Guest<Self>) -> i32 {
            guest.prefilter_with_pods()
        }

        fn pods_changed(guest: &mut $crate::Guest<Self>, count: usize) {
            guest.pods_changed(count);
        }

        $crate::export!(@told $($more),*);
    };
    (@told pending $(, $more:ident)*) => {
        fn pending_pods_changed(guest: &mut $crate::Guest<Self>, count: usize) {
            guest.pending_pods_changed(count);
        }

        $crate::export!(@told $($more),*);
    };
    (@told groups) => {
        const HAS_GROUPS: bool = true;
    };
    (@groups) => {
        $crate::export!(@function groupschanged(count: usize) { groups_changed });
        $crate::export!(@function memberschanged(count: usize) { members_changed });
    };
    (@guest $plugin:ty) => {
        #[cfg(target_arch = "wasm32")]
        static mut GUEST: $crate::Guest<$plugin> = $crate::Guest::new();
        $crate::export!(@function nodebuffer(count: usize) -> *mut u32 { node_buffer });
    };
    (@nodes) => {
        $crate::export!(@function nodechanged(number: u32) { node_changed });
        $crate::export!(@function noderemoved(number: u32) { node_removed });
    };
    (@behind_score enqueue) => { $crate::export!(@point enqueue); };
    (@behind_score normalizescore) => { $crate::export!(@point normalizescore); };
    (@point filter) => {
        $crate::export!(@function filter() -> i32 { filter });
        $crate::export!(@function filternodes(count: usize) -> i32 { filter_nodes });
    };
    (@point score) => {
        $crate::export!(@function score() -> i64 { score });
        $crate::export!(@function scorenodes(count: usize) -> i32 { score_nodes });
    };
    (@point enqueue) => { $crate::export!(@function enqueue() { enqueue }); };
    (@point prefilter) => { $crate::export!(@function prefilter() -> i32 { prefilter }); };
    (@point addpod) => { $crate::export!(@function addpod() -> i32 { addpod }); };
    (@point removepod) => { $crate::export!(@function removepod() -> i32 { removepod }); };
    (@point postfilter) => { $crate::export!(@function postfilter() -> i64 { postfilter }); };
    (@point prescore) => { $crate::export!(@function prescore() -> i32 { prescore }); };
    (@point normalizescore) => { $crate::export!(@function normalizescore() -> i32 { normalizescore }); };
    (@point reserve) => { $crate::export!(@function reserve() -> i32 { reserve }); };
    (@point bindingannotations) => {
        $crate::export!(@function bindingannotations() -> i64 { bindingannotations });
    };
    (@point unreserve) => { $crate::export!(@function unreserve() { unreserve }); };
    (@point permit) => { $crate::export!(@function permit() -> i64 { permit }); };
    (@point prebind) => { $crate::export!(@function prebind() -> i32 { prebind }); };
    (@point bind) => { $crate::export!(@function bind() -> i32 { bind }); };
    (@point postbind) => { $crate::export!(@function postbind() { postbind }); };
    (@function $name:ident($($parameter:ident: $type:ty)?) $(-> $result:ty)? { $method:ident }) => {
        #[cfg(target_arch = "wasm32")]
        #[no_mangle]
        extern "C" fn $name($($parameter: $type)?) $(-> $result)? {
            // SAFETY: a guest has one thread, and the host makes one call at a time.
            unsafe { (*std::ptr::addr_of_mut!(GUEST)).$method($($parameter)?) }
        }
    };
}
