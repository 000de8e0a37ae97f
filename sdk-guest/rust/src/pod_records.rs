//! What the host writes of pods, by the section on resident pods of ABI.md.

use std::slice;

/// Which pod is where.
#[derive(Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub pod: u32,
    pub node: u32,
    pub state: State,
    /// The protobuf v1.Pod; empty if it is gone, or as it was.
    pub object: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Gone,
    There,
    Tentative,
}

/// Where the host writes records.
pub struct Buffer(Vec<u64>);

impl Buffer {
    pub const fn new() -> Buffer {
        Buffer(Vec::new())
    }

    /// The address of room for so many bytes.
    pub fn room(&mut self, length: usize) -> *mut u64 {
        self.0.resize(length / 8 + usize::from(length % 8 > 0), 0);
        self.0.as_mut_ptr()
    }

    /// So many records as the host has written them.
    pub fn first(&self, count: usize) -> impl Iterator<Item = Record<'_>> {
        Records(self.bytes()).take(count)
    }

    /// All that is there.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: any bytes are a u8, and there are eight in each number.
        unsafe { slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * 8) }
    }
}

/// Records one after the other, each at a multiple of 8 bytes. Nothing comes after one that cannot be read.
pub struct Records<'a>(pub &'a [u8]);

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let [pod, node, state, length] = [self.word(0)?, self.word(4)?, self.word(8)?, self.word(12)?];
        let rest = self.0.get(16..)?;
        let object = rest.get(..length as usize)?;
        self.0 = rest.get((length as usize).wrapping_add(7) & !7..).unwrap_or_default();
        let state = match state {
            0 => State::Gone,
            1 => State::There,
            2 => State::Tentative,
            _ => return None,
        };
        Some(Record { pod, node, state, object })
    }
}

impl<'a> Records<'a> {
    fn word(&self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(self.0.get(at..at + 4)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::{Record, Records, State};

    fn bytes(words: [u32; 4], rest: &[u8]) -> Vec<u8> {
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        bytes.extend_from_slice(rest);
        bytes
    }

    #[test]
    fn records_begin_at_multiples_of_8_bytes() {
        let buffer = [
            bytes([7, 1, 1, 3], b"abc\0\0\0\0\0"),
            bytes([8, 2, 2, 8], b"abcdefgh"),
            bytes([9, u32::MAX, 0, 0], b""),
            bytes([258, 3, 2, 0], b""),
        ]
        .concat();
        let records: Vec<Record> = Records(&buffer).collect();
        let expected = [
            Record { pod: 7, node: 1, state: State::There, object: b"abc" },
            Record { pod: 8, node: 2, state: State::Tentative, object: b"abcdefgh" },
            Record { pod: 9, node: u32::MAX, state: State::Gone, object: b"" },
            Record { pod: 258, node: 3, state: State::Tentative, object: b"" },
        ];
        assert_eq!(records, expected);
    }

    #[test]
    fn what_is_cut_off_or_of_no_state_is_the_end() {
        for buffer in [
            bytes([1, 1, 1, 9], b"abcdefgh"),
            bytes([1, 1, 3, 0], b""),
            bytes([1, 1, 1, u32::MAX], b""),
            bytes([1, 1, 1, 0], b"")[..15].to_vec(),
            Vec::new(),
        ] {
            assert_eq!(Records(&buffer).next(), None, "{:?}", buffer);
        }
    }
}
