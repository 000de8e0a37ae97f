//! A small library for scheduler plugins in Rust. README.md shows how a plugin is written with it.

pub mod config;
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

pub use label::Label;
pub use metadata::Metadata;
pub use node::{current_node_name, node, Node};
pub use plugin::{Guest, Plugin};
pub use pod::{current_pod, Container, Pod};
pub use quantity::Quantity;
pub use status::{Code, Error, Result, Status};
