use crate::config::{Config, Resource};
use crate::devices::{percent, Demand, Devices, MAX_DEVICES};
use crate::placed_pod::PlacedPod;
use crate::policy::Policy;
use crate::request::Request;
use crate::share::{self, Part, Share};
use guest::{Label, Node, NodeInfo, Result, Status};
use std::cell::RefCell;
use std::slice;

/// What is kept of a node beside its pods.
#[derive(Default)]
pub struct GpuNode {
    /// Memory of each device; 0 if that is not known.
    mebibytes: i64,
    first: RefCell<First>,
}

/// The first resource on a node, kept beside each other: a lookup by name costs as much as the judgement.
#[derive(Default)]
struct First {
    /// That of the node when it was so; none has 0.
    generation: u64,
    allocatable: i64,
    requested: i64,
    /// None where they are not told apart.
    devices: Option<Devices>,
}

impl GpuNode {
    pub fn new(node: &Node, config: &Config) -> Result<GpuNode> {
        let label = node.metadata()?.label(&config.memory_label)?;
        Ok(GpuNode { mebibytes: share::memory(label), first: RefCell::default() })
    }
}

type Info = NodeInfo<PlacedPod, GpuNode>;

/// Judges nodes for a pod.
pub struct Judge<'a> {
    pub config: &'a Config,
    pub request: &'a Request,
}

impl Judge<'_> {
    /// Whether the node has enough, without the pods that have these UIDs.
    pub fn filter(&self, info: &Info, without: &[Label]) -> Status {
        self.with_first(info, without, |first| self.filter_with(first, info, without))
    }

    /// How good the node is for the pod, from 0 to 100.
    pub fn score(&self, info: &Info) -> i32 {
        let score = self.with_first(info, &[], |first| match (self.request.share, self.asked().next()) {
            (Some(share), _) => self.score_share(share, first),
            (None, Some((0, _, count))) => self.score_first(count, first),
            (None, Some((_, resource, count))) => self.score_other(resource, count, info),
            (None, None) => self.score_without_devices(first, info),
        });
        score as i32
    }

    /// The indices of devices for the pod, which may be on the node already; none where it asks for none, or where
    /// they are not told apart. The error is the reason against the node.
    pub fn choose(&self, info: &Info, uid: &Label) -> std::result::Result<Vec<usize>, Status> {
        let (without, policy) = (slice::from_ref(uid), self.request.gpu_policy);
        self.with_first(info, without, |first| {
            let status = self.filter_with(first, info, without);
            if status != Status::SUCCESS {
                return Err(status);
            }
            let chosen = first.devices.as_ref().and_then(|devices| devices.choose(self.demand(devices)?, policy));
            Ok(chosen.unwrap_or_default())
        })
    }

    fn filter_with(&self, first: &First, info: &Info, without: &[Label]) -> Status {
        let status = self.request.share.map_or(Status::SUCCESS, |share| self.filter_share(share, first, info));
        if status != Status::SUCCESS {
            return status;
        }
        self.filter_whole(first, info, without)
    }

    fn filter_whole(&self, first: &First, info: &Info, without: &[Label]) -> Status {
        for (at, resource, count) in self.asked() {
            let (allocatable, requested) = match at {
                0 => (first.allocatable, first.requested),
                _ => (info.allocatable.scalar(&resource.name), requested(info, resource, without)),
            };
            if allocatable == 0 {
                continue; // The devices are those of DRA: kube-scheduler has found that there are enough.
            }
            if count > allocatable {
                return Status::unresolvable(resource.insufficient);
            }
            if count > allocatable.saturating_sub(requested) {
                return Status::unschedulable(resource.insufficient);
            }
            if at == 0 && first.devices.as_ref().map_or(false, |devices| !self.fit(devices)) {
                return Status::unschedulable(self.config.reasons.insufficient_unshared);
            }
        }
        Status::SUCCESS
    }

    fn filter_share(&self, share: Share, first: &First, info: &Info) -> Status {
        let reasons = &self.config.reasons;
        let devices = match &first.devices {
            Some(devices) => devices,
            None => return Status::unresolvable(reasons.no_device),
        };
        if matches!(share.part, Part::Memory(_)) && info.node.mebibytes == 0 {
            return Status::unresolvable(reasons.no_memory_label);
        }
        match devices.demand_of_share(share) {
            demand if devices.can_never_fit(demand) => Status::unresolvable(reasons.insufficient_share),
            demand if !devices.fit(demand) => Status::unschedulable(reasons.insufficient_share),
            _ => Status::SUCCESS,
        }
    }

    /// To pack shares is to leave devices free first, and nodes second.
    fn score_share(&self, share: Share, first: &First) -> i64 {
        let devices = match &first.devices {
            Some(devices) => devices,
            None => return 0,
        };
        let demand = devices.demand_of_share(share);
        let level = devices.level_with(Some(demand));
        match (self.request.node_policy, self.request.gpu_policy) {
            (Policy::Binpack, Policy::Binpack) if devices.fit_in_use(demand) => 50 + level / 2,
            (Policy::Binpack, Policy::Binpack) => level / 2,
            (node_policy, _) => node_policy.score(level),
        }
    }

    fn score_first(&self, count: i64, first: &First) -> i64 {
        if first.allocatable == 0 {
            return 0; // How full the node is, DRA alone knows.
        }
        self.request.node_policy.score(self.level(count, first))
    }

    fn score_other(&self, resource: &Resource, count: i64, info: &Info) -> i64 {
        match level_of(resource, count, info) {
            None => 0, // As above.
            Some(level) => self.request.node_policy.score(level),
        }
    }

    /// A node without devices is best. With them, a full one is better than one that a larger pod may need.
    fn score_without_devices(&self, first: &First, info: &Info) -> i64 {
        if first.allocatable > 0 {
            return self.level(0, first) / 2;
        }
        let mut others = self.config.resources.iter().skip(1);
        others.find_map(|resource| level_of(resource, 0, info)).map_or(100, |level| level / 2)
    }

    /// How full the node is of the first resource with so much more of it, in percent.
    fn level(&self, count: i64, first: &First) -> i64 {
        match &first.devices {
            Some(devices) => devices.level_with(self.demand(devices)),
            None => percent(first.requested.saturating_add(count), first.allocatable),
        }
    }

    fn fit(&self, devices: &Devices) -> bool {
        self.demand(devices).map_or(true, |demand| devices.fit(demand))
    }

    /// What the pod asks for of the first resource; None for nothing.
    fn demand(&self, devices: &Devices) -> Option<Demand> {
        demand(devices, self.request.whole.first().copied().unwrap_or(0), self.request.share)
    }

    /// The resources that the pod asks for, each with its place in the configuration and how much.
    fn asked(&self) -> impl Iterator<Item = (usize, &Resource, i64)> {
        let resources = self.config.resources.iter().enumerate();
        let all = resources.zip(&self.request.whole).map(|((at, resource), count)| (at, resource, *count));
        all.filter(|(_, _, count)| *count > 0)
    }

    /// What `judge` says of the first resource without those pods.
    fn with_first<T>(&self, info: &Info, without: &[Label], judge: impl FnOnce(&First) -> T) -> T {
        if !without.is_empty() {
            return judge(&self.first(info, without));
        }
        let mut kept = info.node.first.borrow_mut();
        if kept.generation != info.generation() {
            *kept = self.first(info, &[]);
        }
        judge(&kept)
    }

    fn first(&self, info: &Info, without: &[Label]) -> First {
        let generation = info.generation();
        match self.config.resources.first() {
            None => First { generation, ..First::default() },
            Some(resource) => {
                let allocatable = info.allocatable.scalar(&resource.name);
                let are_told_apart = (1..=MAX_DEVICES as i64).contains(&allocatable);
                let devices = are_told_apart.then(|| devices(info, resource, allocatable as usize, without));
                First { generation, allocatable, requested: requested(info, resource, without), devices }
            }
        }
    }
}

fn devices(info: &Info, first: &Resource, count: usize, without: &[Label]) -> Devices {
    let mut devices = Devices::new(count, info.node.mebibytes);
    let mut taken = Vec::new();
    for pod in info.pods().filter(|pod| !without.contains(&pod.pod.uid)) {
        let whole = pod.requests.resources.scalar(&first.name);
        if let Some(demand) = demand(&devices, whole, pod.pod.share) {
            taken.push((demand, pod.pod.devices.as_slice()));
        }
    }
    devices.take(taken.into_iter());
    devices
}

/// What a pod asks for that wants so many whole devices, else a share.
fn demand(devices: &Devices, whole: i64, share: Option<Share>) -> Option<Demand> {
    match share {
        _ if whole > 0 => Some(devices.demand_of_whole(whole)),
        Some(share) => Some(devices.demand_of_share(share)),
        None => None,
    }
}

/// How full a node is of a resource with so much more of it, in percent; None where it has none.
fn level_of(resource: &Resource, count: i64, info: &Info) -> Option<i64> {
    let allocatable = info.allocatable.scalar(&resource.name);
    (allocatable > 0).then(|| percent(requested(info, resource, &[]).saturating_add(count), allocatable))
}

/// How much of a resource the pods of a node ask for, without those of these UIDs. As in the sum of all, what leaves
/// 64 bits wraps, and so comes back.
fn requested(info: &Info, resource: &Resource, without: &[Label]) -> i64 {
    let all = info.requested().resources.scalar(&resource.name);
    if without.is_empty() {
        return all;
    }
    let gone = info.pods().filter(|pod| without.contains(&pod.pod.uid));
    gone.fold(all, |left, pod| left.wrapping_sub(pod.requests.resources.scalar(&resource.name)))
}
