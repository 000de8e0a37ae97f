use crate::constraints::Constraints;
use crate::pods::{without_groups, Node};
use guest::Resources;
use std::collections::BTreeMap;
use std::rc::Rc;

/// So many pods that ask for the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    pub requests: Resources,
    pub constraints: Rc<Constraints>,
    pub count: usize,
}

/// Where room is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// On nodes that kube-scheduler has let pass for the pod.
    Passed,
    /// On any nodes, of which some may lack what a pod asks for, or keep it off.
    Any,
    /// The same as if no pod of a group were there.
    WithoutGroups,
}

/// Room for pods on nodes, taken node after node.
pub struct Room<F> {
    nodes: F,
    kind: Kind,
    /// By the nodes' numbers, what has been taken here; less than nothing where pods are thought away.
    taken: BTreeMap<u32, Resources>,
}

impl<'a, I, F> Room<F>
where
    I: Iterator<Item = (u32, &'a Node)>,
    F: Fn() -> I,
{
    pub fn new(kind: Kind, nodes: F) -> Room<F> {
        Room { nodes, kind, taken: BTreeMap::new() }
    }

    /// Has a pod leave a node.
    pub fn free(&mut self, node: u32, requests: &Resources) {
        self.taken.entry(node).or_default().add(-1, requests);
    }

    /// Takes room for pods. Returns for how many there was some.
    pub fn take(&mut self, demands: &[Demand]) -> usize {
        demands.iter().map(|demand| self.take_one(demand)).sum()
    }

    fn take_one(&mut self, demand: &Demand) -> usize {
        let is_any = self.kind != Kind::Passed;
        let is_strict = is_any && self.is_known(&demand.requests);
        let mut left = demand.count;
        for (number, node) in (self.nodes)() {
            if left == 0 {
                break;
            }
            if (is_any && !demand.constraints.let_on(&node.node.traits))
                || (is_strict && !has_all(node, &demand.requests))
            {
                continue;
            }
            let found = self.room(number, node, &demand.requests).min(left);
            if found > 0 {
                let taken = self.taken.entry(number).or_insert_with(|| base(self.kind, node));
                taken.add(found as i64, &demand.requests);
                left -= found;
            }
        }
        demand.count - left
    }

    fn room(&self, number: u32, node: &Node, requests: &Resources) -> usize {
        match self.taken.get(&number) {
            Some(taken) => node.room_beside(taken, requests),
            None if self.kind == Kind::WithoutGroups => node.room_beside(&without_groups(node), requests),
            None => node.room_for(requests),
        }
    }

    /// Whether any node has what the pod asks for by name. If none has, it comes from elsewhere, as by DRA.
    fn is_known(&self, requests: &Resources) -> bool {
        requests.scalars().next().is_some() && (self.nodes)().any(|(_, node)| has_all(node, requests))
    }
}

/// How full a node is with the pod, in percent of what it has most of in use, of all that the pod asks for.
pub fn fullness(node: &Node, requests: &Resources) -> i32 {
    let (all, taken) = (&node.allocatable, &node.requested().resources);
    let named = [
        (requests.milli_cpu, all.milli_cpu, taken.milli_cpu),
        (requests.memory, all.memory, taken.memory),
        (requests.ephemeral_storage, all.ephemeral_storage, taken.ephemeral_storage),
        (1, all.pods, taken.pods),
    ];
    let scalars = requests.scalars().map(|(name, asked)| (asked, all.scalar(name), taken.scalar(name)));
    let asked = named.into_iter().chain(scalars).filter(|(asked, all, _)| *asked > 0 && *all > 0);
    let percents = asked.map(|(asked, all, taken)| (i128::from(taken) + i128::from(asked)) * 100 / i128::from(all));
    percents.max().map_or(0, |percent| percent.clamp(0, 100) as i32)
}

fn base(kind: Kind, node: &Node) -> Resources {
    if kind == Kind::WithoutGroups {
        without_groups(node).as_ref().clone()
    } else {
        Resources::default()
    }
}

fn has_all(node: &Node, requests: &Resources) -> bool {
    requests.scalars().all(|(name, _)| node.allocatable.scalar(name) != 0)
}

#[cfg(test)]
mod tests {
    use super::{fullness, Demand, Kind, Room};
    use crate::pods::{Kept, Node};
    use guest::{Node as Object, NodeInfo, Pod, Residents, Resources};
    use std::rc::Rc;

    fn wrap(number: u8, inner: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, inner.len() as u8], inner].concat()
    }

    /// A list of resources, as `cpu=1 a.b/gpu=2`.
    fn list(number: u8, text: &str) -> Vec<u8> {
        let entry = |(name, amount): (&str, &str)| {
            wrap(number, &[wrap(1, name.as_bytes()), wrap(2, &wrap(1, amount.as_bytes()))].concat())
        };
        text.split_whitespace().flat_map(|part| entry(part.split_once('=').unwrap())).collect()
    }

    fn pod(requests: &str, labels: &[u8]) -> Pod {
        let container = wrap(2, &wrap(8, &list(2, requests)));
        Pod::new([wrap(1, labels), wrap(2, &container)].concat())
    }

    fn node(allocatable: &str) -> Node {
        NodeInfo::new(&Object::new(wrap(3, &list(2, allocatable))), Kept::default()).unwrap()
    }

    fn demand(requests: &str, count: usize) -> Demand {
        Demand { requests: resources(requests), constraints: Rc::default(), count }
    }

    fn resources(requests: &str) -> Resources {
        pod(requests, b"").requests().unwrap().resources
    }

    fn nodes(all: Vec<Node>) -> Residents<Node> {
        let mut nodes = Residents::default();
        for (at, node) in all.into_iter().enumerate() {
            nodes.add(&[at as u8 + 1], node);
        }
        nodes
    }

    #[test]
    fn room_is_taken_node_after_node() {
        let nodes = nodes(vec![node("cpu=3 pods=9"), node("cpu=2 pods=9")]);
        let mut room = Room::new(Kind::Passed, || nodes.numbered());
        assert_eq!(room.take(&[demand("cpu=2", 1), demand("cpu=1", 2)]), 3);
        assert_eq!(room.take(&[demand("cpu=1", 2)]), 1);
        room.free(0, &resources("cpu=2"));
        assert_eq!(room.take(&[demand("cpu=1", 9)]), 2);
    }

    #[test]
    fn devices_that_no_node_has_come_from_elsewhere_and_else_only_nodes_with_some_count() {
        let both = nodes(vec![node("cpu=9 pods=9"), node("cpu=9 pods=9 a.b/gpu=1")]);
        let ask = [demand("cpu=1 a.b/gpu=1", 4)];
        assert_eq!(Room::new(Kind::Any, || both.numbered()).take(&ask), 1);
        assert_eq!(Room::new(Kind::Passed, || both.numbered()).take(&ask), 4);
        let none = nodes(vec![node("cpu=3 pods=9")]);
        assert_eq!(Room::new(Kind::Any, || none.numbered()).take(&ask), 3);
    }

    #[test]
    fn pods_of_groups_are_thought_away() {
        let mut busy = node("cpu=4 pods=9");
        let label = [wrap(1, b"scheduling.x-k8s.io/pod-group"), wrap(2, b"a")].concat();
        busy.add_pod(&pod("cpu=2", &wrap(11, &label))).unwrap();
        busy.add_pod(&pod("cpu=1", b"")).unwrap();
        let nodes = nodes(vec![busy]);
        let ask = [demand("cpu=1", 9)];
        assert_eq!(Room::new(Kind::Any, || nodes.numbered()).take(&ask), 1);
        let mut room = Room::new(Kind::WithoutGroups, || nodes.numbered());
        assert_eq!((room.take(&[demand("cpu=1", 1)]), room.take(&ask)), (1, 2));
    }

    #[test]
    fn a_node_is_as_full_as_the_fullest_of_what_is_asked_for() {
        let mut busy = node("cpu=4 memory=10 pods=10 a.b/gpu=2");
        busy.add_pod(&pod("cpu=1 memory=9", b"")).unwrap();
        assert_eq!(fullness(&busy, &resources("cpu=1")), 50);
        assert_eq!(fullness(&busy, &resources("cpu=1 memory=1")), 100);
        assert_eq!(fullness(&busy, &resources("a.b/gpu=1 cpu=9")), 100);
        assert_eq!(fullness(&busy, &resources("")), 20);
    }
}
