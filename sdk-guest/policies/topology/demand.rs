use crate::place::Place;
use crate::Node;
use guest::{groups, Group, GroupKey, Label, MemberState, PendingPods, Pod, ResidentPod, Residents, Resources, Result};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Kinds of other members that are told apart. Those of more kinds count as the current pod.
const MAX_OTHERS: usize = 7;

/// What is kept of a pod without a node.
pub struct Waiting {
    group: Option<GroupKey>,
    requests: Resources,
}

impl ResidentPod for Waiting {
    fn new(pod: &Pod) -> Result<Waiting> {
        let group = GroupKey::of(pod)?;
        let requests = if group.is_some() { pod.requests()?.resources } else { Resources::default() };
        Ok(Waiting { group, requests })
    }
}

/// Members that ask for the same.
#[derive(Clone, Debug)]
pub struct Kind {
    pub requests: Resources,
    pub count: usize,
}

/// How many pods a pod's group still brings, and where the others are.
pub struct Demand {
    pub group: Option<GroupKey>,
    /// The members that ask for the same as the current pod, and that pod. A pod of no group is a group of its own.
    pub own: Kind,
    /// The other members without a node.
    pub others: Vec<Kind>,
    /// Without how many of them the group is of no use.
    pub least: usize,
    /// Where those are that have a node.
    pub placed: Vec<Place>,
}

impl Demand {
    /// That of the pod alone.
    pub fn of(pod: &Pod) -> Result<Demand> {
        let own = Kind { requests: pod.requests()?.resources, count: 1 };
        Ok(Demand { group: GroupKey::of(pod)?, own, others: Vec::new(), least: 1, placed: Vec::new() })
    }

    /// Finds out about the other members. Returns whether all is known: a host may not have told of the group yet.
    pub fn look(&mut self, pending: &PendingPods<Waiting>, nodes: &Residents<Node>) -> bool {
        let key = match &self.group {
            Some(key) => key.clone(),
            None => return true,
        };
        groups(|all| match all.get(&key) {
            Some(group) => {
                self.count(group, &key, pending, nodes);
                true
            }
            None => false,
        })
    }

    /// How many members have no node.
    pub fn total(&self) -> usize {
        self.kinds().map(|kind| kind.count).sum()
    }

    /// The members without a node, the first kind that of the current pod.
    pub fn kinds(&self) -> impl Iterator<Item = &Kind> + Clone {
        std::iter::once(&self.own).chain(&self.others)
    }

    /// The domain of a level that has the most of those with a node; of several the first by name.
    pub fn pinned(&self, level: usize) -> Option<&Label> {
        let mut counts = BTreeMap::new();
        for domain in self.placed.iter().filter_map(|place| place.domain(level)) {
            *counts.entry(domain).or_insert(0usize) += 1;
        }
        counts.into_iter().min_by_key(|(domain, count)| (Reverse(*count), domain.text())).map(|(domain, _)| domain)
    }

    fn count(&mut self, group: &Group, key: &GroupKey, pending: &PendingPods<Waiting>, nodes: &Residents<Node>) {
        let placed = group.members().filter(|member| member.state != MemberState::Pending);
        self.placed = placed.filter_map(|member| Some(nodes.get(member.node?)?.node.clone())).collect();
        let waiting = group.count(MemberState::Pending);
        let missing = group.minimum.unwrap_or(0).saturating_sub(group.members().count() - waiting);
        self.least = missing.max(1);
        let total = self.least.max(waiting);
        self.own.count = 0;
        for pod in pending.iter().filter(|pod| pod.group.as_ref() == Some(key)) {
            let is_full = self.others.len() == MAX_OTHERS;
            let other = self.others.iter_mut().find(|kind| kind.requests == pod.requests);
            match other {
                _ if self.own.requests == pod.requests => self.own.count += 1,
                Some(kind) => kind.count += 1,
                None if is_full => self.own.count += 1,
                None => self.others.push(Kind { requests: pod.requests.clone(), count: 1 }),
            }
        }
        let others: usize = self.others.iter().map(|kind| kind.count).sum();
        self.own.count = self.own.count.max(total.saturating_sub(others)).max(1);
    }
}
