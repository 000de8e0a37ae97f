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
    /// The devices, and the generation of the node at which they were so.
    devices: RefCell<Option<(u64, Devices)>>,
}

impl GpuNode {
    pub fn new(node: &Node, config: &Config) -> Result<GpuNode> {
        let label = node.metadata()?.label(&config.memory_label)?;
        Ok(GpuNode { mebibytes: share::memory(label), devices: RefCell::default() })
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
        let status = self.request.share.map_or(Status::SUCCESS, |share| self.filter_share(share, info, without));
        if status != Status::SUCCESS {
            return status;
        }
        self.filter_whole(info, without)
    }

    /// How good the node is for the pod, from 0 to 100.
    pub fn score(&self, info: &Info) -> i32 {
        let score = match (self.request.share, self.asked().next()) {
            (Some(share), _) => self.score_share(share, info),
            (None, Some((at, resource, count))) => self.score_whole(at, resource, count, info),
            (None, None) => self.score_without_devices(info),
        };
        score as i32
    }

    /// The indices of devices for the pod, which may be on the node already; none where it asks for none, or where
    /// they are not told apart. The error is the reason against the node.
    pub fn choose(&self, info: &Info, uid: &Label) -> std::result::Result<Vec<usize>, Status> {
        let without = slice::from_ref(uid);
        let status = self.filter(info, without);
        if status != Status::SUCCESS {
            return Err(status);
        }
        if !self.has_devices(info) {
            return Ok(Vec::new());
        }
        let policy = self.request.gpu_policy;
        let chosen = self.with_devices(info, without, |devices| devices.choose(self.demand(devices)?, policy));
        Ok(chosen.unwrap_or_default())
    }

    fn filter_whole(&self, info: &Info, without: &[Label]) -> Status {
        for (at, resource, count) in self.asked() {
            let allocatable = info.allocatable.scalar(&resource.name);
            if allocatable == 0 {
                continue; // The devices are those of DRA: kube-scheduler has found that there are enough.
            }
            if count > allocatable {
                return Status::unresolvable(resource.insufficient);
            }
            if count > allocatable.saturating_sub(requested(info, resource, without)) {
                return Status::unschedulable(resource.insufficient);
            }
            if at == 0 && self.has_devices(info) && !self.with_devices(info, without, |devices| self.fit(devices)) {
                return Status::unschedulable(self.config.reasons.insufficient_unshared);
            }
        }
        Status::SUCCESS
    }

    fn filter_share(&self, share: Share, info: &Info, without: &[Label]) -> Status {
        let reasons = &self.config.reasons;
        if !self.has_devices(info) {
            return Status::unresolvable(reasons.no_device);
        }
        if matches!(share.part, Part::Memory(_)) && info.node.mebibytes == 0 {
            return Status::unresolvable(reasons.no_memory_label);
        }
        self.with_devices(info, without, |devices| match devices.demand_of_share(share) {
            demand if devices.can_never_fit(demand) => Status::unresolvable(reasons.insufficient_share),
            demand if !devices.fit(demand) => Status::unschedulable(reasons.insufficient_share),
            _ => Status::SUCCESS,
        })
    }

    /// To pack shares is to leave devices free first, and nodes second.
    fn score_share(&self, share: Share, info: &Info) -> i64 {
        if !self.has_devices(info) {
            return 0;
        }
        let (node_policy, gpu_policy) = (self.request.node_policy, self.request.gpu_policy);
        self.with_devices(info, &[], |devices| {
            let demand = devices.demand_of_share(share);
            let level = devices.level_with(Some(demand));
            match (node_policy, gpu_policy) {
                (Policy::Binpack, Policy::Binpack) if devices.fit_in_use(demand) => 50 + level / 2,
                (Policy::Binpack, Policy::Binpack) => level / 2,
                _ => node_policy.score(level),
            }
        })
    }

    fn score_whole(&self, at: usize, resource: &Resource, count: i64, info: &Info) -> i64 {
        if info.allocatable.scalar(&resource.name) == 0 {
            return 0; // How full the node is, DRA alone knows.
        }
        self.request.node_policy.score(self.level(at, resource, count, info))
    }

    /// A node without devices is best. With them, a full one is better than one that a larger pod may need.
    fn score_without_devices(&self, info: &Info) -> i64 {
        let mut resources = self.config.resources.iter().enumerate();
        match resources.find(|(_, resource)| info.allocatable.scalar(&resource.name) > 0) {
            Some((at, resource)) => self.level(at, resource, 0, info) / 2,
            None => 100,
        }
    }

    /// How full the node is of a resource with so much more of it, in percent.
    fn level(&self, at: usize, resource: &Resource, count: i64, info: &Info) -> i64 {
        if at == 0 && self.has_devices(info) {
            return self.with_devices(info, &[], |devices| devices.level_with(self.demand(devices)));
        }
        percent(requested(info, resource, &[]).saturating_add(count), info.allocatable.scalar(&resource.name))
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

    /// Whether devices of the first resource are told apart.
    fn has_devices(&self, info: &Info) -> bool {
        (1..=MAX_DEVICES as i64).contains(&self.count(info))
    }

    fn count(&self, info: &Info) -> i64 {
        self.config.resources.first().map_or(0, |first| info.allocatable.scalar(&first.name))
    }

    /// What `judge` says of the devices without those pods.
    fn with_devices<T>(&self, info: &Info, without: &[Label], judge: impl FnOnce(&Devices) -> T) -> T {
        if !without.is_empty() {
            return judge(&self.devices(info, without));
        }
        let mut kept = info.node.devices.borrow_mut();
        match &*kept {
            Some((generation, devices)) if *generation == info.generation() => judge(devices),
            _ => judge(&kept.insert((info.generation(), self.devices(info, &[]))).1),
        }
    }

    fn devices(&self, info: &Info, without: &[Label]) -> Devices {
        let mut devices = Devices::new(self.count(info) as usize, info.node.mebibytes);
        let mut taken = Vec::new();
        for pod in info.pods().filter(|pod| !without.contains(&pod.pod.uid)) {
            let whole = self.config.resources.first().map_or(0, |first| pod.requests.resources.scalar(&first.name));
            if let Some(demand) = demand(&devices, whole, pod.pod.share) {
                taken.push((demand, pod.pod.devices.as_slice()));
            }
        }
        devices.take(taken.into_iter());
        devices
    }
}

/// What a pod asks for that wants so many whole devices, else a share.
fn demand(devices: &Devices, whole: i64, share: Option<Share>) -> Option<Demand> {
    match share {
        _ if whole > 0 => Some(devices.demand_of_whole(whole)),
        Some(share) => Some(devices.demand_of_share(share)),
        None => None,
    }
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
