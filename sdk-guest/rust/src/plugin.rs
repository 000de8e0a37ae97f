use crate::answers::{Permit, PostFilter, PreFilter};
use crate::candidates::Candidates;
use crate::cluster_event::ClusterEvent;
use crate::documents::NodeScore;
use crate::pod::Pod;
use crate::residents::Residents;
use crate::status::{Result, Status};

/// A plugin that decides by what it finds out of a pod once in its cycle, and of a node once when it changes.
/// [`export!`](crate::export) makes a module of it. It exports the functions that it names, and no other one.
///
/// The wish is the state of a pod's cycle: what a function changes there, later ones find. The next cycle, which may
/// be that of another pod or a second one of the same, begins with a new wish.
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

    /// After which changes in the cluster a rejected pod is worth another attempt. There is no current pod.
    fn enqueue(&self) -> Vec<ClusterEvent> {
        Vec::new()
    }

    /// Which of the nodes to filter, if there is anything to filter for: `Status::SKIP` lets all nodes pass unseen.
    /// `nodes` are those that the host has announced, none where it announces no nodes.
    fn prefilter(&self, _wish: &mut Self::Wish, _nodes: &Residents<Self::Resident>) -> PreFilter {
        Status::SUCCESS.into()
    }

    /// Counts on the node, in this cycle alone, a pod that is not there.
    fn addpod(&self, _wish: &mut Self::Wish, _pod: &Pod, _node: &Self::Resident) -> Status {
        Status::SUCCESS
    }

    /// Leaves out on the node, in this cycle alone, a pod that is there.
    fn removepod(&self, _wish: &mut Self::Wish, _pod: &Pod, _node: &Self::Resident) -> Status {
        Status::SUCCESS
    }

    /// Looks at all candidates together, before `filter` judges each of them, or `score` where nothing was filtered in
    /// this cycle. What it answers other than `Status::SUCCESS` is said of each candidate, and `filter` is not called.
    ///
    /// It needs no name in [`export!`](crate::export). A host that asks about one node after the other has no candidates
    /// to show: then it is not called at all.
    fn survey(&self, _wish: &mut Self::Wish, _candidates: &Candidates<Self::Resident>) -> Status {
        Status::SUCCESS
    }

    fn filter(&self, _wish: &Self::Wish, _node: &Self::Resident) -> Status {
        Status::SUCCESS
    }

    /// Which node the pod is to come to though none passed Filter:
    /// [`node_statuses`](crate::node_statuses()) has the candidates.
    fn postfilter(&self, _wish: &mut Self::Wish, _nodes: &Residents<Self::Resident>) -> PostFilter {
        Status::unschedulable("").into()
    }

    /// Whether there is anything to score for: `Status::SKIP` counts 0 for each node. Which nodes are left,
    /// [`filtered_nodes`](crate::filtered_nodes()) tells.
    fn prescore(&self, _wish: &mut Self::Wish, _nodes: &Residents<Self::Resident>) -> Status {
        Status::SUCCESS
    }

    /// From 0 to 100, unless `normalizescore` brings it there.
    fn score(&self, _wish: &Self::Wish, _node: &Self::Resident) -> i32 {
        0
    }

    /// Brings the scores of all nodes to 0 to 100.
    fn normalizescore(&self, _wish: &mut Self::Wish, _scores: &mut [NodeScore]) -> Status {
        Status::SUCCESS
    }

    /// Keeps what the pod needs of the node that was chosen.
    fn reserve(&self, _wish: &mut Self::Wish, _node: &Self::Resident) -> Status {
        Status::SUCCESS
    }

    /// The annotations that the pod gets with its bind, asked for after `reserve`: what was chosen on the node, for the
    /// node's agent and for all others that look at the pod.
    fn bindingannotations(&self, _wish: &mut Self::Wish, _node: &Self::Resident) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Gives back what was kept: the pod will not come to the node.
    fn unreserve(&self, _wish: &mut Self::Wish, _node: &Self::Resident, _nodes: &Residents<Self::Resident>) {}

    /// Whether the pod may be bound at once, or waits.
    fn permit(&self, _wish: &mut Self::Wish, _node: &Self::Resident, _nodes: &Residents<Self::Resident>) -> Permit {
        Status::SUCCESS.into()
    }

    fn prebind(&self, _wish: &mut Self::Wish, _node: &Self::Resident) -> Status {
        Status::SUCCESS
    }

    /// Binds the pod: `Status::SKIP` leaves that to others.
    fn bind(&self, _wish: &mut Self::Wish, _node: &Self::Resident) -> Status {
        Status::SKIP
    }

    fn postbind(&self, _wish: &mut Self::Wish, _node: &Self::Resident) {}
}
