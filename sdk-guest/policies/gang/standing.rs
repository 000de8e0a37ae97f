use crate::pods::{Node, WaitingPod};
use crate::room::Demand;
use guest::{Group, MemberState, PendingPods, Residents, Resources};
use std::cmp::Reverse;

/// Where a group stands whose minimum is known.
pub struct Standing<'a> {
    pub group: &'a Group,
    /// How many of its pods have to have a node.
    pub minimum: usize,
    bound: usize,
    binding: usize,
    planned: usize,
    waiting: Vec<&'a WaitingPod>,
}

/// The first of two groups is the one with the lesser rank: one that is partly bound, which cannot go back, then by
/// priority, then by age, then by name.
type Rank<'a> = (bool, Reverse<i32>, u64, &'a [u8], &'a [u8]);

impl<'a> Standing<'a> {
    /// None where nobody says how many pods the group needs.
    pub fn of(group: &'a Group, nodes: &Residents<Node>, pending: &'a PendingPods<WaitingPod>) -> Option<Standing<'a>> {
        let minimum = group.minimum?;
        let mut standing = Standing { group, minimum, bound: 0, binding: 0, planned: 0, waiting: Vec::new() };
        for member in group.members() {
            let node = member.node.and_then(|number| nodes.get(number));
            match (member.state, node) {
                (MemberState::Pending, _) => standing.waiting.extend(pending.get(member).filter(|pod| pod.can_come)),
                (_, None) => {} // Its node is gone, and it will be, too.
                (MemberState::Tentative, _) => standing.planned += 1,
                (MemberState::Binding, _) => standing.binding += 1,
                (MemberState::Bound, Some(node)) => {
                    let is_leaving = node.pod_of(member).map_or(false, |pod| pod.pod.is_leaving);
                    standing.bound += usize::from(!is_leaving);
                }
            }
        }
        if standing.has_bound_pods() {
            // Others have ended. Those that come in the place of some need not wait for what will not come again.
            standing.minimum = minimum.min(standing.there());
        }
        Some(standing)
    }

    pub fn name(&self) -> String {
        name(self.group)
    }

    /// How many of its pods there are that may come, or have.
    pub fn there(&self) -> usize {
        self.placed() + self.waiting.len()
    }

    /// How many have a node, or are expected on one.
    pub fn placed(&self) -> usize {
        self.held() + self.planned
    }

    /// How many are bound, or are being bound.
    pub fn held(&self) -> usize {
        self.bound + self.binding
    }

    /// Whether pods of it are bound. They cannot go back, so the others have nothing to wait for but room.
    pub fn has_bound_pods(&self) -> bool {
        self.bound > 0
    }

    /// How many have yet to be expected on nodes.
    pub fn rest(&self) -> usize {
        self.minimum.saturating_sub(self.placed())
    }

    /// Whether it takes room, and needs more.
    pub fn is_under_way(&self) -> bool {
        self.placed() > 0 && self.rest() > 0 && self.is_complete()
    }

    /// Whether it could begin.
    pub fn is_to_begin(&self) -> bool {
        self.placed() == 0 && self.is_complete()
    }

    pub fn is_complete(&self) -> bool {
        self.there() >= self.minimum
    }

    pub fn is_before(&self, other: &Standing) -> bool {
        self.rank() < other.rank()
    }

    /// What its rest asks for: the largest of the pods that wait, without those for which kube-scheduler holds room.
    pub fn demand(&self) -> Vec<Demand> {
        let nominated = self.waiting.iter().filter(|pod| pod.is_nominated).count();
        largest(self.waiting.iter().copied(), self.rest().saturating_sub(nominated), None)
    }

    /// The same, one of them being this pod, also beyond the minimum.
    pub fn demand_with(&self, own: &WaitingPod) -> Vec<Demand> {
        let others = self.waiting.iter().copied().filter(|pod| pod.uid != own.uid);
        let nominated = others.clone().filter(|pod| pod.is_nominated).count();
        let count = self.rest().saturating_sub(1 + nominated);
        largest(others, count, Some(own).filter(|pod| !pod.is_nominated))
    }

    fn rank(&self) -> Rank<'_> {
        let is_partly_bound = self.has_bound_pods() && self.rest() > 0;
        let group = self.group;
        let created = group.created.unwrap_or(u64::MAX);
        (!is_partly_bound, Reverse(group.priority), created, &group.namespace, &group.name)
    }
}

pub fn name(group: &Group) -> String {
    format!("{}/{}", String::from_utf8_lossy(&group.namespace), String::from_utf8_lossy(&group.name))
}

/// The `count` largest of some pods beside one that is `sure`, the same ones together.
fn largest<'a>(pods: impl Iterator<Item = &'a WaitingPod>, count: usize, sure: Option<&'a WaitingPod>) -> Vec<Demand> {
    let mut chosen: Vec<&WaitingPod> = pods.filter(|pod| !pod.is_nominated).collect();
    chosen.sort_by_key(|pod| Reverse(size(&pod.requests)));
    chosen.truncate(count);
    chosen.extend(sure);
    chosen.sort_by_key(|pod| Reverse(size(&pod.requests)));
    let mut demands: Vec<Demand> = Vec::new();
    for pod in chosen {
        match demands.last_mut() {
            Some(last) if last.requests == pod.requests && last.constraints == pod.constraints => last.count += 1,
            _ => {
                let (requests, constraints) = (pod.requests.clone(), pod.constraints.clone());
                demands.push(Demand { requests, constraints, count: 1 });
            }
        }
    }
    demands
}

/// What makes a pod hard to place: devices first.
fn size(requests: &Resources) -> (i64, i64, i64) {
    let scalars = requests.scalars().fold(0, |sum: i64, (_, amount)| sum.saturating_add(amount));
    (scalars, requests.milli_cpu, requests.memory)
}
