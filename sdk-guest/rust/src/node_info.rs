use crate::amount::Amounts;
use crate::groups::Member;
use crate::node::Node;
use crate::pod::Pod;
use crate::requests::Requests;
use crate::resources::Resources;
use crate::status::Result;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of a pod that has none.
const NONE: u32 = u32::MAX;

/// How many generations there were of all nodes.
static GENERATIONS: AtomicU64 = AtomicU64::new(0);

/// A node with the pods that are on it, counted as `NodeInfo` of kube-scheduler counts them.
///
/// A plugin has it as its `Resident`, and is exported with `; pods`. There are no pods where the host tells of none,
/// and on a node that the host has not announced.
pub struct NodeInfo<T, N = ()> {
    /// What the plugin keeps of the node itself.
    pub node: N,
    pub allocatable: Resources,
    requested: Requests,
    pods: Vec<PodInfo<T>>,
    generation: u64,
}

/// A pod on a node.
pub struct PodInfo<T> {
    /// What the plugin keeps of it.
    pub pod: T,
    /// Whether the pod is only expected on the node. It counts as the others do.
    pub is_tentative: bool,
    pub requests: Requests,
    pub(crate) number: u32,
}

/// What a plugin keeps of each pod that is on a node.
pub trait ResidentPod: Sized {
    /// Called when the pod is new or has changed. There may be no current pod. After an error the pod does not count,
    /// and the log says why.
    fn new(pod: &Pod) -> Result<Self>;

    /// Whether this is as good as what was made of the pod before. The node's generation then stays, if the pod asks
    /// for as much as before. Most changes of a pod are about its status alone.
    fn is_same(&self, _before: &Self) -> bool {
        false
    }
}

impl ResidentPod for () {
    fn new(_: &Pod) -> Result<()> {
        Ok(())
    }

    fn is_same(&self, _: &()) -> bool {
        true
    }
}

impl<T: ResidentPod> PodInfo<T> {
    pub(crate) fn new(number: u32, pod: &Pod, is_tentative: bool) -> Result<PodInfo<T>> {
        Ok(PodInfo { pod: T::new(pod)?, is_tentative, requests: pod.requests()?, number })
    }

    fn is_same(&self, before: &PodInfo<T>) -> bool {
        let are_alike = self.is_tentative == before.is_tentative && self.requests == before.requests;
        are_alike && self.pod.is_same(&before.pod)
    }
}

impl<T, N: Default> Default for NodeInfo<T, N> {
    fn default() -> NodeInfo<T, N> {
        NodeInfo::without_pods(N::default(), Resources::default())
    }
}

impl<T, N> NodeInfo<T, N> {
    /// A node without pods, with what the plugin keeps of it.
    pub fn new(object: &Node, node: N) -> Result<NodeInfo<T, N>> {
        let allocatable = Resources::of(&Amounts::read(object.status()?, 2)?);
        Ok(NodeInfo::without_pods(node, allocatable))
    }

    /// The pods on the node, in any order.
    pub fn pods(&self) -> impl Iterator<Item = &PodInfo<T>> {
        self.pods.iter()
    }

    /// The pod on the node that is this member of a group.
    pub fn pod_of(&self, member: &Member) -> Option<&PodInfo<T>> {
        self.pods.iter().find(|pod| pod.number == member.pod)
    }

    /// What the pods on the node ask for.
    pub fn requested(&self) -> &Requests {
        &self.requested
    }

    /// What is allocatable and not requested; below 0 where more is requested.
    pub fn free(&self) -> Resources {
        let mut free = self.allocatable.clone();
        free.add(-1, &self.requested.resources);
        free
    }

    /// How many pods that ask for these resources fit beside the pods on the node, by the rules of kube-scheduler
    /// (`fitsRequest` of pkg/scheduler/framework/plugins/noderesources/fit.go).
    ///
    /// A scalar of which the node has none allocatable does not count. kube-scheduler lets the pod pass there if it
    /// comes from elsewhere, as by DRA, and rejects the node before it asks an extender if not.
    pub fn room_for(&self, requests: &Resources) -> usize {
        self.room_beside(&Resources::default(), requests)
    }

    /// The same if other pods with these resources were there as well; less than nothing where pods were gone.
    pub fn room_beside(&self, others: &Resources, requests: &Resources) -> usize {
        let (all, taken) = (&self.allocatable, &self.requested.resources);
        let named = [
            (requests.milli_cpu, all.milli_cpu, taken.milli_cpu, others.milli_cpu),
            (requests.memory, all.memory, taken.memory, others.memory),
            (requests.ephemeral_storage, all.ephemeral_storage, taken.ephemeral_storage, others.ephemeral_storage),
        ];
        let of_scalar = |name| (all.scalar(name), taken.scalar(name), others.scalar(name));
        let scalars = requests.scalars().map(|(name, asked)| (asked, of_scalar(name)));
        let scalars = scalars.map(|(asked, (all, taken, others))| (asked, all, taken, others));
        let counted = named.into_iter().chain(scalars.filter(|(_, all, _, _)| *all != 0));
        let pods = all.pods.wrapping_sub(taken.pods).wrapping_sub(others.pods);
        let room = counted.filter(|(asked, ..)| *asked > 0).fold(pods, |room, (asked, all, taken, others)| {
            room.min(all.wrapping_sub(taken).wrapping_sub(others) / asked)
        });
        usize::try_from(room.max(0)).unwrap_or(usize::MAX)
    }

    /// A number that grows with each change of the node and of the pods on it. No other node has it, or ever had it.
    /// A pod that [is the same](ResidentPod::is_same) has not changed.
    ///
    /// So what a plugin has made of a node is up to date if it was made of this generation.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Counts a pod of which the host has not told, as tests need to.
    pub fn add_pod(&mut self, pod: &Pod) -> Result<()>
    where
        T: ResidentPod,
    {
        self.add(PodInfo::new(NONE, pod, false)?);
        Ok(())
    }

    /// Whether a pod is there, and nothing of it that counts is another.
    pub(crate) fn has(&self, pod: &PodInfo<T>) -> bool
    where
        T: ResidentPod,
    {
        self.pods.iter().any(|known| known.number == pod.number && pod.is_same(known))
    }

    pub(crate) fn add(&mut self, pod: PodInfo<T>) {
        self.requested.add(1, &pod.requests);
        self.pods.push(pod);
        self.generation = next_generation();
    }

    /// Takes away the pod with this number, if it is there.
    pub(crate) fn remove(&mut self, number: u32) -> Option<PodInfo<T>> {
        let at = self.pods.iter().position(|pod| pod.number == number)?;
        let mut pod = self.pods.pop()?;
        if let Some(place) = self.pods.get_mut(at) {
            mem::swap(place, &mut pod);
        }
        self.requested.add(-1, &pod.requests);
        self.generation = next_generation();
        Some(pod)
    }

    /// Takes the other's pods in the place of its own.
    pub(crate) fn take_pods(&mut self, other: NodeInfo<T, N>) {
        self.requested = other.requested;
        self.pods = other.pods;
        self.generation = next_generation();
    }

    fn without_pods(node: N, allocatable: Resources) -> NodeInfo<T, N> {
        NodeInfo { node, allocatable, requested: Requests::default(), pods: Vec::new(), generation: next_generation() }
    }
}

fn next_generation() -> u64 {
    GENERATIONS.fetch_add(1, Ordering::Relaxed) + 1
}

#[cfg(test)]
mod tests {
    use super::{NodeInfo, PodInfo, ResidentPod};
    use crate::amount::{Amount, Amounts};
    use crate::label::Label;
    use crate::node::Node;
    use crate::pod::Pod;
    use crate::resources::Resources;
    use crate::status::Result;

    struct Name(String);

    impl ResidentPod for Name {
        fn new(pod: &Pod) -> Result<Name> {
            Ok(Name(String::from_utf8_lossy(pod.metadata()?.name()?).into_owned()))
        }
    }

    /// A pod of this name, which asks for that many bytes of memory.
    fn pod(name: u8, bytes: u8) -> Pod {
        let entry = [b"\x0a\x06memory\x12\x03\x0a\x01".to_vec(), vec![bytes]].concat();
        let wrap = |tag: u8, inner: Vec<u8>| [vec![tag, inner.len() as u8], inner].concat();
        let container = wrap(0x12, wrap(0x42, wrap(0x12, entry)));
        let metadata = wrap(0x0a, wrap(0x0a, vec![name]));
        Pod::new([metadata, wrap(0x12, container)].concat())
    }

    fn on(info: &NodeInfo<Name>) -> (i64, i64, Vec<(String, bool)>) {
        let resources = &info.requested().resources;
        let pods = info.pods().map(|pod| (pod.pod.0.clone(), pod.is_tentative));
        (resources.memory, resources.pods, pods.collect())
    }

    #[test]
    fn pods_come_and_go() {
        let mut info = NodeInfo::<Name>::default();
        for (number, name, bytes) in [(7, b'a', b'1'), (3, b'b', b'2'), (9, b'c', b'4')] {
            info.add(PodInfo::new(number, &pod(name, bytes), number == 3).unwrap());
        }
        assert_eq!(on(&info), (7, 3, vec![("a".into(), false), ("b".into(), true), ("c".into(), false)]));
        assert_eq!(info.remove(7).map(|pod| pod.pod.0), Some("a".into()));
        assert!(info.remove(7).is_none());
        assert_eq!(on(&info), (6, 2, vec![("c".into(), false), ("b".into(), true)]));
        assert_eq!(info.remove(3).map(|pod| pod.is_tentative), Some(true));
        info.add_pod(&pod(b'd', b'8')).unwrap();
        assert_eq!(on(&info), (12, 2, vec![("c".into(), false), ("d".into(), false)]));

        let mut changed = NodeInfo::<Name>::default();
        changed.add_pod(&pod(b'x', b'1')).unwrap();
        changed.take_pods(info);
        assert_eq!(on(&changed), (12, 2, vec![("c".into(), false), ("d".into(), false)]));
    }

    /// What `fitsRequest` says of one pod more.
    fn fits(asked: &Resources, all: &Resources, taken: &Resources, gpu: &Label) -> bool {
        taken.pods < all.pods
            && (asked.milli_cpu == 0 || asked.milli_cpu <= all.milli_cpu - taken.milli_cpu)
            && (asked.memory == 0 || asked.memory <= all.memory - taken.memory)
            && (asked.ephemeral_storage == 0
                || asked.ephemeral_storage <= all.ephemeral_storage - taken.ephemeral_storage)
            && (asked.scalar(gpu) == 0 || asked.scalar(gpu) <= all.scalar(gpu) - taken.scalar(gpu))
    }

    #[test]
    fn as_many_pods_fit_as_can_be_put_there_one_by_one() {
        let gpu = Label::new(Some(b"example.com/gpu"));
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let mut resources = |most: u64, gpus: u64| {
            let names: [&'static [u8]; 5] = [b"cpu", b"memory", b"ephemeral-storage", b"pods", b"example.com/gpu"];
            let mut amounts = Amounts::default();
            for (name, most) in names.into_iter().zip([most, most, most, most, gpus]) {
                amounts.set(name, Amount::new(random(most), 0));
            }
            amounts.set(b"example.com/gpu", Amount::new(gpus.saturating_sub(random(2)), 0));
            Resources::of(&amounts)
        };
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..5000 {
            let mut info = NodeInfo::<()>::without_pods((), resources(40, 9));
            info.requested.resources = resources(12, 2);
            let asked = resources(5, 2);
            let mut one = asked.clone();
            one.pods = 1;
            let mut taken = info.requested.resources.clone();
            let mut expected = 0;
            while fits(&asked, &info.allocatable, &taken, &gpu) {
                taken.add(1, &one);
                expected += 1;
            }
            let others = std::mem::take(&mut info.requested.resources);
            assert_eq!(info.room_beside(&others, &asked), expected);
            info.requested.resources = others;
            assert_eq!(info.room_for(&asked), expected, "{:?} {:?}", info.allocatable, asked);
            seen.insert(expected);
        }
        assert!(seen.range(..8).count() == 8, "{:?}", seen);
    }

    #[test]
    fn a_scalar_of_which_the_node_has_none_does_not_count() {
        let node = Node::new(b"\x1a\x0d\x12\x0b\x0a\x04pods\x12\x03\x0a\x013".to_vec());
        let info = NodeInfo::<()>::new(&node, ()).unwrap();
        let mut amounts = Amounts::default();
        amounts.set(b"example.com/gpu", Amount::new(2, 0));
        assert_eq!(info.room_for(&Resources::of(&amounts)), 3);
        amounts.set(b"cpu", Amount::new(1, 0));
        assert_eq!(info.room_for(&Resources::of(&amounts)), 0);
    }

    #[test]
    fn each_change_has_a_generation_of_its_own() {
        let mut node = NodeInfo::<()>::default();
        let mut other = NodeInfo::<()>::new(&Node::new(Vec::new()), ()).unwrap();
        let mut seen = vec![node.generation(), other.generation()];
        node.add(PodInfo::new(7, &pod(b'a', b'1'), false).unwrap());
        seen.push(node.generation());
        other.add_pod(&pod(b'b', b'1')).unwrap();
        seen.push(other.generation());
        assert!(node.remove(3).is_none());
        assert_eq!(Some(&node.generation()), seen.get(2));
        assert!(node.remove(7).is_some());
        seen.push(node.generation());
        node.take_pods(other);
        seen.push(node.generation());
        assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", seen);
    }

    #[test]
    fn what_is_free_may_be_less_than_nothing() {
        let node = Node::new(b"\x1a\x0f\x12\x0d\x0a\x06memory\x12\x03\x0a\x015".to_vec());
        let mut info = NodeInfo::<()>::new(&node, ()).unwrap();
        assert_eq!((info.allocatable.memory, info.free().memory), (5, 5));
        info.add_pod(&pod(b'a', b'3')).unwrap();
        assert_eq!((info.free().memory, info.free().pods), (2, -1));
        info.add_pod(&pod(b'b', b'3')).unwrap();
        assert_eq!((info.allocatable.memory, info.free().memory), (5, -1));
    }
}
