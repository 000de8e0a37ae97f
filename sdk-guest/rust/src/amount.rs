use crate::protobuf::Message;
use crate::quantity::Quantity;
use crate::status::Result;
use std::borrow::Cow;
use std::collections::btree_map::{BTreeMap, Entry};
use std::ops::Add;

const BILLION: u32 = 1_000_000_000;

/// An amount of a resource, exact to a billionth as a Quantity of Kubernetes, so that sums are rounded once. It is not
/// negative; beyond 64 bits it is the largest one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount {
    units: i64,
    /// Below a billion.
    nanos: u32,
}

impl Amount {
    pub const fn new(units: u64, nanos: u32) -> Amount {
        let carry = nanos / BILLION;
        let units = units.saturating_add(carry as u64);
        let units = if units > i64::MAX as u64 { i64::MAX } else { units as i64 };
        Amount { units, nanos: nanos - carry * BILLION }
    }

    /// Rounded up to a whole number.
    pub fn value(self) -> i64 {
        self.units.saturating_add(i64::from(self.nanos > 0))
    }

    /// 1,000 times as much, rounded up to a whole number.
    pub fn milli_value(self) -> i64 {
        self.units.saturating_mul(1000).saturating_add(i64::from((self.nanos + 999_999) / 1_000_000))
    }
}

impl Add for Amount {
    type Output = Amount;

    fn add(self, other: Amount) -> Amount {
        Amount::new((self.units as u64).saturating_add(other.units as u64), self.nanos + other.nanos)
    }
}

/// Amounts by the names of their resources: a ResourceList.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts<'a>(BTreeMap<&'a [u8], Amount>);

impl<'a> Amounts<'a> {
    /// A field of type `map<string, Quantity>`.
    pub fn read(message: Message<'a>, number: u32) -> Result<Amounts<'a>> {
        let mut amounts = Amounts::default();
        for entry in message.repeated(number) {
            let entry = Message(entry?);
            let quantity = Quantity(entry.child(2)?.bytes(1)?.unwrap_or_default());
            amounts.set(entry.bytes(1)?.unwrap_or_default(), quantity.amount()?);
        }
        Ok(amounts)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether each name of `other` is one of its own.
    pub fn has_all(&self, other: &Amounts<'a>) -> bool {
        other.0.keys().all(|name| self.0.contains_key(name))
    }

    /// Itself, or `other` if it is empty.
    pub fn or(self, other: Amounts<'a>) -> Amounts<'a> {
        if self.is_empty() {
            other
        } else {
            self
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], Amount)> + '_ {
        self.0.iter().map(|(name, amount)| (*name, *amount))
    }

    pub fn get(&self, name: &[u8]) -> Option<Amount> {
        self.0.get(name).copied()
    }

    pub fn set(&mut self, name: &'a [u8], amount: Amount) {
        self.put(name, amount, |_, new| new);
    }

    pub fn add(&mut self, other: &Amounts<'a>) {
        other.iter().for_each(|(name, amount)| self.put(name, amount, Amount::add));
    }

    /// Adds those of `other` that it has already.
    pub fn add_known(&mut self, other: &Amounts<'a>) {
        self.0.iter_mut().for_each(|(name, amount)| *amount = *amount + other.get(name).unwrap_or_default());
    }

    /// Takes those of `other` that are larger, or that it lacks.
    pub fn raise(&mut self, other: &Amounts<'a>) {
        other.iter().for_each(|(name, amount)| self.put(name, amount, Amount::max));
    }

    /// Itself with those of `other` that it lacks.
    pub fn filled(&self, other: &Amounts<'a>) -> Cow<'_, Amounts<'a>> {
        if self.has_all(other) {
            return Cow::Borrowed(self);
        }
        let mut filled = self.clone();
        other.iter().for_each(|(name, amount)| filled.put(name, amount, |known, _| known));
        Cow::Owned(filled)
    }

    fn put(&mut self, name: &'a [u8], amount: Amount, both: impl Fn(Amount, Amount) -> Amount) {
        match self.0.entry(name) {
            Entry::Occupied(mut known) => known.insert(both(*known.get(), amount)),
            Entry::Vacant(place) => *place.insert(amount),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::{Amount, Amounts, BILLION};
    use crate::protobuf::Message;

    fn amounts(all: &[(&'static str, u64)]) -> Amounts<'static> {
        Amounts(all.iter().map(|(name, units)| (name.as_bytes(), Amount::new(*units, 0))).collect())
    }

    #[test]
    fn sums_are_rounded_once() {
        let half = Amount::new(0, 500_000);
        assert_eq!((half.milli_value(), half.value()), (1, 1));
        assert_eq!(((half + half).milli_value(), (half + half).value()), (1, 1));
        assert_eq!(Amount::new(1, BILLION - 1) + Amount::new(2, 1), Amount::new(4, 0));
        assert!(Amount::new(1, BILLION - 1) < Amount::new(2, 0));
    }

    #[test]
    fn beyond_64_bits_it_is_the_largest() {
        let largest = Amount::new(u64::MAX, 0);
        assert_eq!((largest + largest).value(), i64::MAX);
        assert_eq!(largest.milli_value(), i64::MAX);
    }

    #[test]
    fn lists_are_put_together_by_name() {
        let (one, other) = (amounts(&[("a", 3), ("b", 1)]), amounts(&[("b", 2), ("c", 4)]));
        let with = |put: fn(&mut Amounts<'static>, &Amounts<'static>)| {
            let mut both = one.clone();
            put(&mut both, &other);
            both
        };
        assert_eq!(with(Amounts::add), amounts(&[("a", 3), ("b", 3), ("c", 4)]));
        assert_eq!(with(Amounts::add_known), amounts(&[("a", 3), ("b", 3)]));
        assert_eq!(with(Amounts::raise), amounts(&[("a", 3), ("b", 2), ("c", 4)]));
        assert_eq!(*one.filled(&other), amounts(&[("a", 3), ("b", 1), ("c", 4)]));
        assert_eq!(*one.filled(&amounts(&[("a", 7)])), one);
    }

    #[test]
    fn the_last_entry_of_a_name_counts() {
        let message =
            Message(b"\x12\x0a\x0a\x03cpu\x12\x03\x0a\x012\x12\x0b\x0a\x03cpu\x12\x04\x0a\x023m\x12\x08\x0a\x01x\x12\x03\x0a\x010");
        let read = Amounts::read(message, 2).unwrap();
        assert_eq!(read.get(b"cpu"), Some(Amount::new(0, 3_000_000)));
        assert_eq!((read.get(b"x"), read.get(b"y")), (Some(Amount::default()), None));
        assert_eq!(Amounts::read(message, 3), Ok(Amounts::default()));
    }
}
