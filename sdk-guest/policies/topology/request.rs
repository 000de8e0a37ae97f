use crate::config::Config;
use guest::{Pod, Result};

/// The annotations by which pods ask, as Kueue and KAI have them.
const REQUIRED: [&str; 2] = ["kueue.x-k8s.io/podset-required-topology", "kai.scheduler/topology-required-placement"];
const PREFERRED: [&str; 2] = ["kueue.x-k8s.io/podset-preferred-topology", "kai.scheduler/topology-preferred-placement"];

/// Which levels count for a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// One domain of this level has to take the whole group.
    pub required: Option<usize>,
    /// The narrowest level at which as few domains as possible should take the group; never wider than `required`.
    pub preferred: Option<usize>,
}

impl Request {
    /// What the pod's annotations say, else the configuration, which is for pods of a group. The error is the reason
    /// against all nodes.
    pub fn of(pod: &Pod, has_group: bool, config: &Config) -> Result<std::result::Result<Request, String>> {
        let annotation = |keys: &[&'static str]| -> Result<Option<(&'static str, Vec<u8>)>> {
            for key in keys {
                if let Some(value) = pod.metadata()?.annotation(key)? {
                    return Ok(Some((*key, value.to_vec())));
                }
            }
            Ok(None)
        };
        let (required, preferred) = (annotation(&REQUIRED)?, annotation(&PREFERRED)?);
        if !has_group && required.is_none() && preferred.is_none() {
            return Ok(Ok(Request::default()));
        }
        let mut request = Request { required: None, preferred: config.preferred };
        match required {
            None if preferred.is_none() => request.required = config.required,
            None => {}
            Some((key, label)) => match config.named(&label) {
                Some(level) => request.required = Some(level),
                None => return Ok(Err(unknown(key, &label, config))),
            },
        }
        if let Some(level) = preferred.and_then(|(_, label)| config.named(&label)) {
            request.preferred = Some(level);
        }
        request.preferred = request.preferred.max(request.required);
        Ok(Ok(request))
    }

    pub fn is_nothing(&self) -> bool {
        self.required.is_none() && self.preferred.is_none()
    }
}

fn unknown(key: &str, label: &[u8], config: &Config) -> String {
    let label: String = String::from_utf8_lossy(label).chars().take(64).collect();
    format!("the pod's annotation {} is {}, and the levels of topology are {}", key, label, config.labels())
}
