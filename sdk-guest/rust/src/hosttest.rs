//! A host for the tests of a plugin, which run natively. A test puts nodes, pods and groups there, has cycles of pods
//! run from PreFilter to PostBind, and looks at what the plugin said. The plugin is asked and told by the same functions
//! as in a module, those that [`export!`](crate::export) names:
//!
//! ```ignore
//! let host = Host::<Tier>::new();
//! host.put_node(node("node-1").label("example.com/tier", "spot"));
//! let cycle = host.schedule(pod("web-1"));
//! assert_eq!(cycle.verdicts()["node-1"], Status::SUCCESS);
//! ```
//!
//! There is one host at a time in a thread, and each test has a thread of its own.

mod binding;
mod cluster;
mod cycle;
mod objects;
mod table;
#[cfg(test)]
mod tests;
pub(crate) mod world;

pub use binding::Binding;
pub use cluster::Host;
pub use cycle::Cycle;
pub use objects::{node, pod, Group, NodeObject, PodObject};

use crate::calls::Guest;
use crate::plugin::Plugin;

/// A plugin that [`export!`](crate::export) makes a module of, which implements this.
pub trait Exported: Plugin {
    /// The functions that are named.
    const POINTS: &'static [&'static str];
    /// Whether it is told of groups of pods.
    const HAS_GROUPS: bool = false;

    fn node_changed(guest: &mut Guest<Self>, number: u32) {
        guest.node_changed(number);
    }

    fn node_removed(guest: &mut Guest<Self>, number: u32) {
        guest.node_removed(number);
    }

    fn begin(guest: &mut Guest<Self>) -> i32 {
        guest.prefilter()
    }

    fn pods_changed(_: &mut Guest<Self>, _: usize) {}

    fn pending_pods_changed(_: &mut Guest<Self>, _: usize) {}
}
