//! All pods of a group, or none: the pods of a group get nodes once there is room for as many as the group needs, and are
//! bound once as many have nodes.
//!
//! PreFilter: are enough of the pods there, and which groups go before? Filter: is there room beside those? Score: full
//! nodes first. Permit: waits for the others, and lets go of the room if the rest cannot come. README.md has the rule, and what it guarantees.

mod config;
mod constraints;
mod order;
mod pods;
mod room;
mod standing;

use config::Config;
use constraints::Traits;
use guest::{
    Candidates, ClusterEvent, EventResource, Group, GroupKey, Groups, KeepsPending, Label, MemberState, Node as Object,
    NodeInfo, PendingPods, Permit, Plugin, Pod, PreFilter, Residents, Resources, Result, Status,
};
use order::{ahead, Ahead};
use pods::{has_groups, keeps_room, Kept, Node, WaitingPod};
use room::{Kind, Room};
use standing::{name, Standing};

struct Gang {
    config: Config,
    pending: PendingPods<WaitingPod>,
}

struct Wish {
    pod: WaitingPod,
    /// None for a pod that nobody has to wait for: it is of no group, or of one that kube-scheduler sees to.
    group: Option<GroupKey>,
    /// Whether kube-scheduler sees to its group. It may ask with pods thought away, and does not say so.
    is_native: bool,
    /// What is to be told of room: the group, how many of its pods have room, and how many need it.
    needs: Option<Needs>,
    /// How many pods a preemption has removed.
    victims: usize,
}

/// What has to fit before the pod may have a node.
struct Needs {
    name: String,
    minimum: usize,
    /// How many have room.
    placed: usize,
    demand: Vec<room::Demand>,
    ahead: Vec<Ahead>,
}

impl Plugin for Gang {
    type Wish = Wish;
    type Resident = Node;

    fn new() -> Result<Gang> {
        Ok(Gang { config: Config::read()?, pending: PendingPods::default() })
    }

    fn wish(&self, pod: &Pod) -> Result<Wish> {
        let key = GroupKey::of(pod)?;
        Ok(Wish {
            pod: WaitingPod::read(pod)?,
            is_native: key.as_ref().map_or(false, GroupKey::is_native),
            group: key.filter(|key| !key.is_native()),
            needs: None,
            victims: 0,
        })
    }

    fn resident(&self, name: &[u8]) -> Result<Node> {
        let object: Object = guest::node(name).unwrap_or_default();
        NodeInfo::new(&object, Kept::new(Traits::of(&object)?))
    }

    fn enqueue(&self) -> Vec<ClusterEvent> {
        let node = ClusterEvent::ADD | ClusterEvent::UPDATE_NODE_ALLOCATABLE;
        vec![
            ClusterEvent::new(EventResource::Pod, ClusterEvent::ADD | ClusterEvent::DELETE),
            ClusterEvent::new(EventResource::Node, node),
        ]
    }

    fn prefilter(&self, wish: &mut Wish, nodes: &Residents<Node>) -> PreFilter {
        let key = match &wish.group {
            Some(key) => key,
            None => return Status::SUCCESS.into(),
        };
        let needs = guest::groups(|groups| self.needs(key, wish, groups, nodes, guest::now()));
        match needs {
            Ok(needs) => {
                wish.needs = Some(needs);
                Status::SUCCESS.into()
            }
            Err(status) => status.into(),
        }
    }

    fn addpod(&self, wish: &mut Wish, _: &Pod, _: &Node) -> Status {
        wish.victims = wish.victims.saturating_sub(1);
        Status::SUCCESS
    }

    fn removepod(&self, wish: &mut Wish, _: &Pod, _: &Node) -> Status {
        wish.victims += 1;
        Status::SUCCESS
    }

    /// Where pods would be evicted, kube-scheduler asks pod by pod: it is not known what there will be room for.
    fn survey(&self, wish: &mut Wish, candidates: &Candidates<Node>) -> Status {
        match &wish.needs {
            // At the bind, and where the pod is nominated, kube-scheduler does not say which nodes the others may have.
            Some(needs) if wish.victims == 0 && candidates.is_one() => {
                needs.survey(Kind::Any, || candidates.residents().numbered())
            }
            Some(needs) if wish.victims == 0 => needs.survey(Kind::Passed, || candidates.iter()),
            _ => Status::SUCCESS,
        }
    }

    /// kube-scheduler need not know of the pods that are expected on a node, nor yet of those that others have bound.
    fn filter(&self, wish: &Wish, node: &Node) -> Status {
        if wish.victims > 0 || node.room_for(&wish.pod.requests) > 0 {
            return Status::SUCCESS;
        }
        if keeps_room(node) {
            return Status::unschedulable("room is kept for pods of groups");
        }
        if wish.group.is_some() || (!wish.is_native && has_groups(node)) {
            return Status::unschedulable("no room beside the pods that the extender knows of");
        }
        Status::SUCCESS
    }

    /// Full nodes first: what is left in one piece is room for other groups. Pods of no group may go anywhere.
    fn score(&self, wish: &Wish, node: &Node) -> i32 {
        match &wish.group {
            Some(_) => room::fullness(node, &wish.pod.requests),
            None => 0,
        }
    }

    fn permit(&self, wish: &mut Wish, node: &Node, nodes: &Residents<Node>) -> Permit {
        match &wish.group {
            Some(key) => guest::groups(|groups| match groups.get(key) {
                Some(group) => self.permit_member(group, groups, node, nodes),
                None => Status::unschedulable(UNKNOWN).into(),
            }),
            None => Status::SUCCESS.into(),
        }
    }

    /// Who does not come is missed: the others give back their room at once, unless all may go on by now.
    fn unreserve(&self, wish: &mut Wish, _: &Node, nodes: &Residents<Node>) {
        if let Some(key) = &wish.group {
            for uid in guest::groups(|groups| self.waiting_in_vain(key, groups, nodes)) {
                guest::reject_waiting_pod(&uid.text());
            }
        }
    }
}

impl KeepsPending for Gang {
    type Pending = WaitingPod;

    fn pending(&mut self) -> &mut PendingPods<WaitingPod> {
        &mut self.pending
    }
}

const UNKNOWN: &str = "the group of the pod is not known yet";

impl Gang {
    /// What has to fit before a pod of a group may have a node, or why it may have none.
    fn needs(
        &self,
        key: &GroupKey,
        wish: &Wish,
        groups: &Groups,
        nodes: &Residents<Node>,
        now: u64,
    ) -> std::result::Result<Needs, Status> {
        let group = groups.get(key).ok_or_else(|| Status::unresolvable(UNKNOWN))?;
        let own = Standing::of(group, nodes, &self.pending).ok_or_else(|| {
            Status::unresolvable(format!("nobody says how many pods the group {} needs", name(group)))
        })?;
        if !own.is_complete() {
            let (there, minimum) = (own.there(), own.minimum);
            let said = format!("{} of {} pods of the group {} are there", there, minimum, own.name());
            return Err(Status::unresolvable(said));
        }
        Ok(Needs {
            name: own.name(),
            minimum: own.minimum,
            placed: own.placed(),
            demand: own.demand_with(&wish.pod),
            ahead: ahead(&own, &self.others(group, groups, nodes), now, self.config.patience, nodes),
        })
    }

    /// Where the other groups stand that need room.
    fn others<'a>(&'a self, own: &Group, groups: &'a Groups, nodes: &Residents<Node>) -> Vec<Standing<'a>> {
        let is_other = |group: &&Group| !group.is_native && !std::ptr::eq(*group, own);
        let needs_room = |group: &&Group| group.minimum.map_or(false, |minimum| group.placed() < minimum);
        let others = groups.iter().filter(is_other).filter(needs_room);
        others.filter_map(|group| Standing::of(group, nodes, &self.pending)).collect()
    }

    fn permit_member(&self, group: &Group, groups: &Groups, node: &Node, nodes: &Residents<Node>) -> Permit {
        if node.allocatable == Resources::default() {
            return Status::unschedulable("the node is gone").into();
        }
        let timeout = group.timeout.unwrap_or(self.config.timeout);
        let own = match Standing::of(group, nodes, &self.pending) {
            Some(own) => own,
            None => return Permit::wait(timeout, format!("nobody says how many pods the group {} needs", name(group))),
        };
        if own.held() >= own.minimum {
            return Status::SUCCESS.into();
        }
        let said = format!("{} of {} pods of the group {} have a node", own.held(), own.minimum, own.name());
        if !self.can_come(&own, &self.others(group, groups, nodes), nodes) {
            return Status::unschedulable(format!("{}, and there is no room for the rest", said)).into();
        }
        if own.has_bound_pods() {
            return Status::SUCCESS.into();
        }
        Permit::wait(timeout, said)
    }

    /// Whether the rest of a group that is under way may find room, once those behind it have let go of theirs.
    fn can_come(&self, own: &Standing, others: &[Standing], nodes: &Residents<Node>) -> bool {
        let demand = own.demand();
        let wanted: usize = demand.iter().map(|demand| demand.count).sum();
        let before = ahead(own, others, 0, 0, nodes);
        let mut room = Room::new(Kind::Any, || nodes.numbered());
        for behind in others.iter().filter(|other| other.is_under_way() && own.is_before(other)) {
            for (number, node, pod) in unbound(behind.group, nodes) {
                if let Some(pod) = node.pod_of(&pod) {
                    room.free(number, &pod.requests.resources);
                }
            }
        }
        before.iter().for_each(|group| {
            room.take(&group.demand);
        });
        room.take(&demand) == wanted
    }

    /// The pods of a group that wait, if they are too few.
    fn waiting_in_vain(&self, key: &GroupKey, groups: &Groups, nodes: &Residents<Node>) -> Vec<Label> {
        let found = groups.get(key).and_then(|group| Standing::of(group, nodes, &self.pending));
        let own = match found {
            Some(own) if own.held() < own.minimum => own,
            _ => return Vec::new(),
        };
        let pods = unbound(own.group, nodes).filter_map(|(_, node, member)| node.pod_of(&member));
        pods.map(|pod| pod.pod.uid.clone()).collect()
    }
}

/// The pods of a group that are expected on nodes, and may yet go back.
fn unbound<'a>(
    group: &'a Group,
    nodes: &'a Residents<Node>,
) -> impl Iterator<Item = (u32, &'a Node, guest::Member)> + 'a {
    let members =
        group.members().filter(|member| matches!(member.state, MemberState::Binding | MemberState::Tentative));
    members.filter_map(move |member| Some((member.node?, nodes.get(member.node?)?, *member)))
}

impl Needs {
    fn survey<'a, I, F>(&self, kind: Kind, nodes: F) -> Status
    where
        I: Iterator<Item = (u32, &'a Node)>,
        F: Fn() -> I + Copy,
    {
        let wanted: usize = self.demand.iter().map(|demand| demand.count).sum();
        let mut room = Room::new(kind, nodes);
        self.ahead.iter().for_each(|group| {
            room.take(&group.demand);
        });
        let found = room.take(&self.demand);
        if found == wanted {
            return Status::SUCCESS;
        }
        let alone = Room::new(kind, nodes).take(&self.demand);
        match self.ahead.first() {
            Some(first) if alone == wanted => Status::unresolvable(format!("waits for the group {}", first.name)),
            _ => Status::unresolvable(format!(
                "room for {} of {} pods of the group {}",
                self.placed + found,
                self.minimum.max(self.placed + wanted),
                self.name
            )),
        }
    }
}

guest::export!(Gang: prefilter, enqueue, addpod, removepod, filter, score, permit, unreserve; pods, pending, groups);
