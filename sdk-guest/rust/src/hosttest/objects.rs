//! Pods and nodes as tests make them. Field numbers are those of `k8s.io/api/core/v1/generated.proto`.

use super::cluster::words;
use crate::groups::GroupKey;
use crate::node::Node;
use crate::pod::Pod;
use std::time::Duration;

/// What is known of a group of pods.
#[derive(Clone, Debug, Default)]
pub struct Group {
    pub namespace: String,
    pub name: String,
    /// Whether its pods name it by `spec.schedulingGroup`, and not by a label.
    pub is_native: bool,
    /// 0 where nobody says how many pods it needs, as with the times below.
    pub minimum: u32,
    pub timeout: Duration,
    pub priority: i32,
    /// Seconds of Unix time.
    pub created: u64,
}

/// A pod without anything but a name. It is in the namespace `default`, and has one container.
pub fn pod(name: &str) -> PodObject {
    PodObject {
        namespace: "default".into(),
        name: name.into(),
        uid: format!("uid of default/{}", name),
        metadata: Vec::new(),
        requests: Vec::new(),
        spec: Vec::new(),
        status: Vec::new(),
        node: String::new(),
    }
}

/// A node without anything but a name.
pub fn node(name: &str) -> NodeObject {
    NodeObject { name: name.into(), metadata: Vec::new(), spec: Vec::new(), status: Vec::new() }
}

/// A pod that a test makes.
#[derive(Clone, Debug)]
pub struct PodObject {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    metadata: Vec<u8>,
    /// Of its container.
    requests: Vec<u8>,
    spec: Vec<u8>,
    status: Vec<u8>,
    pub(super) node: String,
}

/// A node that a test makes.
#[derive(Clone, Debug)]
pub struct NodeObject {
    pub(super) name: String,
    metadata: Vec<u8>,
    spec: Vec<u8>,
    status: Vec<u8>,
}

impl Group {
    pub(super) fn key(&self) -> GroupKey {
        GroupKey::named(self.is_native, self.namespace.as_bytes(), self.name.as_bytes())
    }

    /// That of "Records of groups" in ABI.md.
    pub(super) fn record(&self, number: u32) -> Vec<u8> {
        let numbers = [
            number,
            1,
            if self.is_native { 1 } else { 2 },
            self.minimum,
            self.timeout.as_secs() as u32,
            self.priority as u32,
            self.created as u32,
            (self.created >> 32) as u32,
            self.namespace.len() as u32,
            self.name.len() as u32,
        ];
        [&words(&numbers), self.namespace.as_bytes(), self.name.as_bytes()].concat()
    }
}

impl PodObject {
    pub fn namespace(mut self, namespace: &str) -> PodObject {
        self.namespace = namespace.into();
        self.uid = format!("uid of {}", self.key());
        self
    }

    pub fn uid(mut self, uid: &str) -> PodObject {
        self.uid = uid.into();
        self
    }

    pub fn label(mut self, key: &str, value: &str) -> PodObject {
        self.metadata.extend(entry(11, key, value.as_bytes()));
        self
    }

    pub fn annotation(mut self, key: &str, value: &str) -> PodObject {
        self.metadata.extend(entry(12, key, value.as_bytes()));
        self
    }

    /// How much of a resource its container asks for, as in `request("cpu", "500m")`.
    pub fn request(mut self, resource: &str, quantity: &str) -> PodObject {
        self.requests.extend(entry(2, resource, &message(1, quantity.as_bytes())));
        self
    }

    /// The group that its `spec.schedulingGroup` names.
    pub fn group(self, name: &str) -> PodObject {
        let group = message(43, &message(1, name.as_bytes()));
        self.spec(&group)
    }

    /// The node that it is on.
    pub fn on(mut self, node: &str) -> PodObject {
        self.node = node.into();
        self
    }

    /// More fields of its spec, as protobuf.
    pub fn spec(mut self, fields: &[u8]) -> PodObject {
        self.spec.extend_from_slice(fields);
        self
    }

    /// More fields of its status, as protobuf.
    pub fn status(mut self, fields: &[u8]) -> PodObject {
        self.status.extend_from_slice(fields);
        self
    }

    /// The pod as the plugin reads it.
    pub fn read(&self) -> Pod {
        Pod::new(self.protobuf())
    }

    pub(super) fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    pub(crate) fn protobuf(&self) -> Vec<u8> {
        let metadata = [
            message(1, self.name.as_bytes()),
            message(3, self.namespace.as_bytes()),
            message(5, self.uid.as_bytes()),
            self.metadata.clone(),
        ];
        let container = [message(1, b"main"), message(8, &self.requests)].concat();
        let node = if self.node.is_empty() { Vec::new() } else { message(10, self.node.as_bytes()) };
        let spec = [message(2, &container), node, self.spec.clone()];
        object(&metadata.concat(), &spec.concat(), &self.status)
    }
}

impl NodeObject {
    pub fn label(mut self, key: &str, value: &str) -> NodeObject {
        self.metadata.extend(entry(11, key, value.as_bytes()));
        self
    }

    pub fn annotation(mut self, key: &str, value: &str) -> NodeObject {
        self.metadata.extend(entry(12, key, value.as_bytes()));
        self
    }

    /// How much of a resource pods may use, as in `allocatable("memory", "32Gi")`.
    pub fn allocatable(self, resource: &str, quantity: &str) -> NodeObject {
        let quantity = entry(2, resource, &message(1, quantity.as_bytes()));
        self.status(&quantity)
    }

    /// More fields of its spec, as protobuf.
    pub fn spec(mut self, fields: &[u8]) -> NodeObject {
        self.spec.extend_from_slice(fields);
        self
    }

    /// More fields of its status, as protobuf.
    pub fn status(mut self, fields: &[u8]) -> NodeObject {
        self.status.extend_from_slice(fields);
        self
    }

    /// The node as the plugin reads it.
    pub fn read(&self) -> Node {
        Node::new(self.protobuf())
    }

    pub(super) fn protobuf(&self) -> Vec<u8> {
        let metadata = [message(1, self.name.as_bytes()), self.metadata.clone()];
        object(&metadata.concat(), &self.spec, &self.status)
    }
}

fn object(metadata: &[u8], spec: &[u8], status: &[u8]) -> Vec<u8> {
    [message(1, metadata), message(2, spec), message(3, status)].concat()
}

/// A field that is a message, a text or bytes.
pub(super) fn message(number: u32, contents: &[u8]) -> Vec<u8> {
    let mut field = varint(u64::from(number) << 3 | 2);
    field.extend(varint(contents.len() as u64));
    field.extend_from_slice(contents);
    field
}

/// An entry of a field that is a map.
fn entry(number: u32, key: &str, value: &[u8]) -> Vec<u8> {
    message(number, &[message(1, key.as_bytes()), message(2, value)].concat())
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

#[cfg(test)]
mod tests {
    use super::{message, node, pod, GroupKey};

    #[test]
    fn a_pod_has_what_it_was_given() {
        let long = "x".repeat(300);
        let priority = [0xc8, 1, 7];
        let made = pod("web-1").namespace("ml").label("app", &long).annotation("note", "a").request("cpu", "1500m");
        let made = made.group("train").on("node-1").spec(&priority).status(&message(3, b"why")).read();
        let (metadata, spec) = (made.metadata().unwrap(), made.spec().unwrap());
        assert_eq!((metadata.name(), metadata.namespace()), (Ok(&b"web-1"[..]), Ok(&b"ml"[..])));
        assert_eq!(metadata.uid(), Ok(&b"uid of ml/web-1"[..]));
        assert_eq!(metadata.label("app"), Ok(Some(long.as_bytes())));
        assert_eq!(metadata.annotation("note"), Ok(Some(&b"a"[..])));
        assert_eq!((spec.bytes(10), spec.integer(25)), (Ok(Some(&b"node-1"[..])), Ok(7)));
        assert_eq!(made.requests().unwrap().resources.milli_cpu, 1500);
        assert_eq!(made.status().unwrap().bytes(3), Ok(Some(&b"why"[..])));
        assert!(GroupKey::of(&made).unwrap().unwrap().is_native());
        assert_eq!(pod("a").uid("u-1").read().metadata().unwrap().uid(), Ok(&b"u-1"[..]));
    }

    #[test]
    fn a_node_has_what_it_was_given() {
        let made =
            node("a").label("zone", "z1").annotation("note", "b").allocatable("cpu", "2").allocatable("pods", "9");
        let made = made.spec(&[0x20, 1]).read();
        let metadata = made.metadata().unwrap();
        assert_eq!((metadata.name(), metadata.label("zone")), (Ok(&b"a"[..]), Ok(Some(&b"z1"[..]))));
        assert_eq!(metadata.annotation("note"), Ok(Some(&b"b"[..])));
        assert_eq!(made.spec().unwrap().integer(4), Ok(1));
        assert_eq!(made.allocatable("pods").unwrap().unwrap().value(), Ok(9));
        assert_eq!(made.allocatable("cpu").unwrap().unwrap().milli_value(), Ok(2000));
    }
}
