use crate::problem::Problem;
use guest::Metadata;

/// A part of one device, from 0 to 1.
const FRACTION: &str = "gpu-fraction";
/// Memory of one device, in MiB.
const MEMORY: &str = "gpu-memory";
/// Of how many devices, if not of one.
const DEVICES: &str = "gpu-fraction-num-devices";

pub const MILLION: i64 = 1_000_000;
/// 1,000 TiB or so: what all devices of a node have is within 64 bits, in millionths too.
pub const MAX_MEMORY: i64 = 1000 * MILLION;
const MAX_DEVICES: i64 = 64;

/// As much of each of some devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub part: Part,
    pub devices: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Millionths.
    Fraction(i64),
    /// MiB.
    Memory(i64),
}

impl Share {
    /// What a pod's annotations ask for; None if that is no share.
    pub fn of(metadata: Metadata) -> Result<Option<Share>, Problem> {
        let part = match (metadata.annotation(FRACTION)?, metadata.annotation(MEMORY)?) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => {
                return Err(Problem(format!("annotations {} and {} exclude each other", FRACTION, MEMORY)));
            }
            (Some(text), None) => {
                let wanted = "a number between 0 and 1 with up to six digits, as 0.5";
                Part::Fraction(millionths(text).ok_or_else(|| wrong(FRACTION, wanted, text))?)
            }
            (None, Some(text)) => {
                let memory = integer(text, MAX_MEMORY);
                Part::Memory(memory.ok_or_else(|| wrong(MEMORY, "a number of MiB, as 8000", text))?)
            }
        };
        let devices = match metadata.annotation(DEVICES)? {
            None => 1,
            Some(text) => {
                integer(text, MAX_DEVICES).ok_or_else(|| wrong(DEVICES, "a number from 1 to 64", text))? as usize
            }
        };
        Ok(Some(Share { part, devices }))
    }
}

impl Part {
    /// What it takes of a device of `mebibytes` (0 if that is not known) that has `size` in all: `size` is in
    /// millionths of a MiB, or of the device. A part of memory takes all of a device whose memory is not known.
    pub fn of_device(self, mebibytes: i64, size: i64) -> i64 {
        match self {
            Part::Fraction(millionths) => millionths * mebibytes.max(1),
            Part::Memory(_) if mebibytes == 0 => size,
            Part::Memory(wanted) => wanted * MILLION,
        }
    }
}

/// How large a device is, in the unit of [`Part::of_device`].
pub fn size(mebibytes: i64) -> i64 {
    mebibytes.max(1) * MILLION
}

/// A node's memory of each device in MiB, by its label; 0 if that is not known.
pub fn memory(label: Option<&[u8]>) -> i64 {
    label.and_then(|text| integer(text, MAX_MEMORY)).unwrap_or(0)
}

fn wrong(annotation: &str, wanted: &str, text: &[u8]) -> Problem {
    let shown: String = String::from_utf8_lossy(text).chars().take(64).collect();
    Problem(format!("annotation {} must be {}, not {:?}", annotation, wanted, shown))
}

/// A whole number from 1 to `most`.
fn integer(text: &[u8], most: i64) -> Option<i64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()?;
    Some(number).filter(|number| (1..=most).contains(number))
}

/// A fraction, above 0 and below 1, as `0.5`.
fn millionths(text: &[u8]) -> Option<i64> {
    let digits = match text {
        [b'0', b'.', digits @ ..] | [b'.', digits @ ..] if digits.len() <= 6 => digits,
        _ => return None,
    };
    integer(digits, MILLION).map(|number| number * 10i64.pow(6 - digits.len() as u32))
}

#[cfg(test)]
mod tests {
    use super::{integer, memory, millionths, size, Part, MILLION};

    #[test]
    fn fractions_are_exact() {
        let found = ["0.5", ".25", "0.000001", "0.999999", "0.10"].map(|text| millionths(text.as_bytes()));
        assert_eq!(found, [500_000, 250_000, 1, 999_999, 100_000].map(Some));
        for text in ["", "0", "1", "1.0", "0.", ".", "0.0", "0.1234567", "0.-5", "0.5 ", "1/2", "50%", "-0.5", "0,5"] {
            assert_eq!(millionths(text.as_bytes()), None, "{}", text);
        }
    }

    #[test]
    fn numbers_have_digits_alone() {
        assert_eq!(["1", "010", "64"].map(|text| integer(text.as_bytes(), 64)), [1, 10, 64].map(Some));
        for text in ["", "0", "65", "-1", "+1", "1.0", "1 ", "x", "99999999999999999999"] {
            assert_eq!(integer(text.as_bytes(), 64), None, "{}", text);
        }
    }

    #[test]
    fn parts_of_a_device_add_up_to_it() {
        let device = size(24_576);
        assert_eq!(3 * Part::Memory(8_192).of_device(24_576, device), device);
        assert_eq!(2 * Part::Fraction(500_000).of_device(24_576, device), device);
        assert_eq!(2 * Part::Fraction(500_000).of_device(0, size(0)), MILLION);
        assert_eq!(Part::Memory(1).of_device(0, size(0)), size(0));
    }

    #[test]
    fn memory_that_is_no_number_is_not_known() {
        assert_eq!([Some(&b"40960"[..]), Some(b"40Gi"), Some(b"0"), None].map(memory), [40_960, 0, 0, 0]);
    }
}
