use crate::config::Config;
use crate::policy::Policy;
use crate::problem::Problem;
use crate::share::Share;
use guest::{Metadata, Pod};

/// The annotations by which a pod chooses its policies.
const NODE_POLICY: &str = "hami.io/node-scheduler-policy";
const GPU_POLICY: &str = "hami.io/gpu-scheduler-policy";

/// What a pod asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// How much of each resource of the configuration, in whole devices.
    pub whole: Vec<i64>,
    /// The share of devices of the first resource.
    pub share: Option<Share>,
    pub node_policy: Policy,
    pub gpu_policy: Policy,
}

impl Request {
    pub fn of(pod: &Pod, config: &Config) -> Result<Request, Problem> {
        let metadata = pod.metadata()?;
        let resources = pod.requests()?.resources;
        let request = Request {
            whole: config.resources.iter().map(|resource| resources.scalar(&resource.name)).collect(),
            share: Share::of(metadata)?,
            node_policy: policy(metadata, NODE_POLICY, config.node_policy)?,
            gpu_policy: policy(metadata, GPU_POLICY, config.gpu_policy)?,
        };
        match (config.resources.first(), request.whole.first()) {
            (Some(first), Some(whole)) if *whole > 0 && request.share.is_some() => {
                let name = String::from_utf8_lossy(&first.name.text()).into_owned();
                Err(Problem(format!("the pod asks for whole {} and for a share of one: leave out either", name)))
            }
            _ => Ok(request),
        }
    }

    pub fn is_nothing(&self) -> bool {
        self.share.is_none() && self.whole.iter().all(|count| *count == 0)
    }
}

/// The policy that a pod's annotation names, else `usual`.
fn policy(metadata: Metadata, annotation: &str, usual: Policy) -> Result<Policy, Problem> {
    let name = match metadata.annotation(annotation)? {
        Some(name) => name,
        None => return Ok(usual),
    };
    Policy::named(name).ok_or_else(|| {
        let shown: String = String::from_utf8_lossy(name).chars().take(64).collect();
        Problem(format!("annotation {} must be binpack or spread, not {:?}", annotation, shown))
    })
}
