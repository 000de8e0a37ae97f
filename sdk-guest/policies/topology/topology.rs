//! Keeps the pods of a group together: in one domain of a topology such as a rack, or in as few as possible.
//!
//! PreFilter: what the pod and its group ask for. Then all candidates together: which domain is for the group. Filter: that
//! domain alone, if it is required. Score: how near a node is to where the group goes next, and how much room it has.
//! README.md has the rule.

mod config;
mod demand;
mod domains;
mod place;
mod plan;
mod request;

use config::Config;
use demand::{Demand, Waiting};
use guest::{
    klog, Candidates, ClusterEvent, EventResource, KeepsPending, Label, NodeInfo, PendingPods, Plugin, Pod, PreFilter,
    Residents, Result, Status,
};
use place::Place;
use plan::Plan;
use request::Request;
use std::cell::Cell;

type Node = NodeInfo<(), Place>;

struct Topology {
    config: Config,
    pending: PendingPods<Waiting>,
    /// Whether the log has said that nodes are judged one by one.
    has_warned: Cell<bool>,
}

struct Wish {
    request: std::result::Result<Request, String>,
    demand: Demand,
    /// None until all candidates were seen together.
    plan: Option<Plan>,
    /// Whether pods are thought away to see what preemption would do.
    is_preemption: bool,
}

impl Plugin for Topology {
    type Wish = Wish;
    type Resident = Node;

    fn new() -> Result<Topology> {
        Ok(Topology { config: Config::read()?, pending: PendingPods::default(), has_warned: Cell::new(false) })
    }

    fn wish(&self, pod: &Pod) -> Result<Wish> {
        let demand = Demand::of(pod)?;
        let request = Request::of(pod, demand.group.is_some(), &self.config)?;
        Ok(Wish { request, demand, plan: None, is_preemption: false })
    }

    fn resident(&self, name: &[u8]) -> Result<Node> {
        let node = guest::node(name).unwrap_or_default();
        NodeInfo::new(&node, Place::of(&node, &self.config)?)
    }

    fn enqueue(&self) -> Vec<ClusterEvent> {
        let node = ClusterEvent::ADD | ClusterEvent::UPDATE_NODE_ALLOCATABLE | ClusterEvent::UPDATE_NODE_LABEL;
        vec![
            ClusterEvent::new(EventResource::Pod, ClusterEvent::ADD | ClusterEvent::DELETE),
            ClusterEvent::new(EventResource::Node, node),
        ]
    }

    fn prefilter(&self, wish: &mut Wish, nodes: &Residents<Node>) -> PreFilter {
        let status = match &wish.request {
            Err(reason) => Status::unresolvable(reason.clone()),
            Ok(request) if request.is_nothing() => Status::SKIP,
            Ok(request) if !wish.demand.look(&self.pending, nodes) && request.required.is_some() => {
                Status::unschedulable("the group of the pod is not known yet")
            }
            Ok(_) => Status::SUCCESS,
        };
        status.into()
    }

    fn addpod(&self, _: &mut Wish, _: &Pod, _: &Node) -> Status {
        Status::SUCCESS
    }

    fn removepod(&self, wish: &mut Wish, _: &Pod, _: &Node) -> Status {
        wish.is_preemption = true;
        wish.plan = None;
        Status::SUCCESS
    }

    fn survey(&self, wish: &mut Wish, candidates: &Candidates<Node>) -> Status {
        let request = match &wish.request {
            Ok(request) if !request.is_nothing() && !wish.is_preemption => request,
            _ => return Status::SUCCESS,
        };
        match Plan::of(request, &wish.demand, candidates) {
            Ok(plan) => wish.plan = Some(plan),
            Err(most) => return Status::unschedulable(self.no_room(request, &wish.demand, most)),
        }
        Status::SUCCESS
    }

    fn filter(&self, wish: &Wish, node: &Node) -> Status {
        let level = match &wish.request {
            Ok(Request { required: Some(level), .. }) => *level,
            _ => return Status::SUCCESS,
        };
        let reasons = self.config.reasons(level);
        let domain = match node.node.domain(level) {
            Some(domain) => domain,
            None => return Status::unresolvable(reasons.no_label),
        };
        match &wish.plan {
            Some(plan) if plan.allows(domain) => Status::SUCCESS,
            Some(plan) if plan.is_pinned => Status::unresolvable(reasons.elsewhere),
            Some(_) => Status::unschedulable(reasons.not_chosen),
            None => self.filter_alone(wish, level, domain),
        }
    }

    fn score(&self, wish: &Wish, node: &Node) -> i32 {
        let plan = match &wish.plan {
            Some(plan) => plan,
            None => return 0,
        };
        let room = node.room_for(&wish.demand.own.requests);
        plan.score(&node.node, room, self.config.node_policy) as i32
    }
}

impl Topology {
    /// What is said of a node without having seen the others: it is where the group is, if the group is anywhere.
    fn filter_alone(&self, wish: &Wish, level: usize, domain: &Label) -> Status {
        if !wish.is_preemption && !self.has_warned.replace(true) {
            klog::warning(format_args!(
                "the host asks about nodes one by one: whether a group fits a domain as a whole is not looked at"
            ));
        }
        match wish.demand.pinned(level) {
            Some(pinned) if pinned != domain => Status::unresolvable(self.config.reasons(level).elsewhere),
            _ => Status::SUCCESS,
        }
    }

    fn no_room(&self, request: &Request, demand: &Demand, most: usize) -> String {
        let no_room = request.required.map_or("", |level| self.config.reasons(level).no_room);
        match &demand.group {
            Some(_) => format!("{} the {} pods that the group needs; the most is {}", no_room, demand.least, most),
            None => format!("{} the pod", no_room),
        }
    }
}

impl KeepsPending for Topology {
    type Pending = Waiting;

    fn pending(&mut self) -> &mut PendingPods<Waiting> {
        &mut self.pending
    }
}

guest::export!(Topology: prefilter, enqueue, addpod, removepod, filter, score; pods, pending, groups);
