use crate::texts::Texts;

/// What is kept of the nodes that the host has announced, by the numbers that it gave them.
pub struct Residents<R> {
    /// By number; None for a node that could not be read.
    nodes: Vec<Option<R>>,
    names: Texts,
}

impl<R> Default for Residents<R> {
    /// No nodes, as where the host announces none.
    fn default() -> Residents<R> {
        Residents::new()
    }
}

impl<R> Residents<R> {
    pub(crate) const fn new() -> Residents<R> {
        Residents { nodes: Vec::new(), names: Texts::new() }
    }

    /// The nodes that could be read, each with its name, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &R)> {
        (0..).zip(&self.nodes).filter_map(move |(number, node)| Some((self.names.text(number)?, node.as_ref()?)))
    }

    /// The node of that name; None where the host has announced none, or it could not be read.
    pub fn named(&self, name: &[u8]) -> Option<&R> {
        self.get(self.names.number(name)?)
    }

    /// Takes the place of whatever the number and the name stood for before.
    pub(crate) fn set(&mut self, number: u32, name: &[u8], node: Option<R>) {
        self.remove(number);
        if let Some(former) = self.names.number(name) {
            self.remove(former);
        }
        self.names.set(number, name);
        while self.nodes.len() <= number as usize {
            self.nodes.push(None);
        }
        if let Some(place) = self.nodes.get_mut(number as usize) {
            *place = node;
        }
    }

    pub(crate) fn remove(&mut self, number: u32) {
        self.names.remove(number);
        if let Some(place) = self.nodes.get_mut(number as usize) {
            *place = None;
        }
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&R> {
        self.nodes.get(number as usize)?.as_ref()
    }

    /// The name of a node that was announced.
    pub(crate) fn name(&self, number: u32) -> Option<&[u8]> {
        self.names.text(number)
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
    fn all_nodes_that_could_be_read_have_their_names() {
        let mut residents = Residents::new();
        residents.set(3, b"d", Some('d'));
        residents.set(1, b"b", Some('b'));
        residents.set(2, b"c", None);
        assert_eq!(residents.iter().collect::<Vec<_>>(), [(&b"b"[..], &'b'), (&b"d"[..], &'d')]);
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
}
