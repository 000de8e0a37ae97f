//! Packs pods onto accelerators by what is free: whole devices by resource, and shares of devices by annotation.
//!
//! PreFilter: a pod that asks for no device needs no Filter. Filter: enough free devices, or enough of each device to
//! share. Score: how full the node is afterwards. Reserve: chooses devices, which an annotation of the bound pod names.
//! README.md has what pods ask for, and how nodes are rated.

mod config;
mod devices;
mod node;
mod placed_pod;
mod policy;
mod problem;
mod request;
mod share;

use config::Config;
use guest::{ClusterEvent, EventResource, Label, NodeInfo, Plugin, Pod, PreFilter, Residents, Result, Status};
use node::{GpuNode, Judge};
use placed_pod::PlacedPod;
use problem::Problem;
use request::Request;

type Node = NodeInfo<PlacedPod, GpuNode>;

struct GpuPack {
    config: Config,
}

struct Wish {
    uid: Label,
    request: std::result::Result<Request, Problem>,
    /// UIDs of the pods that a preemption has removed.
    removed: Vec<Label>,
    /// The indices of the devices that Reserve has chosen.
    devices: Vec<usize>,
}

impl Plugin for GpuPack {
    type Wish = Wish;
    type Resident = Node;

    fn new() -> Result<GpuPack> {
        Ok(GpuPack { config: Config::read()? })
    }

    fn wish(&self, pod: &Pod) -> Result<Wish> {
        let request = Request::of(pod, &self.config);
        Ok(Wish { uid: uid(pod)?, request, removed: Vec::new(), devices: Vec::new() })
    }

    fn resident(&self, name: &[u8]) -> Result<Node> {
        let node = guest::node(name).unwrap_or_default();
        NodeInfo::new(&node, GpuNode::new(&node, &self.config)?)
    }

    fn enqueue(&self) -> Vec<ClusterEvent> {
        let node = ClusterEvent::ADD | ClusterEvent::UPDATE_NODE_ALLOCATABLE | ClusterEvent::UPDATE_NODE_LABEL;
        vec![ClusterEvent::new(EventResource::Pod, ClusterEvent::DELETE), ClusterEvent::new(EventResource::Node, node)]
    }

    fn prefilter(&self, wish: &mut Wish, _: &Residents<Node>) -> PreFilter {
        let status = match &wish.request {
            Err(problem) => problem.into(),
            Ok(request) if request.is_nothing() => Status::SKIP,
            Ok(_) => Status::SUCCESS,
        };
        status.into()
    }

    fn addpod(&self, wish: &mut Wish, pod: &Pod, _: &Node) -> Status {
        uid(pod).map(|uid| wish.removed.retain(|removed| *removed != uid)).map(|()| Status::SUCCESS).into()
    }

    fn removepod(&self, wish: &mut Wish, pod: &Pod, _: &Node) -> Status {
        uid(pod).map(|uid| wish.removed.push(uid)).map(|()| Status::SUCCESS).into()
    }

    fn filter(&self, wish: &Wish, node: &Node) -> Status {
        match &wish.request {
            Err(problem) => problem.into(),
            Ok(request) => self.judge(request).filter(node, &wish.removed),
        }
    }

    fn score(&self, wish: &Wish, node: &Node) -> i32 {
        match &wish.request {
            Err(_) => 0,
            Ok(request) => self.judge(request).score(node),
        }
    }

    fn reserve(&self, wish: &mut Wish, node: &Node) -> Status {
        match &wish.request {
            Err(problem) => problem.into(),
            Ok(request) => match self.judge(request).choose(node, &wish.uid) {
                Err(status) => status,
                Ok(devices) => {
                    wish.devices = devices;
                    Status::SUCCESS
                }
            },
        }
    }

    fn bindingannotations(&self, wish: &mut Wish, _: &Node) -> Vec<(String, String)> {
        placed_pod::annotation(&wish.devices).into_iter().collect()
    }
}

impl GpuPack {
    fn judge<'a>(&'a self, request: &'a Request) -> Judge<'a> {
        Judge { config: &self.config, request }
    }
}

fn uid(pod: &Pod) -> Result<Label> {
    Ok(Label::new(Some(pod.metadata()?.uid()?)))
}

guest::export!(GpuPack: prefilter, enqueue, addpod, removepod, filter, score, reserve, bindingannotations; pods);
