use crate::texts::Texts;
use std::mem;

/// What is kept of the nodes that the host has announced, by the numbers that it gave them.
pub struct Residents<R> {
    slots: Vec<Slot<R>>,
    names: Texts,
}

/// What is kept under a number.
enum Slot<R> {
    /// Nothing, also for a node that could not be read.
    Empty,
    /// What is kept for a node that is not there, or could not be read.
    Aside(R),
    Node(R),
}

impl<R> Default for Residents<R> {
    /// No nodes, as where the host announces none.
    fn default() -> Residents<R> {
        Residents::new()
    }
}

impl<R> Residents<R> {
    pub(crate) const fn new() -> Residents<R> {
        Residents { slots: Vec::new(), names: Texts::new() }
    }

    /// The nodes that could be read, each with its name, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &R)> {
        (0..self.slots.len() as u32).filter_map(move |number| Some((self.name(number)?, self.get(number)?)))
    }

    /// The same, each with its number, which a [`Member`](crate::Member) may name.
    pub fn numbered(&self) -> impl Iterator<Item = (u32, &R)> {
        (0..self.slots.len() as u32).filter_map(move |number| Some((number, self.get(number)?)))
    }

    /// The node of that name; None where the host has announced none, or it could not be read.
    pub fn named(&self, name: &[u8]) -> Option<&R> {
        self.get(self.names.number(name)?)
    }

    /// Adds a node of which the host has not told, as tests need to, and returns its number.
    pub fn add(&mut self, name: &[u8], node: R) -> u32 {
        let number = self.slots.len() as u32;
        self.set(number, name, Some(node));
        number
    }

    /// Takes the place of whatever the number and the name stood for before.
    pub(crate) fn set(&mut self, number: u32, name: &[u8], node: Option<R>) {
        self.remove(number);
        if let Some(former) = self.names.number(name) {
            self.remove(former);
        }
        self.names.set(number, name);
        self.put(number, node.map_or(Slot::Empty, Slot::Node));
    }

    pub(crate) fn remove(&mut self, number: u32) {
        self.names.remove(number);
        self.take(number);
    }

    /// Leaves nothing under the number, and returns what was there, be it a node's or not.
    pub(crate) fn take(&mut self, number: u32) -> Option<R> {
        match mem::replace(self.slots.get_mut(number as usize)?, Slot::Empty) {
            Slot::Aside(resident) | Slot::Node(resident) => Some(resident),
            Slot::Empty => None,
        }
    }

    /// Keeps something under the number of a node that is not there, or could not be read.
    pub(crate) fn set_aside(&mut self, number: u32, resident: R) {
        self.put(number, Slot::Aside(resident));
    }

    /// What is under the number, be it a node's or not.
    pub(crate) fn at(&mut self, number: u32) -> Option<&mut R> {
        match self.slots.get_mut(number as usize)? {
            Slot::Aside(resident) | Slot::Node(resident) => Some(resident),
            Slot::Empty => None,
        }
    }

    /// The node of that number, which only [`Member`](crate::Member) tells; None where there is none.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&R> {
        match self.slots.get(number as usize)? {
            Slot::Node(resident) => Some(resident),
            _ => None,
        }
    }

    /// The name of a node that was announced.
    pub(crate) fn name(&self, number: u32) -> Option<&[u8]> {
        self.names.text(number)
    }

    fn put(&mut self, number: u32, slot: Slot<R>) {
        while self.slots.len() <= number as usize {
            self.slots.push(Slot::Empty);
        }
        if let Some(place) = self.slots.get_mut(number as usize) {
            *place = slot;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Residents;

    #[test]
    fn nodes_are_found_by_number_and_by_name() {
        let mut residents = Residents::new();
        residents.set(2, b"c", Some('c'));
        residents.set(0, b"a", Some('a'));
        assert_eq!([0, 1, 2, 3].map(|number| residents.get(number)), [Some(&'a'), None, Some(&'c'), None]);
        assert_eq!([b"a", b"b", b"c"].map(|name| residents.named(name)), [Some(&'a'), None, Some(&'c')]);
    }

    #[test]
    fn nodes_of_tests_get_numbers_in_turn() {
        let mut residents = Residents::new();
        assert_eq!([residents.add(b"a", 'a'), residents.add(b"b", 'b')], [0, 1]);
        assert_eq!((residents.get(1), residents.named(b"a")), (Some(&'b'), Some(&'a')));
    }

    #[test]
    fn all_nodes_that_could_be_read_have_their_names() {
        let mut residents = Residents::new();
        residents.set(3, b"d", Some('d'));
        residents.set(1, b"b", Some('b'));
        residents.set(2, b"c", None);
        assert_eq!(residents.iter().collect::<Vec<_>>(), [(&b"b"[..], &'b'), (&b"d"[..], &'d')]);
        assert_eq!(residents.numbered().collect::<Vec<_>>(), [(1, &'b'), (3, &'d')]);
    }

    #[test]
    fn a_node_that_was_taken_back_is_gone_and_its_number_and_name_may_come_again() {
        let mut residents = Residents::new();
        residents.set(0, b"a", Some(1));
        residents.remove(0);
        assert_eq!((residents.get(0), residents.named(b"a"), residents.name(0)), (None, None, None));
        residents.set(0, b"b", Some(2));
        residents.set(1, b"a", Some(3));
        assert_eq!((residents.named(b"a"), residents.named(b"b")), (Some(&3), Some(&2)));
    }

    #[test]
    fn without_taking_back_the_last_announcement_counts() {
        let mut residents = Residents::new();
        residents.set(0, b"a", Some(1));
        residents.set(1, b"a", Some(2));
        assert_eq!((residents.get(0), residents.get(1), residents.named(b"a")), (None, Some(&2), Some(&2)));
        residents.set(1, b"b", Some(3));
        assert_eq!((residents.named(b"a"), residents.named(b"b")), (None, Some(&3)));
    }

    #[test]
    fn a_node_that_could_not_be_read_replaces_what_could() {
        let mut residents = Residents::new();
        residents.set(0, b"a", Some(1));
        residents.set(0, b"a", None);
        assert_eq!((residents.get(0), residents.named(b"a"), residents.name(0)), (None, None, Some(&b"a"[..])));
    }

    #[test]
    fn what_is_set_aside_is_no_node() {
        let mut residents = Residents::new();
        residents.set(0, b"a", Some(1));
        assert_eq!((residents.take(0), residents.take(7)), (Some(1), None));
        residents.set_aside(0, 2);
        residents.set_aside(3, 3);
        assert_eq!((residents.get(0), residents.named(b"a"), residents.name(0)), (None, None, Some(&b"a"[..])));
        assert_eq!([0, 1, 3, 9].map(|number| residents.at(number).copied()), [Some(2), None, Some(3), None]);
    }
}
