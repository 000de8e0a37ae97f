use crate::place::Place;
use guest::Label;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// All candidates that are in the same domain at every level.
pub struct Leaf<'a> {
    pub place: &'a Place,
    /// How many pods fit.
    pub room: usize,
    /// How many pods fit on the roomiest of them.
    pub largest: usize,
    /// How many members of the group are there.
    pub placed: usize,
}

/// A domain of a level, or leaves that have no label there.
#[derive(Clone)]
pub struct Domain<'a> {
    /// What tells it apart.
    pub label: &'a Label,
    pub leaves: Vec<&'a Leaf<'a>>,
    pub room: usize,
    pub placed: usize,
    pub has_label: bool,
    name: Vec<u8>,
}

/// The domains of a level among some leaves, in the order in which they are taken: first those with most members, then
/// the roomiest.
pub fn domains<'a>(leaves: &[&'a Leaf<'a>], level: usize) -> Vec<Domain<'a>> {
    let mut found = BTreeMap::new();
    for leaf in leaves {
        let label = leaf.place.domain_or_leaf(level);
        let domain = found.entry(label).or_insert_with(|| Domain {
            label,
            leaves: Vec::new(),
            room: 0,
            placed: 0,
            has_label: leaf.place.domain(level).is_some(),
            name: label.text(),
        });
        domain.leaves.push(*leaf);
        domain.room += leaf.room;
        domain.placed += leaf.placed;
    }
    let mut all: Vec<Domain> = found.into_values().collect();
    all.sort_unstable_by(|one, other| one.order().cmp(&other.order()));
    all
}

/// Of the domains of a level with room for `need` pods the one that takes the fewest domains of the next level for them,
/// up to the `last` one; of several the one with the least room.
pub fn fullest<'a, 'b>(
    domains: impl Iterator<Item = &'b Domain<'a>>,
    level: usize,
    last: usize,
    need: usize,
) -> Option<&'b Domain<'a>>
where
    'a: 'b,
{
    let sufficient = domains.filter(|domain| domain.has_label && domain.room >= need);
    sufficient.min_by_key(|domain| -> (usize, usize, &'b [u8]) {
        let parts = if level < last { parts(&domain.leaves, level + 1, need) } else { 0 };
        (parts, domain.room, &domain.name)
    })
}

/// The domains of a level that take `need` pods: those with members, then the roomiest until the rest fits into one.
pub fn select<'a>(leaves: &[&'a Leaf<'a>], level: usize, last: usize, need: usize) -> Vec<Domain<'a>> {
    let (with_members, others): (Vec<_>, Vec<_>) =
        domains(leaves, level).into_iter().partition(|domain| domain.placed > 0);
    let (mut chosen, mut left) = (Vec::new(), need);
    for domain in with_members {
        if left > 0 {
            left = left.saturating_sub(domain.room);
            chosen.push(domain);
        }
    }
    let mut others = others.as_slice();
    while let (true, Some((roomiest, rest))) = (left > 0, others.split_first()) {
        let taken = fullest(others.iter(), level, last, left).unwrap_or(roomiest);
        left = left.saturating_sub(taken.room);
        chosen.push(taken.clone());
        others = rest;
    }
    chosen
}

/// How many domains of a level take `need` pods, the roomiest first.
fn parts(leaves: &[&Leaf], level: usize, need: usize) -> usize {
    let (mut count, mut left) = (0, need);
    for domain in domains(leaves, level) {
        if left > 0 {
            left = left.saturating_sub(domain.room);
            count += 1;
        }
    }
    count
}

impl<'a> Leaf<'a> {
    pub fn new(place: &'a Place) -> Leaf<'a> {
        Leaf { place, room: 0, largest: 0, placed: 0 }
    }
}

impl Domain<'_> {
    fn order(&self) -> (Reverse<usize>, Reverse<bool>, Reverse<usize>, &[u8]) {
        (Reverse(self.placed), Reverse(self.has_label), Reverse(self.room), &self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::{domains, fullest, select, Domain, Leaf};
    use crate::place::tests::place;
    use crate::place::Place;

    /// Racks with their rooms and how many members are there.
    fn leaves(racks: &[(Place, usize, usize)]) -> Vec<Leaf<'_>> {
        racks.iter().map(|(place, room, placed)| Leaf { room: *room, placed: *placed, ..Leaf::new(place) }).collect()
    }

    fn named(domains: &[Domain]) -> Vec<String> {
        domains.iter().map(|domain| String::from_utf8_lossy(&domain.name).into_owned()).collect()
    }

    fn racks(rooms: &[(&str, usize, usize)]) -> Vec<(Place, usize, usize)> {
        let of = |(name, room, placed): &(&str, usize, usize)| (place(&name[..1], &name[1..]), *room, *placed);
        rooms.iter().map(of).collect()
    }

    fn selected(rooms: &[(&str, usize, usize)], level: usize, need: usize) -> Vec<String> {
        let racks = racks(rooms);
        let leaves = leaves(&racks);
        named(&select(&leaves.iter().collect::<Vec<_>>(), level, 1, need))
    }

    #[test]
    fn the_roomiest_are_taken_until_the_rest_fits_into_one_and_that_is_the_fullest() {
        let rooms = [("x1", 4, 0), ("x2", 8, 0), ("x3", 2, 0), ("x4", 3, 0)];
        assert_eq!(selected(&rooms, 1, 2), ["x/3"]);
        assert_eq!(selected(&rooms, 1, 10), ["x/2", "x/3"]);
        assert_eq!(selected(&rooms, 1, 11), ["x/2", "x/4"]);
        assert_eq!(selected(&rooms, 1, 13), ["x/2", "x/1", "x/3"]);
        assert_eq!(selected(&rooms, 1, 99), ["x/2", "x/1", "x/4", "x/3"]);
    }

    #[test]
    fn domains_with_members_come_first_and_nodes_without_a_label_last() {
        let rooms = [("x1", 1, 1), ("x2", 8, 0), ("x", 9, 0), ("x3", 0, 2)];
        assert_eq!(selected(&rooms, 1, 1), ["x/3", "x/1"]);
        assert_eq!(selected(&rooms, 1, 3), ["x/3", "x/1", "x/2"]);
        assert_eq!(selected(&rooms, 1, 10), ["x/3", "x/1", "x/2", "x//"]);
    }

    #[test]
    fn a_block_with_fewer_racks_comes_before_a_fuller_one() {
        let racks = racks(&[("x1", 2, 0), ("x2", 2, 0), ("y1", 4, 0), ("y2", 9, 0), ("z1", 4, 0)]);
        let leaves = leaves(&racks);
        let blocks = domains(&leaves.iter().collect::<Vec<_>>(), 0);
        let best = |last, need| fullest(blocks.iter(), 0, last, need).map(|block| block.room);
        assert_eq!([best(1, 4), best(0, 4), best(1, 5), best(1, 14)], [Some(4), Some(4), Some(13), None]);
        assert_eq!(named(&[fullest(blocks.iter(), 0, 1, 4).unwrap().clone()]), ["z"]);
        assert_eq!(named(&[fullest(blocks.iter(), 0, 0, 4).unwrap().clone()]), ["x"]);
    }
}
