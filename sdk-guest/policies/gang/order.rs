//! Which groups go before a group: what they need is not free for it.

use crate::pods::Node;
use crate::room::{Demand, Kind, Room};
use crate::standing::Standing;
use guest::Residents;

/// A group that goes before, and what it needs.
pub struct Ahead {
    pub name: String,
    pub demand: Vec<Demand>,
}

/// The groups that go before one.
///
/// Before one that is under way go those under way with a lesser rank. Before one that would begin, or pods beyond the
/// minimum, go all that are under way, and those of a lesser rank that have waited too long.
pub fn ahead(own: &Standing, others: &[Standing], now: u64, patience: u64, nodes: &Residents<Node>) -> Vec<Ahead> {
    let goes_before = |other: &&Standing| match (own.is_under_way(), other.is_under_way()) {
        (true, is_under_way) => is_under_way && other.is_before(own),
        (false, true) => true,
        (false, false) => {
            other.is_to_begin() && other.is_before(own) && has_waited(other, now, patience) && fits(other, nodes)
        }
    };
    let mut found: Vec<&Standing> = others.iter().filter(goes_before).collect();
    found.sort_by(|one, other| one.is_before(other).cmp(&other.is_before(one)).reverse());
    found.into_iter().map(|standing| Ahead { name: standing.name(), demand: standing.demand() }).collect()
}

/// Whether a group has others wait now.
fn has_waited(standing: &Standing, now: u64, patience: u64) -> bool {
    let age = standing.group.created.map_or(0, |created| now.saturating_sub(created));
    patience > 0 && has_others_wait(age, patience)
}

/// From when the group is as old as `patience` on, with a pause before each time that its age has doubled, which is the
/// last quarter of the time until then: groups that cannot come for a reason that nobody here knows block no others for
/// ever, and each spell is twice as long as the one before.
fn has_others_wait(age: u64, patience: u64) -> bool {
    let mut begin = patience;
    while age >= begin.saturating_mul(2) {
        begin = begin.saturating_mul(2);
    }
    age >= begin && age - begin < begin - begin / 4
}

/// Whether there is room for the group once all groups are gone.
fn fits(standing: &Standing, nodes: &Residents<Node>) -> bool {
    let demand = standing.demand();
    let wanted: usize = demand.iter().map(|demand| demand.count).sum();
    Room::new(Kind::WithoutGroups, || nodes.numbered()).take(&demand) == wanted
}

#[cfg(test)]
mod tests {
    use super::has_others_wait;

    #[test]
    fn spells_are_twice_as_long_each_time_with_pauses_between() {
        let spells: Vec<u64> = (0..1000).filter(|age| has_others_wait(*age, 100)).collect();
        let expected: Vec<u64> = (100..175).chain(200..350).chain(400..700).chain(800..1000).collect();
        assert_eq!(spells, expected);
        assert!(has_others_wait(u64::MAX / 2 + 1, 1) && !has_others_wait(0, 1));
    }
}
