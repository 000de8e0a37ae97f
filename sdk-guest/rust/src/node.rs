use crate::host;
use crate::metadata::Metadata;
use crate::protobuf::Message;
use crate::quantity::Quantity;
use crate::status::Result;

/// Most nodes fit; for a larger one the host is asked twice.
const USUAL_SIZE: usize = 16 * 1024;
const LONGEST_NAME: usize = 253;

/// A Node, read lazily. Field numbers are those of `k8s.io/api/core/v1/generated.proto`.
#[derive(Default)]
pub struct Node(Vec<u8>);

/// The node of this name, None where the host knows none.
pub fn node(name: &[u8]) -> Option<Node> {
    // SAFETY: the host keeps to the buffer and its limit.
    let bytes = host::read(USUAL_SIZE, |buffer, limit| unsafe { host::node(name.as_ptr(), name.len(), buffer, limit) });
    if bytes.is_empty() {
        return None;
    }
    Some(Node(bytes))
}

/// The name of the node that the call is about, in every extension point that is about one node.
pub fn current_node_name() -> Vec<u8> {
    // SAFETY: the host keeps to the buffer and its limit.
    host::read(LONGEST_NAME, |buffer, limit| unsafe { host::current_node_name(buffer, limit) })
}

impl Node {
    /// A node from its protobuf.
    pub fn new(bytes: Vec<u8>) -> Node {
        Node(bytes)
    }

    pub fn metadata(&self) -> Result<Metadata<'_>> {
        Ok(Metadata(Message(&self.0).child(1)?))
    }

    /// NodeSpec. Whether the node is unschedulable, for one, is `spec()?.integer(4)`.
    pub fn spec(&self) -> Result<Message<'_>> {
        Message(&self.0).child(2)
    }

    /// NodeStatus.
    pub fn status(&self) -> Result<Message<'_>> {
        Message(&self.0).child(3)
    }

    /// How much of a resource pods may use; None where the node does not have it.
    pub fn allocatable(&self, resource: &str) -> Result<Option<Quantity<'_>>> {
        Quantity::entry(self.status()?, 2, resource)
    }
}
