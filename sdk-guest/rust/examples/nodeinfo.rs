//! Tells what is known of nodes with the pods on them: rejects each node, with that as the reason, in JSON.

use guest::{NodeInfo, Plugin, Pod, ResidentPod, Resources, Result, Status};
use std::fmt::Write;

struct Teller;

/// Namespace and name.
struct Name(String);

impl ResidentPod for Name {
    fn new(pod: &Pod) -> Result<Name> {
        let metadata = pod.metadata()?;
        let [namespace, name] = [metadata.namespace()?, metadata.name()?].map(String::from_utf8_lossy);
        Ok(Name(format!("{}/{}", namespace, name)))
    }
}

impl Plugin for Teller {
    type Wish = ();
    type Resident = NodeInfo<Name>;

    fn new() -> Result<Teller> {
        Ok(Teller)
    }

    fn wish(&self, _: &Pod) -> Result<()> {
        Ok(())
    }

    fn resident(&self, name: &[u8]) -> Result<NodeInfo<Name>> {
        NodeInfo::new(&guest::node(name).unwrap_or_default(), ())
    }

    fn filter(&self, _: &(), node: &NodeInfo<Name>) -> Status {
        Status::unschedulable(json(node))
    }
}

fn json(node: &NodeInfo<Name>) -> String {
    let requested = node.requested();
    let names = |is_tentative: bool| {
        let names = node.pods().filter(|pod| pod.is_tentative == is_tentative);
        names.map(|pod| format!("\"{}\"", pod.pod.0)).collect::<Vec<_>>().join(",")
    };
    format!(
        "{{\"allocatable\":{},\"requested\":{},\"free\":{},\"nonZeroRequested\":{{\"milliCPU\":{},\"memory\":{}}},\
         \"pods\":[{}],\"tentative\":[{}]}}",
        of_resources(&node.allocatable),
        of_resources(&requested.resources),
        of_resources(&node.free()),
        requested.non_zero_milli_cpu,
        requested.non_zero_memory,
        names(false),
        names(true),
    )
}

fn of_resources(resources: &Resources) -> String {
    let mut scalars = String::new();
    for (name, amount) in resources.scalars() {
        let comma = if scalars.is_empty() { "" } else { "," };
        let _ = write!(scalars, "{}\"{}\":{}", comma, String::from_utf8_lossy(&name.text()), amount);
    }
    format!(
        "{{\"milliCPU\":{},\"memory\":{},\"ephemeralStorage\":{},\"pods\":{},\"scalars\":{{{}}}}}",
        resources.milli_cpu, resources.memory, resources.ephemeral_storage, resources.pods, scalars
    )
}

guest::export!(Teller: prefilter, filter; pods);

#[cfg(test)]
mod tests {
    use super::json;
    use guest::{Node, NodeInfo, Pod};

    #[test]
    fn all_that_is_known() {
        let node = Node::new(b"\x1a\x18\x12\x16\x0a\x0fa.b/accelerator\x12\x03\x0a\x012".to_vec());
        let mut info = NodeInfo::new(&node, ()).unwrap();
        info.add_pod(&Pod::new(b"\x0a\x08\x0a\x01p\x1a\x03ns1".to_vec())).unwrap();
        let nothing = r#""milliCPU":0,"memory":0,"ephemeralStorage":0"#;
        let expected = [
            r#"{"allocatable":{"#,
            nothing,
            r#","pods":0,"scalars":{"a.b/accelerator":2}},"requested":{"#,
            nothing,
            r#","pods":1,"scalars":{}},"free":{"#,
            nothing,
            r#","pods":-1,"scalars":{"a.b/accelerator":2}},"nonZeroRequested":{"milliCPU":0,"memory":0},"#,
            r#""pods":["ns1/p"],"tentative":[]}"#,
        ];
        assert_eq!(json(&info), expected.concat());
    }
}
