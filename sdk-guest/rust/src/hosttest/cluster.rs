//! The cluster of a host, which it tells the plugin of.

use super::cycle::{Cycle, CycleState};
use super::objects::{Group, NodeObject, PodObject};
use super::table::Table;
use super::world::{self, World};
use super::Exported;
use crate::calls::Guest;
use crate::event::Event;
use crate::group_records::MemberState;
use crate::groups::{self, GroupKey};
use crate::status::Result;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ptr;

/// The number of no node, and of no group.
const NONE: u32 = u32::MAX;

/// States in a record of a pod.
const GONE: u32 = 0;
const THERE: u32 = 1;
const TENTATIVE: u32 = 2;

/// A host with a cluster of its own.
pub struct Host<P: Exported>(pub(super) RefCell<Inner<P>>);

/// What a host has, apart from what the plugin asks for.
pub(super) struct Inner<P: Exported> {
    pub guest: Guest<P>,
    pub nodes: Table<String, NodeObject>,
    pub pods: Table<String, PlacedPod>,
    groups: Table<Vec<u8>, ()>,
    pub cycles: Vec<CycleState>,
    /// The cycle that the plugin is on.
    pub on_cycle: Option<usize>,
    /// The cycles of pods that wait on Permit, by their UIDs.
    pub waiting: BTreeMap<String, usize>,
}

/// A pod of the cluster, and where it is.
pub(super) struct PlacedPod {
    pub object: PodObject,
    pub state: MemberState,
    /// Whether the plugin knows it as a pod on a node, and as one without.
    is_on_node: bool,
    is_pending: bool,
}

impl<P: Exported> Default for Host<P> {
    fn default() -> Host<P> {
        Host::new()
    }
}

impl<P: Exported> Drop for Host<P> {
    fn drop(&mut self) {
        world::set(None);
        groups::forget();
    }
}

impl<P: Exported> Host<P> {
    /// A host with an empty cluster. The plugin is configured by no text, and has its defaults.
    pub fn new() -> Host<P> {
        let former = world::set(Some(World::default()));
        assert!(former.is_none(), "there is one host at a time in a thread: drop the other one");
        let mut inner = Inner {
            guest: Guest::new(),
            nodes: Table::default(),
            pods: Table::default(),
            groups: Table::default(),
            cycles: Vec::new(),
            on_cycle: None,
            waiting: BTreeMap::new(),
        };
        inner.begin_telling();
        Host(RefCell::new(inner))
    }

    /// Begins anew with this guestConfig: another instance of the plugin is told of all that is there. The error is that
    /// of the plugin's `new`, and the plugin stays as it was.
    pub fn configure(&self, guest_config: &str) -> Result<()> {
        let former = world::with(|world| std::mem::replace(&mut world.config, guest_config.into()));
        if let Err(error) = P::new() {
            world::with(|world| world.config = former);
            return Err(error);
        }
        self.0.borrow_mut().begin_anew();
        Ok(())
    }

    /// The Events that the plugin has recorded since they were last asked for.
    pub fn events(&self) -> Vec<Event> {
        world::with(|world| std::mem::take(&mut world.events))
    }

    /// The lines that the plugin has logged since it was last asked for, as in `warning: rack is full`.
    pub fn log(&self) -> Vec<String> {
        world::with(|world| std::mem::take(&mut world.log))
    }

    /// Brings a node, or another version of one.
    pub fn put_node(&self, node: NodeObject) {
        self.0.borrow_mut().put_node(node);
    }

    /// Takes a node away. Its pods stay until they are removed too.
    pub fn remove_node(&self, name: &str) {
        let inner = &mut *self.0.borrow_mut();
        let (number, _) = inner.nodes.remove(&name.to_string()).unwrap_or_else(|| panic!("node {} is not there", name));
        world::with(|world| world.nodes.remove(name));
        P::node_removed(&mut inner.guest, number);
    }

    /// Brings a pod, or another version of one: on its node, or pending if it has none.
    pub fn put_pod(&self, pod: PodObject) {
        let state = if pod.node.is_empty() { MemberState::Pending } else { MemberState::Bound };
        self.0.borrow_mut().place(pod, state);
    }

    /// Brings a pod that is expected on its node, and may not come.
    pub fn expect_pod(&self, pod: PodObject) {
        self.0.borrow_mut().place(pod, MemberState::Tentative);
    }

    /// Takes a pod away, of which namespace and name count.
    pub fn remove_pod(&self, pod: &PodObject) {
        self.0.borrow_mut().remove_pod(&pod.key());
    }

    /// Brings a group, or what is known of it now. Its pods are those that name it.
    pub fn put_group(&self, group: Group) {
        self.0.borrow_mut().put_group(group);
    }

    /// Takes a group away, of which namespace, name and `is_native` count.
    pub fn remove_group(&self, group: &Group) {
        self.0.borrow_mut().remove_group(&group.key());
    }

    /// Has a pod without a node come to its cycle. The plugin is not asked yet.
    pub fn begin(&self, pod: PodObject) -> Cycle<'_, P> {
        let inner = &mut *self.0.borrow_mut();
        inner.cycles.push(CycleState::new(pod.clone()));
        inner.place(pod.on(""), MemberState::Pending);
        Cycle { host: self, id: inner.cycles.len() - 1 }
    }

    /// Has a pod come to a whole cycle: Filter, Score, and Bind on the node with the highest score, of equal ones the
    /// first by name. A pod that no node is left for is not bound.
    pub fn schedule(&self, pod: PodObject) -> Cycle<'_, P> {
        let cycle = self.begin(pod);
        cycle.filter();
        let scores = cycle.score();
        let passed = self.0.borrow().passed(cycle.id);
        let score = |name: &String| scores.get(name).copied().unwrap_or_default();
        if let Some(best) = passed.into_iter().rev().max_by_key(score) {
            cycle.bind(&best);
        }
        cycle
    }
}

impl<P: Exported> Inner<P> {
    /// Whether the module has an extension point.
    pub fn has(&self, point: &str) -> bool {
        P::POINTS.contains(&point)
    }

    /// Tells that the host knows all pods, of which there are none yet.
    fn begin_telling(&mut self) {
        P::pods_changed(&mut self.guest, 0);
        P::pending_pods_changed(&mut self.guest, 0);
    }

    fn begin_anew(&mut self) {
        self.guest = Guest::new();
        self.on_cycle = None;
        self.begin_telling();
        for name in self.nodes.keys() {
            self.tell_of_node(&name);
        }
        for key in self.pods.keys() {
            self.tell_of(&key);
        }
    }

    fn put_node(&mut self, node: NodeObject) {
        let name = node.name.clone();
        world::with(|world| world.nodes.insert(name.clone(), node.protobuf()));
        self.nodes.put(name.clone(), node);
        self.tell_of_node(&name);
    }

    fn tell_of_node(&mut self, name: &String) {
        let number = self.number_of(name);
        world::with(|world| world.node_name = name.clone());
        P::node_changed(&mut self.guest, number);
        world::with(|world| world.node_name.clear());
    }

    pub fn number_of(&self, node: &String) -> u32 {
        self.nodes.number(node).unwrap_or_else(|| panic!("node {} is not there: put it first", node))
    }

    /// Has a pod be somewhere, and the plugin told of it.
    pub fn place(&mut self, object: PodObject, state: MemberState) {
        if !object.node.is_empty() {
            self.number_of(&object.node);
        }
        let key = object.key();
        match self.pods.get_mut(&key) {
            Some(placed) => (placed.object, placed.state) = (object, state),
            None => {
                let placed = PlacedPod { object, state, is_on_node: false, is_pending: false };
                self.pods.put(key.clone(), placed);
            }
        }
        self.tell_of(&key);
    }

    fn tell_of(&mut self, key: &String) {
        let (number, placed) = match (self.pods.number(key), self.pods.get_mut(key)) {
            (Some(number), Some(placed)) => (number, placed),
            _ => return,
        };
        let node = self.nodes.number(&placed.object.node);
        let (object, state) = (placed.object.protobuf(), placed.state);
        let (was_on_node, was_pending) = (placed.is_on_node, placed.is_pending);
        (placed.is_on_node, placed.is_pending) = (node.is_some(), node.is_none());
        let group = GroupKey::of(&placed.object.read()).ok().flatten();
        let there = if state == MemberState::Bound { THERE } else { TENTATIVE };
        match node {
            Some(node) => self.tell_of_pods(&record([number, node, there], &object)),
            None if was_on_node => self.tell_of_pods(&record([number, NONE, GONE], b"")),
            None => {}
        }
        match node {
            None => self.tell_of_pending(&record([number, NONE, THERE], &object)),
            Some(_) if was_pending => self.tell_of_pending(&record([number, NONE, GONE], b"")),
            Some(_) => {}
        }
        let group = group.and_then(|key| self.groups.number(&key.0));
        self.tell_of_member(number, node, group.map(|group| (state, group)));
    }

    fn tell_of_pods(&mut self, record: &[u8]) {
        self.write(record);
        P::pods_changed(&mut self.guest, 1);
    }

    fn tell_of_pending(&mut self, record: &[u8]) {
        self.write(record);
        P::pending_pods_changed(&mut self.guest, 1);
    }

    fn tell_of_member(&mut self, pod: u32, node: Option<u32>, group: Option<(MemberState, u32)>) {
        if !P::HAS_GROUPS {
            return;
        }
        let (node, state, group) = match group {
            Some((MemberState::Pending | MemberState::Bound, group)) => (node, 1, group),
            Some((MemberState::Tentative, group)) => (node, 2, group),
            Some((MemberState::Binding, group)) => (node, 3, group),
            None => (None, 0, NONE),
        };
        self.write(&words(&[pod, node.unwrap_or(NONE), state, group]));
        self.guest.members_changed(1);
    }

    fn remove_pod(&mut self, key: &String) {
        if let Some((number, placed)) = self.pods.remove(key) {
            if placed.is_on_node {
                self.tell_of_pods(&record([number, NONE, GONE], b""));
            }
            if placed.is_pending {
                self.tell_of_pending(&record([number, NONE, GONE], b""));
            }
            self.tell_of_member(number, None, None);
        }
    }

    fn put_group(&mut self, group: Group) {
        let key = group.key();
        let number = self.groups.put(key.0.clone(), ());
        if P::HAS_GROUPS {
            self.write(&group.record(number));
            self.guest.groups_changed(1);
        }
        self.tell_of_members(&key);
    }

    fn remove_group(&mut self, key: &GroupKey) {
        if let Some((number, _)) = self.groups.remove(&key.0) {
            self.tell_of_members(key);
            if P::HAS_GROUPS {
                self.write(&words(&[number, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
                self.guest.groups_changed(1);
            }
        }
    }

    fn tell_of_members(&mut self, key: &GroupKey) {
        for pod in self.pods.keys() {
            let named = self.pods.get_mut(&pod).map(|placed| GroupKey::of(&placed.object.read()));
            if named == Some(Ok(Some(key.clone()))) {
                self.tell_of(&pod);
            }
        }
    }

    /// Writes a record where the plugin reads it.
    fn write(&mut self, record: &[u8]) {
        let room = self.guest.pod_buffer(record.len());
        // SAFETY: there is room for as many bytes.
        unsafe { ptr::copy_nonoverlapping(record.as_ptr(), room.cast(), record.len()) };
    }
}

/// That of "Records of pods" in ABI.md.
fn record(numbers: [u32; 3], object: &[u8]) -> Vec<u8> {
    [words(&numbers), words(&[object.len() as u32]), object.to_vec()].concat()
}

pub(super) fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}
