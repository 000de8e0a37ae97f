use crate::host;
use crate::metadata::Metadata;
use crate::protobuf::Message;
use crate::quantity::Quantity;
use crate::requests::Requests;
use crate::status::Result;

/// Most pods fit; for a larger one the host is asked twice.
const USUAL_SIZE: usize = 16 * 1024;

/// A Pod, read lazily. Field numbers are those of `k8s.io/api/core/v1/generated.proto`.
pub struct Pod(Vec<u8>);

/// The pod that is being scheduled.
pub fn current_pod() -> Pod {
    // SAFETY: the host keeps to the buffer and its limit.
    Pod(host::read(USUAL_SIZE, |buffer, limit| unsafe { host::current_pod(buffer, limit) }))
}

/// The pod that AddPod or RemovePod is about.
pub(crate) fn target_pod() -> Pod {
    // SAFETY: the host keeps to the buffer and its limit.
    Pod(host::read(USUAL_SIZE, |buffer, limit| unsafe { host::target_pod(buffer, limit) }))
}

/// Ends a pod's wait on Permit with a rejection. Returns whether the pod waited.
pub fn reject_waiting_pod(uid: &[u8]) -> bool {
    let mut answer = [0; 8];
    // SAFETY: the host keeps to the bytes and to the buffer and its limit.
    unsafe { host::reject_waiting_pod(uid.as_ptr(), uid.len(), answer.as_mut_ptr(), answer.len()) };
    u64::from_le_bytes(answer) == 1
}

impl Pod {
    /// A pod from its protobuf.
    pub fn new(bytes: Vec<u8>) -> Pod {
        Pod(bytes)
    }

    pub fn metadata(&self) -> Result<Metadata<'_>> {
        Ok(Metadata(Message(&self.0).child(1)?))
    }

    /// PodSpec. Its priority, for one, is `spec()?.integer(25)`.
    pub fn spec(&self) -> Result<Message<'_>> {
        Message(&self.0).child(2)
    }

    /// PodStatus.
    pub fn status(&self) -> Result<Message<'_>> {
        Message(&self.0).child(3)
    }

    /// What it asks for, as kube-scheduler counts it.
    pub fn requests(&self) -> Result<Requests> {
        Requests::of(self)
    }

    /// The containers, without those that only run before them.
    pub fn containers(&self) -> Result<impl Iterator<Item = Result<Container<'_>>>> {
        Ok(self.spec()?.repeated(2).map(|container| container.map(|bytes| Container(Message(bytes)))))
    }
}

/// A container of a pod.
#[derive(Clone, Copy)]
pub struct Container<'a>(pub Message<'a>);

impl<'a> Container<'a> {
    pub fn name(self) -> Result<&'a [u8]> {
        Ok(self.0.bytes(1)?.unwrap_or_default())
    }

    /// How much of a resource it asks for; None where it does not say.
    pub fn request(self, resource: &str) -> Result<Option<Quantity<'a>>> {
        Quantity::entry(self.0.child(8)?, 2, resource)
    }

    /// How much of a resource it may use at most; None where it does not say.
    pub fn limit(self, resource: &str) -> Result<Option<Quantity<'a>>> {
        Quantity::entry(self.0.child(8)?, 1, resource)
    }
}
