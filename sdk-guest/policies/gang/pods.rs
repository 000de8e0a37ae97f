use crate::constraints::{Constraints, Traits};
use guest::{GroupKey, Label, NodeInfo, Pod, ResidentPod, Resources, Result};
use std::cell::RefCell;
use std::rc::Rc;

/// A node with what is kept of it and of its pods.
pub type Node = NodeInfo<PlacedPod, Kept>;

/// What is kept of a node beside its pods.
#[derive(Default)]
pub struct Kept {
    pub traits: Traits,
    of_groups: OfGroups,
}

/// What is kept of a pod that is on a node, or expected there.
#[derive(PartialEq)]
pub struct PlacedPod {
    pub uid: Label,
    pub is_in_group: bool,
    /// Whether it is to end: it does not count for its group any more.
    pub is_leaving: bool,
}

/// What is kept of a pod that has no node yet.
#[derive(Default)]
pub struct WaitingPod {
    pub uid: Label,
    pub requests: Resources,
    pub constraints: Rc<Constraints>,
    /// Whether kube-scheduler holds room for it, since pods were evicted for it: `status.nominatedNodeName`.
    pub is_nominated: bool,
    /// Whether the scheduler may try it.
    pub can_come: bool,
}

/// How much less there would be on a node without the pods of groups, and of which generation of it that is.
#[derive(Default)]
struct OfGroups(RefCell<Option<(u64, Rc<Resources>)>>);

impl ResidentPod for PlacedPod {
    fn new(pod: &Pod) -> Result<PlacedPod> {
        Ok(PlacedPod { uid: uid(pod)?, is_in_group: GroupKey::of(pod)?.is_some(), is_leaving: is_leaving(pod)? })
    }

    fn is_same(&self, before: &PlacedPod) -> bool {
        self == before
    }
}

impl ResidentPod for WaitingPod {
    /// Of pods of no group nothing is kept but that they count for none.
    fn new(pod: &Pod) -> Result<WaitingPod> {
        match GroupKey::of(pod)? {
            Some(_) => WaitingPod::read(pod),
            None => Ok(WaitingPod::default()),
        }
    }
}

impl WaitingPod {
    pub fn read(pod: &Pod) -> Result<WaitingPod> {
        let is_gated = pod.spec()?.bytes(38)?.is_some();
        Ok(WaitingPod {
            uid: uid(pod)?,
            requests: pod.requests()?.resources,
            constraints: Rc::new(Constraints::of(pod)?),
            is_nominated: pod.status()?.bytes(11)?.map_or(false, |name| !name.is_empty()),
            can_come: !is_gated && !is_leaving(pod)?,
        })
    }
}

impl Kept {
    pub fn new(traits: Traits) -> Kept {
        Kept { traits, of_groups: OfGroups::default() }
    }
}

/// Whether a pod is expected on a node for which room is kept, of which kube-scheduler need not know.
pub fn keeps_room(node: &Node) -> bool {
    node.pods().any(|pod| pod.is_tentative && pod.pod.is_in_group)
}

/// Whether a pod of a group is on a node, or expected there.
pub fn has_groups(node: &Node) -> bool {
    node.pods().any(|pod| pod.pod.is_in_group)
}

fn uid(pod: &Pod) -> Result<Label> {
    Ok(Label::new(Some(pod.metadata()?.uid()?)))
}

/// `metadata.deletionTimestamp`.
fn is_leaving(pod: &Pod) -> Result<bool> {
    Ok(pod.metadata()?.0.bytes(9)?.is_some())
}

/// What the pods of groups take of a node, as less than nothing.
pub fn without_groups(node: &Node) -> Rc<Resources> {
    let mut kept = node.node.of_groups.0.borrow_mut();
    match &*kept {
        Some((generation, resources)) if *generation == node.generation() => resources.clone(),
        _ => {
            let mut resources = Resources::default();
            let grouped = node.pods().filter(|pod| pod.pod.is_in_group);
            grouped.for_each(|pod| resources.add(-1, &pod.requests.resources));
            kept.insert((node.generation(), Rc::new(resources))).1.clone()
        }
    }
}
