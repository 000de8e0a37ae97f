/// Which place a pod takes of those that have room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The fullest one.
    Binpack,
    /// The emptiest one.
    Spread,
}

impl Policy {
    pub fn named(name: &[u8]) -> Option<Policy> {
        match name {
            b"binpack" => Some(Policy::Binpack),
            b"spread" => Some(Policy::Spread),
            _ => None,
        }
    }

    /// The score of a place that is full to `level` percent, from 0 to 100.
    pub fn score(self, level: i64) -> i64 {
        match self {
            Policy::Binpack => level,
            Policy::Spread => 100 - level,
        }
    }
}
