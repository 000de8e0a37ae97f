//! What a pod asks for, as kube-scheduler counts it: `PodRequests` of k8s.io/component-helpers/resource, called as
//! `CalculateResource` of pkg/scheduler/framework/types.go does, in Kubernetes 1.37 with its default features. Field
//! numbers are those of `k8s.io/api/core/v1/generated.proto`.

use crate::amount::{Amount, Amounts};
use crate::containers::{Container, Containers};
use crate::pod::Pod;
use crate::protobuf::Message;
use crate::resources::Resources;
use crate::status::Result;

/// What counts for scores where a container does not ask (pkg/scheduler/util/pod_resources.go).
const DEFAULTS: [(&[u8], Amount); 2] = [(b"cpu", Amount::new(0, 100_000_000)), (b"memory", Amount::new(200 << 20, 0))];

/// What one pod asks for, or all pods of a node do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    pub resources: Resources,
    /// The same with 100 millicores for each container that asks for no cpu. The scheduler's scores count it.
    pub non_zero_milli_cpu: i64,
    /// The same with 200 MiB for each container that asks for no memory, in bytes.
    pub non_zero_memory: i64,
}

impl Requests {
    pub(crate) fn of(pod: &Pod) -> Result<Requests> {
        let parts = Parts::read(pod)?;
        let amounts = parts.sum(&Amounts::default());
        let mut resources = Resources::of(&amounts);
        resources.pods = 1;
        let missing = parts.missing(&amounts);
        let non_zero = if parts.containers.name_all(&missing) { amounts } else { parts.sum(&missing) };
        Ok(Requests {
            resources,
            non_zero_milli_cpu: non_zero.get(b"cpu").unwrap_or_default().milli_value(),
            non_zero_memory: non_zero.get(b"memory").unwrap_or_default().value(),
        })
    }

    /// Adds `times` as much as the other has.
    pub(crate) fn add(&mut self, times: i64, other: &Requests) {
        self.resources.add(times, &other.resources);
        self.non_zero_milli_cpu = self.non_zero_milli_cpu.wrapping_add(times.wrapping_mul(other.non_zero_milli_cpu));
        self.non_zero_memory = self.non_zero_memory.wrapping_add(times.wrapping_mul(other.non_zero_memory));
    }
}

/// All of a pod that counts.
struct Parts<'a> {
    containers: Containers<'a>,
    overhead: Amounts<'a>,
    /// What takes the place of the containers' sum, by resource.
    whole: Amounts<'a>,
    /// Whether the pod's spec asks for anything as a whole.
    asks_as_whole: bool,
    /// What the pod has got as a whole, by its status; empty if that is not known.
    granted: Amounts<'a>,
    /// Whether the spec is more than the node will ever give, so that the status alone counts.
    is_infeasible: bool,
}

impl<'a> Parts<'a> {
    fn read(pod: &'a Pod) -> Result<Parts<'a>> {
        let (spec, status) = (pod.spec()?, pod.status()?);
        let is_infeasible = is_infeasible(status)?;
        let wished = Amounts::read(spec.child(40)?, 2)?;
        let asks_as_whole = wished.iter().any(|(name, _)| is_for_pods(name));
        let allocated = Amounts::read(status, 19)?;
        let actuated = Amounts::read(status.child(20)?, 2)?;
        let is_resized = status.bytes(20)?.is_some();
        let mut whole = Amounts::default();
        if asks_as_whole {
            if !(is_resized && is_infeasible) {
                whole.raise(&wished);
            }
            if is_resized {
                whole.raise(&actuated);
                whole.raise(&allocated);
            }
        }
        let mut granted = Amounts::default();
        if !allocated.is_empty() && !actuated.is_empty() {
            granted.raise(&actuated);
            granted.raise(&allocated);
        }
        Ok(Parts {
            containers: Containers::read(spec, status, is_infeasible)?,
            overhead: Amounts::read(spec, 32)?,
            whole,
            asks_as_whole,
            granted,
            is_infeasible,
        })
    }

    /// What the pod asks for, with `missing` for each container that does not name these resources.
    fn sum(&self, missing: &Amounts<'a>) -> Amounts<'a> {
        let mut sum = self.granted.clone();
        if sum.is_empty() && !self.containers.have_what_they_ask_for() {
            sum.raise(&self.containers.sum(missing, Container::actuated));
            sum.raise(&self.containers.sum(missing, Container::allocated));
        }
        if !self.is_infeasible {
            sum.raise(&self.containers.sum(missing, Container::spec));
        }
        self.whole.iter().filter(|(name, _)| is_for_pods(name)).for_each(|(name, amount)| sum.set(name, amount));
        sum.add(&self.overhead);
        sum
    }

    /// What counts for a container that does not ask: nothing of what the pod as a whole has its say in
    /// (`getNonMissingContainerRequests`).
    fn missing(&self, sum: &Amounts<'a>) -> Amounts<'a> {
        let mut missing = Amounts::default();
        for (name, amount) in DEFAULTS {
            if !self.asks_as_whole || sum.get(name).is_none() {
                missing.set(name, amount);
            }
        }
        missing
    }
}

/// Whether the first condition about a resize says that the node will never do (`IsPodResizeInfeasible`).
fn is_infeasible(status: Message) -> Result<bool> {
    for condition in status.repeated(2) {
        let condition = Message(condition?);
        if condition.bytes(1)? == Some(&b"PodResizePending"[..]) {
            return Ok(condition.bytes(5)? == Some(&b"Infeasible"[..]));
        }
    }
    Ok(false)
}

/// Whether a pod may ask for the resource as a whole (`IsSupportedPodLevelResource`).
fn is_for_pods(name: &[u8]) -> bool {
    name == b"cpu" || name == b"memory" || name.starts_with(b"hugepages-")
}

#[cfg(test)]
mod tests {
    use super::Requests;
    use crate::label::Label;
    use crate::pod::Pod;

    const MIB: i64 = 1 << 20;

    /// A field of bytes, its tag of one byte or two.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let tag = u32::from(number) << 3 | 2;
        let mut field = if tag < 128 { vec![tag as u8] } else { vec![tag as u8 & 127 | 128, (tag >> 7) as u8] };
        let length = bytes.len();
        field.extend(if length < 128 {
            vec![length as u8]
        } else {
            vec![length as u8 & 127 | 128, (length >> 7) as u8]
        });
        field.extend_from_slice(bytes);
        field
    }

    /// A list of resources in a field, as `cpu=1 memory=2Mi`.
    fn list(number: u8, text: &str) -> Vec<u8> {
        let entry = |(name, quantity): (&str, &str)| {
            let entry = [field(1, name.as_bytes()), field(2, &field(1, quantity.as_bytes()))].concat();
            field(number, &entry)
        };
        text.split_whitespace().flat_map(|part| entry(part.split_once('=').unwrap())).collect()
    }

    fn container(requests: &str) -> Vec<u8> {
        field(2, &[field(1, b"c"), field(8, &list(2, requests))].concat())
    }

    fn init_container(name: &str, requests: &str, is_sidecar: bool) -> Vec<u8> {
        let policy = if is_sidecar { field(24, b"Always") } else { Vec::new() };
        field(20, &[field(1, name.as_bytes()), field(8, &list(2, requests)), policy].concat())
    }

    /// The status of the container `c`.
    fn status_of_c(allocated: &str, actuated: &str) -> Vec<u8> {
        field(8, &[field(1, b"c"), list(10, allocated), field(11, &list(2, actuated))].concat())
    }

    fn resize(reason: &str) -> Vec<u8> {
        field(2, &[field(1, b"PodResizePending"), field(5, reason.as_bytes())].concat())
    }

    fn requests(spec: &[Vec<u8>], status: &[Vec<u8>]) -> Requests {
        let pod = [field(2, &spec.concat()), field(3, &status.concat())].concat();
        Requests::of(&Pod::new(pod)).unwrap()
    }

    /// Millicores and bytes, and both with the defaults.
    fn cpu_and_memory(requests: &Requests) -> [i64; 4] {
        let resources = &requests.resources;
        [resources.milli_cpu, resources.memory, requests.non_zero_milli_cpu, requests.non_zero_memory]
    }

    #[test]
    fn containers_are_added_up_and_rounded_once() {
        let spec = [container("cpu=500u memory=0.5 ephemeral-storage=1Gi"), container("cpu=500u memory=0.5 a.b/gpu=2")];
        let found = requests(&spec, &[]);
        assert_eq!(cpu_and_memory(&found), [1, 1, 1, 1]);
        let gpu = found.resources.scalar(&Label::new(Some(b"a.b/gpu")));
        assert_eq!((found.resources.ephemeral_storage, found.resources.pods, gpu), (1 << 30, 1, 2));
    }

    #[test]
    fn each_container_that_does_not_ask_has_a_default_and_zero_is_asking() {
        let spec = [container(""), container("cpu=0"), container("memory=1Mi"), init_container("i", "cpu=50m", false)];
        assert_eq!(cpu_and_memory(&requests(&spec, &[])), [50, MIB, 200, 401 * MIB]);
    }

    #[test]
    fn init_containers_run_one_by_one_beside_the_sidecars_before_them() {
        let spec = [
            init_container("first", "cpu=4", false),
            init_container("proxy", "cpu=1 memory=10Mi", true),
            init_container("second", "cpu=3 memory=100Mi", false),
            init_container("logs", "memory=20Mi", true),
            container("cpu=2 memory=30Mi"),
        ];
        assert_eq!(cpu_and_memory(&requests(&spec, &[]))[..2], [4000, 110 * MIB]);
        assert_eq!(cpu_and_memory(&requests(&spec[1..], &[]))[..2], [4000, 110 * MIB]);
        assert_eq!(cpu_and_memory(&requests(&spec[3..], &[]))[..2], [2000, 50 * MIB]);
    }

    #[test]
    fn overhead_is_added_to_either() {
        let spec = [container("cpu=1"), list(32, "cpu=250m memory=8Mi")];
        assert_eq!(cpu_and_memory(&requests(&spec, &[])), [1250, 8 * MIB, 1250, 208 * MIB]);
    }

    #[test]
    fn what_a_pod_asks_for_as_a_whole_takes_the_place_of_the_sum() {
        let whole = field(40, &list(2, "cpu=3 example.com/gpu=9 hugepages-2Mi=4Mi"));
        let found = requests(&[container("cpu=1 memory=5Mi"), container(""), whole], &[]);
        assert_eq!(cpu_and_memory(&found), [3000, 5 * MIB, 3000, 5 * MIB]);
        let scalars: Vec<_> = found.resources.scalars().map(|(name, amount)| (name.text(), amount)).collect();
        assert_eq!(scalars, [(b"hugepages-2Mi".to_vec(), 4 * MIB)]);

        let whole = field(40, &list(2, "memory=1Mi"));
        assert_eq!(cpu_and_memory(&requests(&[container(""), whole], &[])), [0, MIB, 100, MIB]);
        let ignored = field(40, &list(2, "example.com/gpu=9"));
        assert_eq!(cpu_and_memory(&requests(&[container(""), ignored], &[])), [0, 0, 100, 200 * MIB]);
    }

    #[test]
    fn of_spec_and_status_the_larger_counts_and_the_status_alone_where_a_resize_is_infeasible() {
        let spec = [container("cpu=2 memory=10Mi")];
        let status = status_of_c("cpu=1 memory=20Mi", "cpu=1500m memory=5Mi");
        for (conditions, expected) in [
            (vec![], [2000, 20 * MIB]),
            (vec![resize("Deferred"), resize("Infeasible")], [2000, 20 * MIB]),
            (vec![resize("Infeasible"), resize("Deferred")], [1500, 20 * MIB]),
        ] {
            let status = [conditions, vec![status.clone()]].concat();
            assert_eq!(cpu_and_memory(&requests(&spec, &status))[..2], expected);
        }
        let unknown = [resize("Infeasible")];
        assert_eq!(cpu_and_memory(&requests(&spec, &unknown)), [0, 0, 100, 200 * MIB]);
        let allocated_alone = [resize("Infeasible"), status_of_c("cpu=1", "")];
        assert_eq!(cpu_and_memory(&requests(&spec, &allocated_alone)), [1000, 0, 1000, 200 * MIB]);
    }

    #[test]
    fn what_the_pod_has_got_as_a_whole_counts_in_place_of_its_containers_statuses() {
        let spec = [container("cpu=2"), field(40, &list(2, "cpu=2"))];
        let containers = status_of_c("cpu=9", "cpu=9");
        let resources = field(20, &list(2, "cpu=3 memory=1Mi"));
        let whole = [containers.clone(), list(19, "cpu=1"), resources.clone()];
        assert_eq!(cpu_and_memory(&requests(&spec, &whole))[..2], [3000, MIB]);
        let infeasible = [resize("Infeasible"), list(19, "cpu=1"), field(20, &list(2, "cpu=1500m"))];
        assert_eq!(cpu_and_memory(&requests(&spec, &infeasible))[..2], [1500, 0]);
        let actuated_alone = [containers, resources];
        assert_eq!(cpu_and_memory(&requests(&spec[..1], &actuated_alone))[..2], [9000, 0]);
    }

    #[test]
    fn what_cannot_be_counted_is_an_error() {
        for requests in ["cpu=x", "cpu=-1"] {
            let pod = Pod::new(field(2, &container(requests)));
            assert!(Requests::of(&pod).is_err(), "{}", requests);
        }
        assert_eq!(requests(&[container("cpu=-0")], &[]).resources.milli_cpu, 0);
    }

    #[test]
    fn requests_of_pods_are_added_and_taken_away() {
        let [one, other] = ["cpu=1 memory=1Mi", "cpu=2"].map(|text| requests(&[container(text)], &[]));
        let mut sum = one.clone();
        sum.add(1, &other);
        assert_eq!((cpu_and_memory(&sum), sum.resources.pods), ([3000, MIB, 3000, 201 * MIB], 2));
        sum.add(-1, &one);
        assert_eq!((cpu_and_memory(&sum), sum.resources.pods), ([2000, 0, 2000, 200 * MIB], 1));
    }
}
