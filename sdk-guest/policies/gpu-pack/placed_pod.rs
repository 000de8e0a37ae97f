use crate::devices::MAX_DEVICES;
use crate::share::Share;
use guest::{Label, Pod, ResidentPod, Result};

/// The annotation of a bound pod that names its devices: their indices with commas between them.
const DEVICES: &str = "gpu-pack.kwx.dev/devices";

/// What counts of a pod that is on a node.
#[derive(Debug, PartialEq)]
pub struct PlacedPod {
    pub uid: Label,
    pub share: Option<Share>,
    /// The devices that it was bound with; none if that is not known.
    pub devices: Vec<usize>,
}

impl ResidentPod for PlacedPod {
    /// A share that cannot be read counts as none: such a pod came here by another scheduler.
    fn new(pod: &Pod) -> Result<PlacedPod> {
        let metadata = pod.metadata()?;
        Ok(PlacedPod {
            uid: Label::new(Some(metadata.uid()?)),
            share: Share::of(metadata).unwrap_or(None),
            devices: metadata.annotation(DEVICES)?.and_then(indices).unwrap_or_default(),
        })
    }

    fn is_same(&self, before: &PlacedPod) -> bool {
        self == before
    }
}

/// The annotation that tells of these devices; None if there are none.
pub fn annotation(devices: &[usize]) -> Option<(String, String)> {
    if devices.is_empty() {
        return None;
    }
    let indices: Vec<String> = devices.iter().map(usize::to_string).collect();
    Some((DEVICES.into(), indices.join(",")))
}

/// Indices, of which none comes twice, and no more than a node has.
fn indices(text: &[u8]) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    for index in std::str::from_utf8(text).ok()?.split(',') {
        let index = index.parse().ok()?;
        if found.len() == MAX_DEVICES || found.contains(&index) {
            return None;
        }
        found.push(index);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::{annotation, indices, MAX_DEVICES};

    #[test]
    fn devices_are_told_and_read_again() {
        assert_eq!(annotation(&[]), None);
        let (key, value) = annotation(&[7, 0, 11]).unwrap();
        assert_eq!((key.as_str(), value.as_str()), ("gpu-pack.kwx.dev/devices", "7,0,11"));
        assert_eq!(indices(value.as_bytes()), Some(vec![7, 0, 11]));
        for text in ["", ",", "1,", "a", "-1", "1,1", "1 2", "99999999999999999999"] {
            assert_eq!(indices(text.as_bytes()), None, "{}", text);
        }
    }

    #[test]
    fn no_pod_has_more_devices_than_a_node() {
        let text = |count| (0..count).map(|index| index.to_string()).collect::<Vec<_>>().join(",");
        assert_eq!(indices(text(MAX_DEVICES).as_bytes()).map(|found| found.len()), Some(MAX_DEVICES));
        assert_eq!(indices(text(MAX_DEVICES + 1).as_bytes()), None);
    }
}
