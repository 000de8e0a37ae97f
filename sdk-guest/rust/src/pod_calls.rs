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
        let former = match self.residents.at(self.places.node_of(record.pod)) {
            Some(node) => node.remove(record.pod),
            None => None,
        };
        let is_tentative = record.state == State::Tentative;
        let pod = match record.state {
            State::Gone => None,
            _ if record.object.is_empty() => former.map(|pod| PodInfo { is_tentative, ..pod }),
            _ => match PodInfo::new(record.pod, &Pod::new(record.object.to_vec()), is_tentative) {
                Ok(pod) => Some(pod),
                Err(error) => {
                    let reason = Status::from(error).reason;
                    klog::error(format_args!("a pod on a node cannot be read, and does not count: {}", reason));
                    None
                }
            },
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
