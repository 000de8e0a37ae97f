//! What extension points answer that say more than a status.

use crate::host;
use crate::status::{Code, Status};
use std::borrow::Cow;
use std::time::Duration;

/// The nominating mode that has the named node be the pod's (ModeOverride).
const OVERRIDE: i64 = 1;

/// The answer of PreFilter. A status alone leaves all nodes to Filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreFilter {
    pub status: Status,
    /// The only nodes to look at; None for all.
    pub nodes: Option<Vec<String>>,
}

impl PreFilter {
    /// Leaves these nodes to Filter. With no name the pod is rejected.
    pub fn only(nodes: Vec<String>) -> PreFilter {
        PreFilter { status: Status::SUCCESS, nodes: Some(nodes) }
    }

    /// Hands names and reason to the host and returns the code.
    pub(crate) fn send(self) -> i32 {
        match self.nodes {
            Some(nodes) if nodes.is_empty() && self.status.code == Code::Success => {
                // To the host no name means every node.
                Status::unresolvable("PreFilter leaves no node").send()
            }
            Some(nodes) => {
                let names = terminated(&nodes);
                // SAFETY: the host reads that many bytes.
                unsafe { host::result_node_names(names.as_ptr(), names.len()) };
                self.status.send()
            }
            None => self.status.send(),
        }
    }
}

impl From<Status> for PreFilter {
    fn from(status: Status) -> PreFilter {
        PreFilter { status, nodes: None }
    }
}

/// The answer of PostFilter. A status alone nominates no node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostFilter {
    pub status: Status,
    pub nominated: Option<String>,
}

impl PostFilter {
    /// The pod is to come to this node once there is room.
    pub fn nominate(node: String) -> PostFilter {
        PostFilter { status: Status::SUCCESS, nominated: Some(node) }
    }

    /// Hands name and reason to the host and returns mode and code.
    pub(crate) fn send(&self) -> i64 {
        let mode = match &self.nominated {
            Some(name) => {
                // SAFETY: the host reads that many bytes.
                unsafe { host::result_nominated_node_name(name.as_ptr(), name.len()) };
                OVERRIDE
            }
            None => 0,
        };
        mode << 32 | i64::from(self.status.send())
    }
}

impl From<Status> for PostFilter {
    fn from(status: Status) -> PostFilter {
        PostFilter { status, nominated: None }
    }
}

/// The answer of Permit. A status alone is final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    pub status: Status,
    /// How long the pod waits at most, if the code is Wait.
    pub timeout: Duration,
}

impl Permit {
    /// The pod waits. A rejection ends that, or the time.
    pub fn wait(timeout: Duration, reason: impl Into<Cow<'static, str>>) -> Permit {
        Permit { status: Status { code: Code::Wait, reason: reason.into() }, timeout }
    }

    /// Hands the reason to the host and returns code and milliseconds.
    pub(crate) fn send(&self) -> i64 {
        i64::from(self.status.send()) << 32 | i64::from(milliseconds(self.timeout))
    }
}

impl From<Status> for Permit {
    fn from(status: Status) -> Permit {
        Permit { status, timeout: Duration::ZERO }
    }
}

/// Each name ended by a NUL.
fn terminated(names: &[String]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for name in names {
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(0);
    }
    bytes
}

/// Keys and values in turn, each ended by a NUL.
pub(crate) fn pairs(annotations: &[(String, String)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (key, value) in annotations {
        for text in [key, value] {
            bytes.extend_from_slice(text.as_bytes());
            bytes.push(0);
        }
    }
    bytes
}

/// Bytes as they are in the memory of numbers.
pub(crate) fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(4).map(word).collect()
}

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

/// Rounded up, so that no wait ends before its time.
fn milliseconds(timeout: Duration) -> u32 {
    let begun = u64::from(timeout.subsec_nanos() % 1_000_000 > 0);
    let whole = timeout.as_secs().saturating_mul(1000).saturating_add(u64::from(timeout.subsec_millis()));
    u32::try_from(whole.saturating_add(begun)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{milliseconds, pairs, terminated, words, Permit, PostFilter, PreFilter};
    use crate::status::{Code, Status};
    use std::time::Duration;

    #[test]
    fn a_status_is_an_answer() {
        let status = Status::unschedulable("full");
        assert_eq!(PreFilter::from(status.clone()), PreFilter { status: status.clone(), nodes: None });
        assert_eq!(PostFilter::from(status.clone()), PostFilter { status: status.clone(), nominated: None });
        assert_eq!(Permit::from(status.clone()), Permit { status, timeout: Duration::ZERO });
    }

    #[test]
    fn who_waits_is_told_why() {
        let second = Duration::from_secs(1);
        let status = Status { code: Code::Wait, reason: "for the others".into() };
        assert_eq!(Permit::wait(second, "for the others"), Permit { status, timeout: second });
    }

    #[test]
    fn each_name_ends_with_a_nul() {
        assert_eq!(terminated(&[]), b"");
        assert_eq!(terminated(&["a".into(), "node-b".into()]), b"a\0node-b\0");
    }

    #[test]
    fn keys_and_values_come_in_turn() {
        assert_eq!(pairs(&[]), b"");
        assert_eq!(pairs(&[("a".into(), "1".into()), ("b".into(), "".into())]), b"a\x001\0b\0\0");
    }

    #[test]
    fn bytes_keep_their_order_in_numbers() {
        assert_eq!(words(b""), []);
        assert_eq!(words(b"abcde\xff"), [0x6463_6261, 0xff65]);
    }

    #[test]
    fn times_are_rounded_up_to_milliseconds() {
        for (timeout, expected) in [
            (Duration::ZERO, 0),
            (Duration::from_nanos(1), 1),
            (Duration::from_millis(2500), 2500),
            (Duration::new(2, 1_000_001), 2002),
            (Duration::from_millis(u64::from(u32::MAX)), u32::MAX),
            (Duration::MAX, u32::MAX),
        ] {
            assert_eq!(milliseconds(timeout), expected, "{:?}", timeout);
        }
    }
}
