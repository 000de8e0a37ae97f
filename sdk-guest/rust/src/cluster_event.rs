use crate::host;

/// A change in the cluster after which a rejected pod is worth another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterEvent {
    pub resource: EventResource,
    /// A bit an action, as in `guest/api/clusterevent.go` of kube-scheduler-wasm-extension.
    pub actions: u32,
}

/// What changes, by its number in the ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventResource {
    Pod = 0,
    Node = 1,
    PersistentVolume = 2,
    PersistentVolumeClaim = 3,
    PodSchedulingContext = 4,
    ResourceClaim = 5,
    StorageClass = 6,
    CsiNode = 7,
    CsiDriver = 8,
    CsiStorageCapacity = 9,
    Any = 10,
}

impl ClusterEvent {
    pub const ADD: u32 = 1;
    pub const DELETE: u32 = 1 << 1;
    pub const UPDATE_NODE_ALLOCATABLE: u32 = 1 << 2;
    pub const UPDATE_NODE_LABEL: u32 = 1 << 3;
    pub const UPDATE_NODE_TAINT: u32 = 1 << 4;
    pub const UPDATE_NODE_CONDITION: u32 = 1 << 5;

    pub fn new(resource: EventResource, actions: u32) -> ClusterEvent {
        ClusterEvent { resource, actions }
    }
}

/// Hands the events to the host.
pub(crate) fn send(events: &[ClusterEvent]) {
    let pairs = encoded(events);
    // SAFETY: the host reads that many bytes.
    unsafe { host::result_cluster_events(pairs.as_ptr(), pairs.len()) };
}

/// Pairs of little-endian u32.
fn encoded(events: &[ClusterEvent]) -> Vec<u8> {
    let mut pairs = Vec::new();
    for event in events {
        pairs.extend_from_slice(&(event.resource as u32).to_le_bytes());
        pairs.extend_from_slice(&event.actions.to_le_bytes());
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::{encoded, ClusterEvent, EventResource};

    #[test]
    fn events_are_pairs_of_numbers() {
        let events = [
            ClusterEvent::new(EventResource::Node, ClusterEvent::ADD | ClusterEvent::UPDATE_NODE_LABEL),
            ClusterEvent::new(EventResource::Any, 0x0102_0304),
        ];
        assert_eq!(encoded(&events), [1, 0, 0, 0, 9, 0, 0, 0, 10, 0, 0, 0, 4, 3, 2, 1]);
    }
}
