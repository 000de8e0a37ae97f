//! Holds the pods of a group back until as many are there as the group needs, and puts them where others of it are.
//!
//! PreFilter: a pod whose group is not known, or has too few pods, is rejected. Score: how many of the group's pods are
//! on the node, or expected there.

use guest::{Group, GroupKey, Plugin, Pod, PreFilter, Residents, Result, Status};
use std::collections::BTreeMap;

struct Quorum;

struct Wish {
    group: Option<GroupKey>,
    /// By the nodes' names, how many pods of the group are there.
    neighbours: BTreeMap<Vec<u8>, i32>,
}

impl Plugin for Quorum {
    type Wish = Wish;
    type Resident = Vec<u8>;

    fn new() -> Result<Quorum> {
        Ok(Quorum)
    }

    fn wish(&self, pod: &Pod) -> Result<Wish> {
        Ok(Wish { group: GroupKey::of(pod)?, neighbours: BTreeMap::new() })
    }

    fn resident(&self, name: &[u8]) -> Result<Vec<u8>> {
        Ok(name.to_vec())
    }

    fn prefilter(&self, wish: &mut Wish, nodes: &Residents<Vec<u8>>) -> PreFilter {
        let key = match &wish.group {
            Some(key) => key,
            None => return Status::SUCCESS.into(),
        };
        let neighbours = &mut wish.neighbours;
        guest::groups(|groups| match groups.get(key) {
            Some(group) => {
                for node in group.members().filter_map(|member| nodes.get(member.node?)) {
                    *neighbours.entry(node.clone()).or_default() += 1;
                }
                admit(group)
            }
            None => Status::unschedulable("the group of the pod is not known yet"),
        })
        .into()
    }

    fn score(&self, wish: &Wish, node: &Vec<u8>) -> i32 {
        wish.neighbours.get(node).map_or(0, |count| (*count).min(100))
    }
}

fn admit(group: &Group) -> Status {
    let name = format!("{}/{}", String::from_utf8_lossy(&group.namespace), String::from_utf8_lossy(&group.name));
    let there = group.members().count();
    match group.minimum {
        None => Status::unschedulable(format!("nobody says how many pods the group {} needs", name)),
        Some(minimum) if there < minimum => {
            Status::unschedulable(format!("{} of {} pods of the group {} are there", there, minimum, name))
        }
        Some(_) => Status::SUCCESS,
    }
}

guest::export!(Quorum: prefilter, filter, score; groups);

#[cfg(test)]
mod tests {
    use super::{admit, Quorum, Wish};
    use guest::{Group, GroupKey, MemberState, Plugin, Pod, PreFilter, Residents, Status};
    use std::collections::BTreeMap;

    /// A pod whose `spec.schedulingGroup` names a group.
    fn pod() -> Pod {
        Pod::new(b"\x0a\x04\x1a\x02ml\x12\x0a\xda\x02\x07\x0a\x05train".to_vec())
    }

    #[test]
    fn a_group_is_admitted_when_its_pods_are_there() {
        let mut group = Group::default();
        (group.namespace, group.name) = (b"ml".to_vec(), b"train".to_vec());
        assert_eq!(admit(&group), Status::unschedulable("nobody says how many pods the group ml/train needs"));
        group.minimum = Some(3);
        group.add_member(MemberState::Pending, None);
        group.add_member(MemberState::Tentative, Some(0));
        assert_eq!(admit(&group), Status::unschedulable("2 of 3 pods of the group ml/train are there"));
        group.add_member(MemberState::Bound, Some(0));
        assert_eq!(admit(&group), Status::SUCCESS);
    }

    #[test]
    fn a_pod_of_no_group_is_not_held_back_and_one_of_an_unknown_group_is() {
        let prefilter = |pod: &Pod| Quorum.prefilter(&mut Quorum.wish(pod).unwrap(), &Residents::default());
        assert_eq!(prefilter(&Pod::new(Vec::new())), Status::SUCCESS.into());
        let unknown = Status::unschedulable("the group of the pod is not known yet");
        assert_eq!(prefilter(&pod()), PreFilter::from(unknown));
    }

    #[test]
    fn a_node_scores_by_the_pods_of_the_group_that_are_there() {
        let neighbours = BTreeMap::from([(b"a".to_vec(), 2), (b"b".to_vec(), 200)]);
        let wish = Wish { group: GroupKey::of(&pod()).unwrap(), neighbours };
        let score = |node: &[u8]| Quorum.score(&wish, &node.to_vec());
        assert_eq!([score(b"a"), score(b"b"), score(b"c")], [2, 100, 0]);
    }
}
