use crate::group_records::{GroupRecord, MemberRecord, MemberState};
use crate::pod::Pod;
use crate::status::Result;
use crate::texts::Texts;
use std::cell::Cell;
use std::mem;
use std::time::Duration;

const LABEL: &str = "scheduling.x-k8s.io/pod-group";
const OLD_LABEL: &str = "pod-group.scheduling.sigs.k8s.io/name";

/// How a pod names its group: by `spec.schedulingGroup`, or by a label.
const BY_FIELD: u8 = 1;
const BY_LABEL: u8 = 2;

/// The number of no group.
const NONE: u32 = u32::MAX;

/// The groups of pods that the host has told of, with their members.
#[derive(Default)]
pub struct Groups {
    /// By number.
    groups: Vec<Option<Group>>,
    /// The keys of the groups.
    keys: Texts,
    /// By the pods' numbers, the numbers of their groups.
    of_pods: Vec<u32>,
}

/// What names a group, and tells it from others. A plugin keeps it in its wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupKey(pub(crate) Vec<u8>);

/// A group of pods.
#[derive(Debug, Default)]
pub struct Group {
    pub namespace: Vec<u8>,
    pub name: Vec<u8>,
    /// Whether its pods name it by `spec.schedulingGroup`, the cluster's own.
    pub is_native: bool,
    /// How many of its pods have to have a node before any may run; None where nobody says so.
    pub minimum: Option<usize>,
    /// For how long its pods may wait for each other; None where nobody says so.
    pub timeout: Option<Duration>,
    pub priority: i32,
    /// When it was created, or the oldest of its pods, in seconds of Unix time; None where nobody says so.
    pub created: Option<u64>,
    members: Vec<Member>,
    /// How many of them have a node, or are expected on one.
    placed: usize,
}

/// A pod of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub state: MemberState,
    /// The number of its node, for [`Residents::get`](crate::Residents::get); None where it has none.
    pub node: Option<u32>,
    pub(crate) pod: u32,
}

thread_local! {
    static GROUPS: Cell<Option<Groups>> = const { Cell::new(None) };
}

/// What `look` finds among the groups that the host has told of: none where it tells of none, and inside of another
/// such look.
pub fn groups<T>(look: impl FnOnce(&Groups) -> T) -> T {
    with_groups(|groups| look(groups))
}

/// Runs `work` on the groups of this thread; a guest has one.
pub(crate) fn with_groups<T>(work: impl FnOnce(&mut Groups) -> T) -> T {
    GROUPS.with(|cell| {
        let mut groups = cell.take().unwrap_or_default();
        let result = work(&mut groups);
        cell.set(Some(groups));
        result
    })
}

/// Forgets all groups of this thread, after a test.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn forget() {
    GROUPS.with(Cell::take);
}

impl GroupKey {
    /// Of the group that a pod names; None for a pod of no group. ABI.md has the rule.
    pub fn of(pod: &Pod) -> Result<Option<GroupKey>> {
        let metadata = pod.metadata()?;
        let mut source = BY_FIELD;
        let mut name = pod.spec()?.child(43)?.bytes(1)?.unwrap_or_default();
        for label in [LABEL, OLD_LABEL] {
            if name.is_empty() {
                source = BY_LABEL;
                name = metadata.label(label)?.unwrap_or_default();
            }
        }
        Ok(if name.is_empty() { None } else { Some(GroupKey::new(source, metadata.namespace()?, name)) })
    }

    /// Whether it is that of a pod with `spec.schedulingGroup`, the cluster's own.
    pub fn is_native(&self) -> bool {
        self.0.first() == Some(&BY_FIELD)
    }

    /// That of a group which a test makes.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn named(is_native: bool, namespace: &[u8], name: &[u8]) -> GroupKey {
        GroupKey::new(if is_native { BY_FIELD } else { BY_LABEL }, namespace, name)
    }

    fn new(source: u8, namespace: &[u8], name: &[u8]) -> GroupKey {
        GroupKey([&[source], namespace, b"/", name].concat())
    }
}

impl Groups {
    /// None where the host has not told of the group, which may be a moment behind the scheduler.
    pub fn get(&self, key: &GroupKey) -> Option<&Group> {
        self.groups.get(self.keys.number(&key.0)? as usize)?.as_ref()
    }

    /// All groups, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().flatten()
    }

    pub(crate) fn group_changed(&mut self, record: GroupRecord) {
        let number = record.group as usize;
        while self.groups.len() <= number {
            self.groups.push(None);
        }
        let place = match self.groups.get_mut(number) {
            Some(place) => place,
            None => return,
        };
        let former = place.take();
        if !record.is_there {
            self.keys.remove(record.group);
            return;
        }
        let key = GroupKey::new(record.source, record.namespace, record.name);
        // Members of the group that had the number before are told to be gone, or of another group, later.
        let is_same = self.keys.text(record.group) == Some(key.0.as_slice());
        let former = former.filter(|_| is_same);
        self.keys.set(record.group, &key.0);
        *place = Some(Group {
            namespace: record.namespace.to_vec(),
            name: record.name.to_vec(),
            is_native: record.source == BY_FIELD,
            minimum: Some(record.minimum as usize).filter(|minimum| *minimum > 0),
            timeout: Some(Duration::from_secs(record.timeout.into())).filter(|timeout| !timeout.is_zero()),
            priority: record.priority,
            created: Some(record.created).filter(|created| *created > 0),
            placed: former.as_ref().map_or(0, |group| group.placed),
            members: former.map_or_else(Vec::new, |group| group.members),
        });
    }

    pub(crate) fn member_changed(&mut self, record: MemberRecord) {
        let pod = record.pod as usize;
        while self.of_pods.len() <= pod {
            self.of_pods.push(NONE);
        }
        let former = match self.of_pods.get_mut(pod) {
            Some(group) => mem::replace(group, record.group),
            None => NONE,
        };
        if let Some(group) = self.group(former) {
            group.remove(record.pod);
        }
        if let (Some(state), Some(group)) = (record.state, self.group(record.group)) {
            group.put(Member { state, node: record.node, pod: record.pod });
        }
    }

    fn group(&mut self, number: u32) -> Option<&mut Group> {
        self.groups.get_mut(number as usize)?.as_mut()
    }
}

impl Group {
    /// Its pods, in any order.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.iter()
    }

    /// Counts a pod of which the host has not told, as tests need to.
    pub fn add_member(&mut self, state: MemberState, node: Option<u32>) {
        self.put(Member { state, node, pod: NONE });
    }

    /// How many of its pods are on nodes, or expected there.
    pub fn placed(&self) -> usize {
        self.placed
    }

    fn put(&mut self, member: Member) {
        self.placed += usize::from(member.state != MemberState::Pending);
        self.members.push(member);
    }

    fn remove(&mut self, pod: u32) {
        if let Some(at) = self.members.iter().position(|member| member.pod == pod) {
            let member = self.members.swap_remove(at);
            self.placed -= usize::from(member.state != MemberState::Pending);
        }
    }

    /// How many of its pods are in a state.
    pub fn count(&self, state: MemberState) -> usize {
        self.members.iter().filter(|member| member.state == state).count()
    }
}

#[cfg(test)]
mod tests {
    use super::{groups, with_groups, Group, GroupKey, Groups, MemberState};
    use crate::group_records::{GroupRecord, MemberRecord};
    use crate::pod::Pod;
    use std::time::Duration;

    fn record(group: u32, name: &[u8], minimum: u32) -> GroupRecord<'_> {
        let (namespace, created) = (&b"ml"[..], 7);
        GroupRecord { group, is_there: true, source: 2, minimum, timeout: 60, priority: -1, created, namespace, name }
    }

    fn gone(group: u32) -> GroupRecord<'static> {
        GroupRecord { is_there: false, source: 0, namespace: b"", ..record(group, b"", 0) }
    }

    fn member(pod: u32, node: u32, state: MemberState, group: u32) -> MemberRecord {
        MemberRecord { pod, node: Some(node).filter(|node| *node < 9), state: Some(state), group }
    }

    fn lost(pod: u32) -> MemberRecord {
        MemberRecord { pod, node: None, state: None, group: u32::MAX }
    }

    fn named(groups: &Groups, name: &[u8]) -> Option<Vec<(u32, MemberState)>> {
        let members = |group: &Group| group.members().map(|member| (member.pod, member.state)).collect();
        groups.get(&GroupKey::new(2, b"ml", name)).map(members)
    }

    fn wrap(tag: &[u8], inner: &[u8]) -> Vec<u8> {
        [tag, &[inner.len() as u8], inner].concat()
    }

    fn pod(labels: &[(&str, &str)], group: &str) -> Pod {
        let entry = |(key, value): &(&str, &str)| {
            wrap(&[0x5a], &[wrap(&[0x0a], key.as_bytes()), wrap(&[0x12], value.as_bytes())].concat())
        };
        let labels: Vec<u8> = labels.iter().flat_map(entry).collect();
        let spec = if group.is_empty() { Vec::new() } else { wrap(&[0xda, 2], &wrap(&[0x0a], group.as_bytes())) };
        Pod::new([wrap(&[0x0a], &[wrap(&[0x1a], b"ml"), labels].concat()), wrap(&[0x12], &spec)].concat())
    }

    #[test]
    fn a_pod_names_its_group() {
        let (new, old) = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io/name");
        let of = |labels: &[(&str, &str)], group: &str| GroupKey::of(&pod(labels, group)).unwrap();
        assert_eq!(of(&[("app", "a")], ""), None);
        assert_eq!(of(&[(new, "a")], "b"), Some(GroupKey::new(1, b"ml", b"b")));
        assert_eq!(of(&[(old, "b"), (new, "a")], ""), Some(GroupKey::new(2, b"ml", b"a")));
        assert_eq!(of(&[(old, "b"), (new, "")], ""), Some(GroupKey::new(2, b"ml", b"b")));
        assert!(GroupKey::of(&Pod::new(vec![0x0a])).is_err());
    }

    #[test]
    fn groups_and_their_members_come_and_go() {
        let mut groups = Groups::default();
        groups.group_changed(record(1, b"b", 0));
        groups.group_changed(record(0, b"a", 4));
        groups.member_changed(member(7, 9, MemberState::Pending, 0));
        groups.member_changed(member(3, 2, MemberState::Tentative, 0));
        groups.member_changed(member(3, 2, MemberState::Bound, 0));
        groups.member_changed(member(5, 2, MemberState::Bound, 1));
        assert_eq!(named(&groups, b"a"), Some(vec![(7, MemberState::Pending), (3, MemberState::Bound)]));
        let a = groups.get(&GroupKey::new(2, b"ml", b"a")).unwrap();
        assert_eq!((a.minimum, a.timeout, a.priority), (Some(4), Some(Duration::from_secs(60)), -1));
        assert_eq!(a.created, Some(7));
        assert_eq!((a.count(MemberState::Bound), a.count(MemberState::Tentative), a.placed()), (1, 0, 1));
        assert_eq!(a.members().map(|member| member.node).collect::<Vec<_>>(), [None, Some(2)]);
        assert_eq!(groups.iter().map(|group| group.minimum).collect::<Vec<_>>(), [Some(4), None]);

        groups.group_changed(record(0, b"a", 5));
        assert_eq!(named(&groups, b"a"), Some(vec![(7, MemberState::Pending), (3, MemberState::Bound)]));
        groups.member_changed(member(7, 9, MemberState::Pending, 1));
        groups.member_changed(lost(3));
        assert_eq!(named(&groups, b"a"), Some(vec![]));
        assert_eq!(named(&groups, b"b"), Some(vec![(5, MemberState::Bound), (7, MemberState::Pending)]));
        groups.group_changed(gone(1));
        assert_eq!((named(&groups, b"b"), groups.iter().count()), (None, 1));
    }

    #[test]
    fn a_number_may_be_another_groups_before_its_members_are_told_to_be_gone() {
        let mut groups = Groups::default();
        groups.group_changed(record(0, b"a", 1));
        groups.member_changed(member(7, 9, MemberState::Pending, 0));
        groups.group_changed(record(0, b"b", 1));
        assert_eq!((named(&groups, b"a"), named(&groups, b"b")), (None, Some(vec![])));
        groups.member_changed(member(8, 9, MemberState::Pending, 0));
        groups.member_changed(lost(7));
        assert_eq!(named(&groups, b"b"), Some(vec![(8, MemberState::Pending)]));
    }

    #[test]
    fn a_look_within_a_look_finds_nothing() {
        with_groups(|groups| groups.group_changed(record(0, b"a", 1)));
        assert_eq!(groups(|all| (all.iter().count(), groups(|inner| inner.iter().count()))), (1, 0));
        assert_eq!(groups(|all| all.iter().count()), 1);
    }
}
