use crate::node::current_node_name;
use crate::pod::{current_pod, Pod};
use crate::reasons::Reasons;
use crate::residents::Residents;
use crate::status::{Code, Result, Status};

/// A plugin that decides by what it finds out of a pod once in its cycle, and of a node once when it changes.
/// [`export!`](crate::export) makes a module of it.
pub trait Plugin: Sized {
    /// What is to be known of the pod.
    type Wish;
    /// What is to be known of a node. It is kept in memory for each node that the host announces.
    type Resident;

    /// Reads the configuration. It is called once, before anything else.
    fn new() -> Result<Self>;

    fn wish(&self, pod: &Pod) -> Result<Self::Wish>;

    /// What is to be known of the node of that name: ask [`node`](crate::node()) for more than the name. There may be
    /// no current pod.
    fn resident(&self, name: &[u8]) -> Result<Self::Resident>;

    /// Whether there is anything to filter for: `Status::SKIP` lets the pod's nodes pass unseen.
    fn prefilter(&self, _wish: &Self::Wish) -> Status {
        Status::SUCCESS
    }

    fn filter(&self, _wish: &Self::Wish, _node: &Self::Resident) -> Status {
        Status::SUCCESS
    }

    /// Whether there is anything to score for: `Status::SKIP` counts 0 for each node.
    fn prescore(&self, _wish: &Self::Wish) -> Status {
        Status::SUCCESS
    }

    /// From 0 to 100.
    fn score(&self, _wish: &Self::Wish, _node: &Self::Resident) -> i32 {
        0
    }
}

/// Exports a plugin's functions, and keeps its nodes:
///
/// - `export!(Type: prefilter, filter)`, with `prescore` and `score` behind or in place of `filter`;
/// - `export!(Type: prescore, score)`.
///
/// The first one begins the pod's cycle, so it is there even if the plugin leaves it as it is. Natively, where only
/// tests run and there is no host, nothing is exported.
#[macro_export]
macro_rules! export {
    ($plugin:ty: prescore, score) => {
        $crate::export!(@guest $plugin);
        $crate::export!(@function prescore() -> i32 { begin_prescore });
        $crate::export!(@each score);
    };
    ($plugin:ty: prefilter $(, $name:ident)*) => {
        $crate::export!(@guest $plugin);
        $crate::export!(@each prefilter);
        $($crate::export!(@each $name);)*
    };
    (@guest $plugin:ty) => {
        #[cfg(target_arch = "wasm32")]
        static mut GUEST: $crate::Guest<$plugin> = $crate::Guest::new();
        #[cfg(not(target_arch = "wasm32"))]
        const _: fn() -> $crate::Result<$plugin> = <$plugin as $crate::Plugin>::new;
        $crate::export!(@function nodechanged(number: u32) { node_changed });
        $crate::export!(@function noderemoved(number: u32) { node_removed });
        $crate::export!(@function nodebuffer(count: usize) -> *mut u32 { node_buffer });
    };
    (@each prefilter) => { $crate::export!(@function prefilter() -> i32 { prefilter }); };
    (@each filter) => {
        $crate::export!(@function filter() -> i32 { filter });
        $crate::export!(@function filternodes(count: usize) -> i32 { filter_nodes });
    };
    (@each prescore) => { $crate::export!(@function prescore() -> i32 { prescore }); };
    (@each score) => {
        $crate::export!(@function score() -> i64 { score });
        $crate::export!(@function scorenodes(count: usize) -> i32 { score_nodes });
    };
    (@function $name:ident($($parameter:ident: $type:ty)?) $(-> $result:ty)? { $method:ident }) => {
        #[cfg(target_arch = "wasm32")]
        #[no_mangle]
        extern "C" fn $name($($parameter: $type)?) $(-> $result)? {
            // SAFETY: a guest has one thread, and the host makes one call at a time.
            unsafe { (*std::ptr::addr_of_mut!(GUEST)).$method($($parameter)?) }
        }
    };
}

/// A plugin with what it has found out so far: what the functions of a module work on.
pub struct Guest<P: Plugin> {
    plugin: Option<P>,
    wish: Option<P::Wish>,
    residents: Residents<P::Resident>,
    /// Where the host writes the numbers of nodes and finds the answers.
    buffer: Vec<u32>,
}

impl<P: Plugin> Guest<P> {
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Guest<P> {
        Guest { plugin: None, wish: None, residents: Residents::new(), buffer: Vec::new() }
    }

    pub fn prefilter(&mut self) -> i32 {
        self.wish = None;
        self.of_pod(P::prefilter)
    }

    /// PreScore of a plugin without PreFilter.
    pub fn begin_prescore(&mut self) -> i32 {
        self.wish = None;
        self.prescore()
    }

    pub fn prescore(&mut self) -> i32 {
        self.of_pod(P::prescore)
    }

    pub fn filter(&mut self) -> i32 {
        Status::from(self.of_node(P::filter)).send()
    }

    pub fn score(&mut self) -> i64 {
        match self.of_node(P::score) {
            Ok(score) => i64::from(score) << 32,
            Err(error) => i64::from(Status::from(error).send()),
        }
    }

    pub fn node_changed(&mut self, number: u32) {
        let name = current_node_name();
        // A node that cannot be read now is read again when it is judged: then the error can be told.
        let resident = plugin(&mut self.plugin).and_then(|plugin| plugin.resident(&name)).ok();
        self.residents.set(number, &name, resident);
    }

    pub fn node_removed(&mut self, number: u32) {
        self.residents.remove(number);
    }

    pub fn node_buffer(&mut self, count: usize) -> *mut u32 {
        self.buffer.resize(count, 0);
        self.buffer.as_mut_ptr()
    }

    pub fn filter_nodes(&mut self, count: usize) -> i32 {
        let mut reasons = Reasons::default();
        self.of_nodes(count, |plugin, wish, node| {
            let status = plugin.filter(wish, node);
            let reason = reasons.number(&status.reason, || {
                status.send();
            });
            status.code as u32 | reason << 8
        })
    }

    pub fn score_nodes(&mut self, count: usize) -> i32 {
        self.of_nodes(count, |plugin, wish, node| plugin.score(wish, node) as u32)
    }

    fn of_pod(&mut self, judge: impl Fn(&P, &P::Wish) -> Status) -> i32 {
        let status =
            plugin(&mut self.plugin).and_then(|plugin| wish(plugin, &mut self.wish).map(|wish| judge(plugin, wish)));
        Status::from(status).send()
    }

    /// What `judge` says of the current node. One that was not announced is read for this call alone: the host may
    /// not tell when it changes.
    fn of_node<T>(&mut self, judge: impl Fn(&P, &P::Wish, &P::Resident) -> T) -> Result<T> {
        let plugin = plugin(&mut self.plugin)?;
        let wish = wish(plugin, &mut self.wish)?;
        let name = current_node_name();
        Ok(match self.residents.named(&name) {
            Some(node) => judge(plugin, wish, node),
            None => judge(plugin, wish, &plugin.resident(&name)?),
        })
    }

    /// Writes over each number in the buffer what `judge` says of that node.
    fn of_nodes(&mut self, count: usize, judge: impl FnMut(&P, &P::Wish, &P::Resident) -> u32) -> i32 {
        match self.try_nodes(count, judge) {
            Ok(()) => Code::Success as i32,
            Err(error) => Status::from(error).send(),
        }
    }

    fn try_nodes(&mut self, count: usize, mut judge: impl FnMut(&P, &P::Wish, &P::Resident) -> u32) -> Result<()> {
        let plugin = plugin(&mut self.plugin)?;
        let wish = wish(plugin, &mut self.wish)?;
        let numbers = self.buffer.get_mut(..count).ok_or("a list is longer than the buffer for it")?;
        for number in numbers {
            *number = match self.residents.get(*number) {
                Some(node) => judge(plugin, wish, node),
                None => {
                    let name = self.residents.name(*number).ok_or("a number in a list is that of no node")?;
                    let node = plugin.resident(name)?;
                    judge(plugin, wish, &node)
                }
            };
        }
        Ok(())
    }
}

fn plugin<P: Plugin>(plugin: &mut Option<P>) -> Result<&P> {
    match plugin {
        Some(plugin) => Ok(plugin),
        None => Ok(plugin.insert(P::new()?)),
    }
}

fn wish<'a, P: Plugin>(plugin: &P, wish: &'a mut Option<P::Wish>) -> Result<&'a P::Wish> {
    match wish {
        Some(wish) => Ok(wish),
        None => Ok(wish.insert(plugin.wish(&current_pod())?)),
    }
}
