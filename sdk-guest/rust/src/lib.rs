//! A small library for scheduler plugins in Rust. README.md shows how a plugin is written with it.

mod answers;
mod calls;
mod cluster_event;
pub mod config;
mod documents;
mod event;
mod export;
pub mod host;
mod json;
pub mod klog;
mod label;
mod memory;
mod metadata;
mod node;
mod plugin;
mod pod;
pub mod protobuf;
mod quantity;
mod reasons;
mod residents;
mod status;
mod texts;

pub use answers::{Permit, PostFilter, PreFilter};
pub use calls::Guest;
pub use cluster_event::{ClusterEvent, EventResource};
pub use documents::{filtered_nodes, node_statuses, NodeScore};
pub use event::{Event, Reference};
pub use label::Label;
pub use metadata::Metadata;
pub use node::{current_node_name, node, Node};
pub use plugin::Plugin;
pub use pod::{current_pod, reject_waiting_pod, Container, Pod};
pub use quantity::Quantity;
pub use residents::Residents;
pub use status::{Code, Error, Result, Status};
