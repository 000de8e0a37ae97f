//! What the host writes of groups of pods, by the section on resident groups of ABI.md.

/// What is known of a group.
#[derive(Debug, PartialEq, Eq)]
pub struct GroupRecord<'a> {
    pub group: u32,
    pub is_there: bool,
    pub source: u8,
    pub minimum: u32,
    pub timeout: u32,
    pub priority: i32,
    /// Seconds of Unix time.
    pub created: u64,
    pub namespace: &'a [u8],
    pub name: &'a [u8],
}

/// Which group a pod is of, and where it is.
#[derive(Debug, PartialEq, Eq)]
pub struct MemberRecord {
    pub pod: u32,
    pub node: Option<u32>,
    /// None if it is of no group any more.
    pub state: Option<MemberState>,
    pub group: u32,
}

/// Where a pod of a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It has no node.
    Pending,
    /// It is expected on its node, and may not come.
    Tentative,
    /// It is being bound, or waits on Permit.
    Binding,
    /// It is on its node.
    Bound,
}

/// Records one after the other, each at a multiple of 8 bytes. Nothing comes after one that cannot be read.
pub struct GroupRecords<'a>(pub &'a [u8]);

/// Records one after the other. Nothing comes after one that cannot be read.
pub struct MemberRecords<'a>(pub &'a [u8]);

impl<'a> Iterator for GroupRecords<'a> {
    type Item = GroupRecord<'a>;

    fn next(&mut self) -> Option<GroupRecord<'a>> {
        let [group, state, source, minimum, timeout, priority, created, era, middle, length] = words::<10>(self.0)?;
        let rest = self.0.get(40..)?;
        let end = middle.checked_add(length)? as usize;
        let names = rest.get(..end)?;
        self.0 = rest.get(end.checked_add(7)? & !7..).unwrap_or_default();
        if state > 1 {
            return None;
        }
        Some(GroupRecord {
            group,
            is_there: state == 1,
            source: source as u8,
            minimum,
            timeout,
            priority: priority as i32,
            created: u64::from(era) << 32 | u64::from(created),
            namespace: names.get(..middle as usize)?,
            name: names.get(middle as usize..)?,
        })
    }
}

impl<'a> Iterator for MemberRecords<'a> {
    type Item = MemberRecord;

    fn next(&mut self) -> Option<MemberRecord> {
        let [pod, node, state, group] = words::<4>(self.0)?;
        self.0 = self.0.get(16..)?;
        let node = Some(node).filter(|node| *node != u32::MAX);
        let state = match (state, node) {
            (0, _) => None,
            (1, None) => Some(MemberState::Pending),
            (1, Some(_)) => Some(MemberState::Bound),
            (2, Some(_)) => Some(MemberState::Tentative),
            (3, Some(_)) => Some(MemberState::Binding),
            _ => return None,
        };
        Some(MemberRecord { pod, node, state, group })
    }
}

/// The first numbers.
fn words<const N: usize>(bytes: &[u8]) -> Option<[u32; N]> {
    let mut found = [0; N];
    for (word, four) in found.iter_mut().zip(bytes.get(..4 * N)?.chunks_exact(4)) {
        *word = u32::from_le_bytes(four.try_into().ok()?);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::{GroupRecord, GroupRecords, MemberRecord, MemberRecords, MemberState};

    fn bytes(words: &[u32], rest: &[u8]) -> Vec<u8> {
        let mut bytes: Vec<u8> = words.iter().copied().flat_map(u32::to_le_bytes).collect();
        bytes.extend_from_slice(rest);
        bytes
    }

    #[test]
    fn records_of_groups_begin_at_multiples_of_8_bytes() {
        let buffer = [
            bytes(&[7, 1, 2, 4, 60, u32::MAX, 7, 1, 2, 5], b"mltrain\0"),
            bytes(&[258, 0, 0, 0, 0, 0, 0, 0, 0, 0], b""),
            bytes(&[8, 1, 1, 0, 0, 5, 0, 0, 4, 4], b"mainteam"),
        ]
        .concat();
        let there = GroupRecord {
            group: 7,
            is_there: true,
            source: 2,
            minimum: 4,
            timeout: 60,
            priority: -1,
            created: 7 + (1 << 32),
            namespace: b"ml",
            name: b"train",
        };
        let gone = GroupRecord {
            group: 258,
            is_there: false,
            source: 0,
            minimum: 0,
            timeout: 0,
            priority: 0,
            created: 0,
            namespace: b"",
            name: b"",
        };
        let last = GroupRecord {
            group: 8,
            source: 1,
            minimum: 0,
            timeout: 0,
            priority: 5,
            created: 0,
            namespace: b"main",
            name: b"team",
            ..there
        };
        let records: Vec<GroupRecord> = GroupRecords(&buffer).collect();
        assert_eq!(records, [GroupRecord { namespace: b"ml", ..there }, gone, last]);
    }

    #[test]
    fn a_record_of_a_group_that_is_cut_off_or_of_no_state_is_the_end() {
        for buffer in [
            bytes(&[1, 1, 1, 0, 0, 0, 0, 0, 4, 5], b"12345678"),
            bytes(&[1, 2, 1, 0, 0, 0, 0, 0, 0, 0], b""),
            bytes(&[1, 1, 1, 0, 0, 0, 0, 0, u32::MAX, 2], b"12345678"),
            bytes(&[1, 1, 1, 0, 0, 0, 0, 0, 0], b""),
            Vec::new(),
        ] {
            assert_eq!(GroupRecords(&buffer).next(), None, "{:?}", buffer);
        }
    }

    #[test]
    fn records_of_members_tell_where_they_are() {
        let buffer = [
            bytes(&[7, u32::MAX, 1, 0], b""),
            bytes(&[8, 2, 2, 1], b""),
            bytes(&[9, 2, 1, 1], b""),
            bytes(&[5, 3, 3, 1], b""),
            bytes(&[7, u32::MAX, 0, u32::MAX], b""),
        ]
        .concat();
        let records: Vec<MemberRecord> = MemberRecords(&buffer).collect();
        let expected = [
            MemberRecord { pod: 7, node: None, state: Some(MemberState::Pending), group: 0 },
            MemberRecord { pod: 8, node: Some(2), state: Some(MemberState::Tentative), group: 1 },
            MemberRecord { pod: 9, node: Some(2), state: Some(MemberState::Bound), group: 1 },
            MemberRecord { pod: 5, node: Some(3), state: Some(MemberState::Binding), group: 1 },
            MemberRecord { pod: 7, node: None, state: None, group: u32::MAX },
        ];
        assert_eq!(records, expected);
    }

    #[test]
    fn a_record_of_a_member_that_is_cut_off_or_of_no_state_is_the_end() {
        for buffer in [
            bytes(&[7, 1, 4, 0], b""),
            bytes(&[7, u32::MAX, 2, 0], b""),
            bytes(&[7, u32::MAX, 3, 0], b""),
            bytes(&[7, 1, 1], b"123"),
        ] {
            assert_eq!(MemberRecords(&buffer).next(), None, "{:?}", buffer);
        }
    }
}
