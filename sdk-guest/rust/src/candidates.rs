use crate::residents::Residents;

/// The nodes that Filter is asked about in one call: those that kube-scheduler's own filters and the plugins before this
/// one have let pass. It is one node alone where a pod is nominated to it, and in preemption.
pub struct Candidates<'a, R> {
    numbers: &'a [u32],
    residents: &'a Residents<R>,
}

impl<'a, R> Candidates<'a, R> {
    /// Those of `residents` that have these numbers, as tests make them.
    pub fn new(numbers: &'a [u32], residents: &'a Residents<R>) -> Candidates<'a, R> {
        Candidates { numbers, residents }
    }

    /// All nodes, of which these are some.
    pub fn residents(&self) -> &'a Residents<R> {
        self.residents
    }

    /// Whether it is one node alone.
    pub fn is_one(&self) -> bool {
        self.numbers.len() == 1
    }

    /// Each node with its number, which a [`Member`](crate::Member) may name, in the order of the request. A node that
    /// could not be read is not among them.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &'a R)> + '_ {
        self.numbers.iter().filter_map(|number| Some((*number, self.residents.get(*number)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::Candidates;
    use crate::residents::Residents;

    #[test]
    fn candidates_are_the_nodes_of_the_request_that_could_be_read() {
        let mut residents = Residents::new();
        for (number, node) in [(0, Some('a')), (1, None), (2, Some('c')), (3, Some('d'))] {
            residents.set(number, &[number as u8], node);
        }
        let candidates = Candidates::new(&[3, 1, 0, 9], &residents);
        assert_eq!(candidates.iter().collect::<Vec<_>>(), [(3, &'d'), (0, &'a')]);
        assert_eq!((candidates.residents().get(2), candidates.is_one()), (Some(&'c'), false));
        assert!(Candidates::new(&[2], &residents).is_one());
    }
}
