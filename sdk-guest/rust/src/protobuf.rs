//! A lazy reader of protobuf messages: it finds fields in the bytes as they are asked for and copies
//! nothing. Malformed bytes are an error, never a read out of bounds.
//!
//! Wire format: https://protobuf.dev/programming-guides/encoding/. Groups, which no message of
//! Kubernetes has, count as malformed.

use crate::status::{Error, Result};

const MALFORMED: Error = Error::new("malformed protobuf");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

/// A message that is not decoded yet. No bytes are the empty message, as always in protobuf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message<'a>(pub &'a [u8]);

impl<'a> Message<'a> {
    /// All fields, by number, in the order of their bytes.
    pub fn fields(self) -> Fields<'a> {
        Fields(self.0)
    }

    /// The bytes of a field of type string, bytes or message, None where it is absent. Of several the last one
    /// counts.
    pub fn bytes(self, number: u32) -> Result<Option<&'a [u8]>> {
        let mut found = None;
        for bytes in self.repeated(number) {
            found = Some(bytes?);
        }
        Ok(found)
    }

    /// An embedded message; the empty one where the field is absent.
    pub fn child(self, number: u32) -> Result<Message<'a>> {
        Ok(Message(self.bytes(number)?.unwrap_or_default()))
    }

    /// A field of an integer type or bool, zero where it is absent.
    pub fn integer(self, number: u32) -> Result<i64> {
        let mut found = 0;
        for field in self.fields() {
            match field? {
                (at, Value::Varint(value)) if at == number => found = value as i64,
                (at, _) if at == number => return Err(MALFORMED),
                _ => {}
            }
        }
        Ok(found)
    }

    /// All occurrences of a repeated string, bytes or message field.
    pub fn repeated(self, number: u32) -> impl Iterator<Item = Result<&'a [u8]>> {
        self.fields().filter_map(move |field| match field {
            Ok((at, Value::Bytes(bytes))) if at == number => Some(Ok(bytes)),
            Ok((at, _)) if at != number => None,
            _ => Some(Err(MALFORMED)),
        })
    }

    /// The value under `key` in a field of type `map<string, …>`, None where there is none.
    pub fn entry(self, number: u32, key: &str) -> Result<Option<&'a [u8]>> {
        let mut found = None;
        for entry in self.repeated(number) {
            let entry = Message(entry?);
            if entry.bytes(1)?.unwrap_or_default() == key.as_bytes() {
                found = Some(entry.bytes(2)?.unwrap_or_default());
            }
        }
        Ok(found)
    }
}

/// Iterates over the fields of a message. Nothing comes after an error.
pub struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or(MALFORMED))
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u32, Value<'a>)> {
        let tag = u32::try_from(self.varint()?).ok()?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.take(4)?.try_into().ok()?)),
            _ => return None,
        };
        match tag >> 3 {
            0 => None,
            number => Some((number, value)),
        }
    }

    fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let length = usize::try_from(length).ok()?;
        let taken = self.0.get(..length)?;
        self.0 = self.0.get(length..)?;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            if shift == 63 && byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{Message, Value, MALFORMED};

    #[test]
    fn each_wire_type() {
        let bytes = b"\x08\x96\x01\x11\x01\x00\x00\x00\x00\x00\x00\x80\x1a\x03abc\x25\x02\x00\x00\x01";
        let fields: Vec<_> = Message(bytes).fields().map(|field| field.unwrap()).collect();
        let expected = vec![
            (1, Value::Varint(150)),
            (2, Value::Fixed64(0x8000000000000001)),
            (3, Value::Bytes(b"abc")),
            (4, Value::Fixed32(0x01000002)),
        ];
        assert_eq!(fields, expected);
    }

    #[test]
    fn the_largest_field_number_and_varint() {
        let bytes = b"\xf8\xff\xff\xff\x0f\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        assert_eq!(Message(bytes).fields().next(), Some(Ok(((1 << 29) - 1, Value::Varint(u64::MAX)))));
    }

    #[test]
    fn malformed_bytes_are_an_error_and_the_end() {
        let malformed: [&[u8]; 15] = [
            b"\x08",                                             // no value
            b"\x80",                                             // tag cut off
            b"\x00\x01",                                         // field number 0
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",     // varint of 65 bits
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", // varint without an end
            b"\x80\x80\x80\x80\x10\x01",                         // tag of 33 bits
            b"\x0a\x05abcd",                                     // length beyond the end
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",     // length of 2^64-1
            b"\x0a\xff\xff\xff\xff\x0f",                         // length of 2^32-1
            b"\x09\x00\x00\x00",                                 // fixed64 cut off
            b"\x0d\x00",                                         // fixed32 cut off
            b"\x0b\x0c",                                         // a group
            b"\x0e",                                             // wire types that do not exist
            b"\x0f",
            b"\x0a\x01a\x0b", // a group after a field
        ];
        for bytes in malformed {
            let message = Message(bytes);
            let all: Vec<_> = message.fields().skip_while(|field| field.is_ok()).collect();
            assert_eq!(all, [Err(MALFORMED)], "{:?}", bytes);
            assert_eq!(message.bytes(1), Err(MALFORMED), "{:?}", bytes);
            assert_eq!(message.integer(2), Err(MALFORMED), "{:?}", bytes);
            assert_eq!(message.entry(1, "key"), Err(MALFORMED), "{:?}", bytes);
        }
    }

    #[test]
    fn absent_present_and_repeated_singular_fields() {
        let message = Message(b"\x0a\x01a\x10\x01\x0a\x02bc\x10\x02");
        assert_eq!(message.bytes(1), Ok(Some(&b"bc"[..])));
        assert_eq!(message.integer(2), Ok(2));
        assert_eq!(message.bytes(3), Ok(None));
        assert_eq!(message.integer(3), Ok(0));
        assert_eq!(message.child(3), Ok(Message(b"")));
        assert_eq!(message.bytes(2), Err(MALFORMED));
        assert_eq!(message.integer(1), Err(MALFORMED));
    }

    #[test]
    fn map_entries() {
        let message =
            Message(b"\x5a\x06\x0a\x01a\x12\x01x\x5a\x03\x0a\x01b\x5a\x03\x12\x01y\x5a\x06\x12\x01z\x0a\x01a");
        assert_eq!(message.entry(11, "a"), Ok(Some(&b"z"[..]))); // the last one, in either order
        assert_eq!(message.entry(11, "b"), Ok(Some(&b""[..]))); // a value left out is empty
        assert_eq!(message.entry(11, ""), Ok(Some(&b"y"[..]))); // so is a key
        assert_eq!(message.entry(11, "c"), Ok(None));
        assert_eq!(message.entry(12, "a"), Ok(None));
    }

    #[test]
    fn random_bytes_never_lead_out_of_bounds() {
        let mut state = 1u64;
        let mut random = move || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize
        };
        let mut read = 0;
        for _ in 0..200_000 {
            // Small bytes are likelier to be tags and lengths that make sense.
            let bytes: Vec<u8> = (0..random() % 64)
                .map(|_| if random() % 2 == 0 { random() & 0xff } else { random() & 0x1f } as u8)
                .collect();
            read += Message(&bytes).fields().filter(|field| field.is_ok()).count();
            let _ = Message(&bytes).entry(1, "key");
        }
        assert!(read > 50_000, "{}", read);
    }
}
