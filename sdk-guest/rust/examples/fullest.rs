//! Prefers the nodes with the fewest free seats, of which a node's label `example.com/free-seats` says how many.
//!
//! PreScore: Skip where a single node is left. Score: the seats; NormalizeScore: 100 for none, 0 for the most.

use guest::{NodeScore, Plugin, Pod, Residents, Result, Status};

struct Fullest;

impl Plugin for Fullest {
    type Wish = ();
    /// The free seats.
    type Resident = i32;

    fn new() -> Result<Fullest> {
        Ok(Fullest)
    }

    fn wish(&self, _: &Pod) -> Result<()> {
        Ok(())
    }

    fn resident(&self, name: &[u8]) -> Result<i32> {
        let node = guest::node(name).unwrap_or_default();
        let label = node.metadata()?.label("example.com/free-seats")?;
        Ok(label.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok()).unwrap_or(0))
    }

    fn prescore(&self, _: &mut (), _: &Residents<i32>) -> Status {
        match guest::filtered_nodes() {
            Ok(names) if names.len() == 1 => Status::SKIP,
            Ok(_) => Status::SUCCESS,
            Err(error) => error.into(),
        }
    }

    fn score(&self, _: &(), seats: &i32) -> i32 {
        *seats
    }

    fn normalizescore(&self, _: &mut (), scores: &mut [NodeScore]) -> Status {
        let most = scores.iter().map(|each| each.score).max().unwrap_or(0).max(1);
        scores.iter_mut().for_each(|each| each.score = 100 - 100 * each.score.max(0) / most);
        Status::SUCCESS
    }
}

guest::export!(Fullest: prescore, score, normalizescore);

#[cfg(test)]
mod tests {
    use super::Fullest;
    use guest::{NodeScore, Plugin, Status};

    #[test]
    fn the_most_seats_are_0() {
        for (seats, expected) in [([0, 1, 4], [100, 75, 0]), ([0, 0, 0], [100, 100, 100]), ([-1, 3, 2], [100, 0, 34])] {
            let mut scores = seats.map(|score| NodeScore { name: "node".into(), score });
            assert_eq!(Fullest.normalizescore(&mut (), &mut scores), Status::SUCCESS);
            assert_eq!(scores.map(|each| each.score), expected, "{:?}", seats);
        }
    }
}
