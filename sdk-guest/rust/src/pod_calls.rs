use crate::calls::{plugin, Guest};
use crate::klog;
use crate::node::current_node_name;
use crate::node_info::{NodeInfo, PodInfo, ResidentPod};
use crate::plugin::Plugin;
use crate::pod::Pod;
use crate::pod_records::{Buffer, Record, State};
use crate::status::Status;
use std::mem;

/// What a guest knows of pods on nodes, apart from what its nodes have.
pub struct PodPlaces {
    /// By the pods' numbers, the numbers of their nodes.
    nodes: Vec<u32>,
    /// Whether the host has told of pods, or the log says that it has not.
    is_settled: bool,
}

/// The number of no node.
const NOWHERE: u32 = u32::MAX;

impl PodPlaces {
    pub const fn new() -> PodPlaces {
        PodPlaces { nodes: Vec::new(), is_settled: false }
    }

    fn node_of(&self, pod: u32) -> u32 {
        self.nodes.get(pod as usize).copied().unwrap_or(NOWHERE)
    }

    fn set(&mut self, pod: u32, node: u32) {
        while self.nodes.len() <= pod as usize {
            self.nodes.push(NOWHERE);
        }
        if let Some(place) = self.nodes.get_mut(pod as usize) {
            *place = node;
        }
    }
}

impl<P, T, N> Guest<P>
where
    P: Plugin<Resident = NodeInfo<T, N>>,
    T: ResidentPod,
    N: Default,
{
    /// PreFilter of a plugin that is to know the pods on nodes.
    pub fn prefilter_with_pods(&mut self) -> i32 {
        if !mem::replace(&mut self.places.is_settled, true) {
            klog::warning(format_args!("the host has told of no pods on nodes: all nodes count as empty"));
        }
        self.prefilter()
    }

    pub fn node_changed_with_pods(&mut self, number: u32) {
        let name = current_node_name();
        let former = self.residents.take(number);
        match plugin(&mut self.plugin).and_then(|plugin| plugin.resident(&name)) {
            Ok(mut node) => {
                if let Some(former) = former {
                    node.take_pods(former);
                }
                self.residents.set(number, &name, Some(node));
            }
            Err(_) => {
                self.residents.set(number, &name, None);
                self.set_aside(number, former);
            }
        }
    }

    /// Its pods stay, until each is gone too or the node comes back.
    pub fn node_removed_with_pods(&mut self, number: u32) {
        let former = self.residents.take(number);
        self.residents.remove(number);
        self.set_aside(number, former);
    }

    pub fn pods_changed(&mut self, count: usize) {
        self.places.is_settled = true;
        let records = mem::replace(&mut self.records, Buffer::new());
        records.first(count).for_each(|record| self.pod_changed(record));
        self.records = records;
    }

    fn pod_changed(&mut self, record: Record) {
        let told = told(&record);
        let before = self.places.node_of(record.pod);
        if let (Some(pod), Some(node)) = (&told, self.residents.at(before)) {
            if before == record.node && node.has(pod) {
                return;
            }
        }
        let former = self.residents.at(before).and_then(|node| node.remove(record.pod));
        let pod = match record.state {
            State::There | State::Tentative if record.object.is_empty() => {
                former.map(|pod| PodInfo { is_tentative: record.state == State::Tentative, ..pod })
            }
            _ => told,
        };
        match pod {
            Some(pod) => self.put_pod(record.pod, record.node, pod),
            None => self.places.set(record.pod, NOWHERE),
        }
    }

    fn set_aside(&mut self, number: u32, former: Option<NodeInfo<T, N>>) {
        if let Some(former) = former {
            let mut pods_alone = NodeInfo::default();
            pods_alone.take_pods(former);
            self.residents.set_aside(number, pods_alone);
        }
    }

    fn put_pod(&mut self, number: u32, node: u32, pod: PodInfo<T>) {
        if self.residents.at(node).is_none() {
            self.residents.set_aside(node, NodeInfo::default());
        }
        if let Some(node) = self.residents.at(node) {
            node.add(pod);
        }
        self.places.set(number, node);
    }
}

/// The pod that a record has; None where it has none, or one that cannot be read.
fn told<T: ResidentPod>(record: &Record) -> Option<PodInfo<T>> {
    if record.state == State::Gone || record.object.is_empty() {
        return None;
    }
    let pod = PodInfo::new(record.pod, &Pod::new(record.object.to_vec()), record.state == State::Tentative);
    let logged = |error| {
        let reason = Status::from(error).reason;
        klog::error(format_args!("a pod on a node cannot be read, and does not count: {}", reason));
    };
    pod.map_err(logged).ok()
}

#[cfg(test)]
mod tests {
    use super::NodeInfo;
    use crate::calls::Guest;
    use crate::hosttest::{pod, PodObject};
    use crate::node_info::ResidentPod;
    use crate::plugin::Plugin;
    use crate::pod::Pod;
    use crate::status::Result;

    const GONE: u32 = 0;
    const THERE: u32 = 1;
    const TENTATIVE: u32 = 2;

    struct Team(Vec<u8>);

    impl ResidentPod for Team {
        fn new(pod: &Pod) -> Result<Team> {
            Ok(Team(pod.metadata()?.label("team")?.unwrap_or_default().to_vec()))
        }

        fn is_same(&self, before: &Team) -> bool {
            self.0 == before.0
        }
    }

    struct Teams;

    impl Plugin for Teams {
        type Wish = ();
        type Resident = NodeInfo<Team>;

        fn new() -> Result<Teams> {
            Ok(Teams)
        }

        fn wish(&self, _: &Pod) -> Result<()> {
            Ok(())
        }

        fn resident(&self, _: &[u8]) -> Result<NodeInfo<Team>> {
            Ok(NodeInfo::default())
        }
    }

    impl Guest<Teams> {
        /// Tells of pod 3. Returns how many pods are on the nodes 0 and 1, and whether each of these has changed.
        fn told(&mut self, node: u32, state: u32, object: &[u8]) -> ([usize; 2], [bool; 2]) {
            let before = [0, 1].map(|node| self.residents.at(node).map(|node| node.generation()));
            let words = [3, node, state, object.len() as u32].map(u32::to_le_bytes).concat();
            let mut bytes = [&words, object].concat();
            bytes.resize((bytes.len() + 7) / 8 * 8, 0);
            let room = self.records.room(bytes.len());
            // SAFETY: there is as much room as was asked for.
            unsafe { room.cast::<u8>().copy_from(bytes.as_ptr(), bytes.len()) };
            self.pods_changed(1);
            let pods = [0, 1].map(|node| self.residents.at(node).map_or(0, |node| node.pods().count()));
            let after = [0, 1].map(|node| self.residents.at(node).map(|node| node.generation()));
            (pods, [after[0] != before[0], after[1] != before[1]])
        }
    }

    fn object(team: &str, cpu: &str) -> PodObject {
        pod("p").label("team", team).request("cpu", cpu)
    }

    #[test]
    fn a_pod_of_which_nothing_that_counts_has_changed_leaves_its_node_as_it_is() {
        let mut guest = Guest::<Teams>::new();
        let one = object("a", "1").protobuf();
        let same = object("a", "1").annotation("seen", "now").status(b"\x0a\x07Running").protobuf();
        assert_eq!(guest.told(0, THERE, &one), ([1, 0], [true, false]));
        assert_eq!(guest.told(0, THERE, &one), ([1, 0], [false, false]));
        assert_eq!(guest.told(0, THERE, &same), ([1, 0], [false, false]));
        assert_eq!(guest.told(0, THERE, &object("b", "1").protobuf()), ([1, 0], [true, false]));
        assert_eq!(guest.told(0, THERE, &object("b", "2").protobuf()), ([1, 0], [true, false]));
        assert_eq!(guest.told(0, TENTATIVE, &object("b", "2").protobuf()), ([1, 0], [true, false]));
        assert_eq!(guest.told(1, TENTATIVE, &object("b", "2").protobuf()), ([0, 1], [true, true]));
        assert_eq!(guest.told(0, TENTATIVE, b""), ([1, 0], [true, true]));
        assert_eq!(guest.told(0, THERE, &one), ([1, 0], [true, false]));
        assert_eq!(guest.told(u32::MAX, GONE, b""), ([0, 0], [true, false]));
        assert_eq!(guest.told(u32::MAX, GONE, b""), ([0, 0], [false, false]));
    }

    #[test]
    fn what_does_not_say_whether_it_is_the_same_is_another() {
        struct Any;
        impl ResidentPod for Any {
            fn new(_: &Pod) -> Result<Any> {
                Ok(Any)
            }
        }
        assert!(!Any.is_same(&Any));
        assert!(().is_same(&()));
    }
}
