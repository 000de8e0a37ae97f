//! Amounts of a resource, as Kubernetes writes them: `3920m`, `64Gi`, `1.5`, `12e6`.

use crate::amount::Amount;
use crate::protobuf::Message;
use crate::status::{Error, Result};

const MALFORMED: Error = Error::new("malformed quantity");
const NEGATIVE: Error = Error::new("negative quantity");

/// A quantity as text, which is parsed when it is asked for its value.
///
/// It is taken for what `ParseQuantity` of k8s.io/apimachinery takes it for, but a text without any digit is an
/// error, a value beyond 64 bits is the largest one, and a negative value, which no resource has, is always rounded
/// away from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity<'a>(pub &'a [u8]);

impl<'a> Quantity<'a> {
    /// The value of `resource` in a field of type `map<string, Quantity>`.
    pub(crate) fn entry(message: Message<'a>, number: u32, resource: &str) -> Result<Option<Quantity<'a>>> {
        Ok(match message.entry(number, resource)? {
            Some(bytes) => Some(Quantity(Message(bytes).bytes(1)?.unwrap_or_default())),
            None => None,
        })
    }

    /// The value, rounded up (away from zero) to a whole number.
    pub fn value(self) -> Result<i64> {
        self.signed(Amount::value)
    }

    /// 1,000 times the value, rounded up (away from zero) to a whole number.
    pub fn milli_value(self) -> Result<i64> {
        self.signed(Amount::milli_value)
    }

    /// The value to be added up. Resources have no negative one.
    pub(crate) fn amount(self) -> Result<Amount> {
        match parse(self.0).ok_or(MALFORMED)? {
            (true, amount) if amount != Amount::default() => Err(NEGATIVE),
            (_, amount) => Ok(amount),
        }
    }

    fn signed(self, value: impl Fn(Amount) -> i64) -> Result<i64> {
        let (is_negative, magnitude) = parse(self.0).ok_or(MALFORMED)?;
        Ok(if is_negative { -value(magnitude) } else { value(magnitude) })
    }
}

/// Whether a number is negative, and its magnitude.
fn parse(text: &[u8]) -> Option<(bool, Amount)> {
    let (is_negative, text) = sign(text);
    let (whole, rest) = digits(text);
    let (fraction, suffix) = match rest {
        [b'.', rest @ ..] => digits(rest),
        _ => (&[][..], rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (power_of_ten, power_of_two) = factor(suffix)?;
    Some((is_negative, product(whole, fraction, power_of_ten, power_of_two)))
}

/// The number with those digits, times 10^`power_of_ten` and 2^`power_of_two`. The powers are those of `factor`: 2^60
/// at most, and 1 where the other is below 1.
fn product(whole: &[u8], fraction: &[u8], power_of_ten: i64, power_of_two: u32) -> Amount {
    let count = whole.len() + fraction.len();
    let digits = whole.iter().chain(fraction).map(|digit| u64::from(digit - b'0'));
    // The point is moved, and what is on both sides of it multiplied.
    let point = whole.len() as i64 + power_of_ten;
    let above = point.clamp(0, count as i64) as usize;

    let mut units =
        digits.clone().take(above).fold(0u64, |value, digit| value.saturating_mul(10).saturating_add(digit));
    for _ in count as i64..point {
        if units == 0 || units == u64::MAX {
            break;
        }
        units = units.saturating_mul(10);
    }

    // From the last digit on, as on paper: what is carried over the point is whole. Where there are zeros between the
    // point and the digits, nothing is carried that far.
    let mut place = count as i64 - point;
    let mut carry = 0;
    let (mut nanos, mut is_exact) = (0, true);
    for digit in digits.rev().take(count - above) {
        let tenths = (digit << power_of_two) + carry;
        carry = tenths / 10;
        match place {
            1..=9 => nanos += (tenths % 10) as u32 * 10u32.pow(9 - place as u32),
            _ => is_exact &= tenths % 10 == 0,
        }
        place -= 1;
    }
    let units = units.saturating_mul(1 << power_of_two).saturating_add(carry);
    Amount::new(units, nanos + u32::from(!is_exact))
}

/// What a suffix multiplies by: a power of ten and a power of two.
fn factor(suffix: &[u8]) -> Option<(i64, u32)> {
    Some(match suffix {
        b"n" => (-9, 0),
        b"u" => (-6, 0),
        b"m" => (-3, 0),
        b"" => (0, 0),
        b"k" => (3, 0),
        b"M" => (6, 0),
        b"G" => (9, 0),
        b"T" => (12, 0),
        b"P" => (15, 0),
        b"E" => (18, 0),
        b"Ki" => (0, 10),
        b"Mi" => (0, 20),
        b"Gi" => (0, 30),
        b"Ti" => (0, 40),
        b"Pi" => (0, 50),
        b"Ei" => (0, 60),
        [b'e' | b'E', exponent @ ..] => (decimal(exponent)?, 0),
        _ => return None,
    })
}

fn decimal(text: &[u8]) -> Option<i64> {
    let (negative, text) = sign(text);
    let (digits, rest) = digits(text);
    if digits.is_empty() || !rest.is_empty() {
        return None;
    }
    // An exponent that is cut off at a billion is beyond everything all the same.
    let exponent = digits.iter().fold(0, |value, digit| (value * 10 + i64::from(digit - b'0')).min(1_000_000_000));
    Some(if negative { -exponent } else { exponent })
}

fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}

/// The leading digits, and the rest.
fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    (text.get(..end).unwrap_or_default(), text.get(end..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::{Quantity, MALFORMED, NEGATIVE};
    use crate::amount::Amount;

    #[test]
    fn values_are_exact_and_rounded_up() {
        for (text, milli_value, value) in [
            ("0", 0, 0),
            ("2", 2000, 2),
            ("+1.5", 1500, 2),
            ("-1.5", -1500, -2),
            ("1.", 1000, 1),
            (".5", 500, 1),
            ("007", 7000, 7),
            ("3920m", 3920, 4),
            ("0.0001", 1, 1),
            ("1n", 1, 1),
            ("1000001u", 1001, 2),
            ("12e6", 12_000_000_000, 12_000_000),
            ("12E+6", 12_000_000_000, 12_000_000),
            ("1500e-3", 1500, 2),
            ("0e999999999999999999999", 0, 0),
            ("1e-999999999999999999999", 1, 1),
            ("1k", 1_000_000, 1000),
            ("1.5G", 1_500_000_000_000, 1_500_000_000),
            ("64Gi", 68_719_476_736_000, 68_719_476_736),
            ("0.1Ki", 102_400, 103),
            ("1.0009765625Ki", 1_025_000, 1025),
            ("1.00097656250000000000000000000000000000000001Ki", 1_025_001, 1026),
            ("0.00000000000000000000000000000000000000000001Ei", 1, 1),
            ("9223372036854775.807", 9_223_372_036_854_775_807, 9_223_372_036_854_776),
            ("7.999Ei", i64::MAX, 9_222_219_115_350_168_962),
            ("9223372036854775807", i64::MAX, i64::MAX),
            ("1e30", i64::MAX, i64::MAX),
            ("1e999999999999999999999", i64::MAX, i64::MAX),
            ("16Ei", i64::MAX, i64::MAX),
            ("-16Ei", -i64::MAX, -i64::MAX),
        ] {
            let quantity = Quantity(text.as_bytes());
            assert_eq!((quantity.milli_value(), quantity.value()), (Ok(milli_value), Ok(value)), "{}", text);
        }
    }

    #[test]
    fn what_is_no_quantity_is_an_error() {
        for text in [
            "", " ", "-", "+", ".", "m", "Ki", "--1", "1 ", " 1", "1,5", "1.5.5", "1mm", "1K", "1ki", "1kI", "1e",
            "1e+", "1e1.5", "1e5m", "1Kie", "0x10", "NaN", "Inf", "\u{661}",
        ] {
            let quantity = Quantity(text.as_bytes());
            assert_eq!((quantity.milli_value(), quantity.value()), (Err(MALFORMED), Err(MALFORMED)), "{}", text);
        }
    }

    #[test]
    fn amounts_have_billionths_and_no_sign() {
        for (text, units, nanos) in [
            ("1.5", 1, 500_000_000),
            ("-0", 0, 0),
            ("1n", 0, 1),
            ("0.1n", 0, 1),
            ("1.9999999999", 2, 0),
            ("0.1Ki", 102, 400_000_000),
            ("12345678901u", 12345, 678_901_000),
            ("16Ei", i64::MAX as u64, 0),
        ] {
            assert_eq!(Quantity(text.as_bytes()).amount(), Ok(Amount::new(units, nanos)), "{}", text);
        }
        assert_eq!((Quantity(b"-1n").amount(), Quantity(b"1x").amount()), (Err(NEGATIVE), Err(MALFORMED)));
    }
}
