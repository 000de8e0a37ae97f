//! Scores nodes by number: a pod whose name ends in a digit prefers the nodes whose names end in the same
//! digit. It knows nodes by name only, so it runs where the host has no node objects.
//!
//! Configuration: `{"reverse": true}` prefers all the other nodes instead.

use guest::{Plugin, Pod, Residents, Result, Status};

guest::config! {
    struct NodeNumber {
        reverse: bool = false,
    }
}

impl Plugin for NodeNumber {
    /// None: no node is better than another.
    type Wish = Option<u8>;
    type Resident = Option<u8>;

    fn new() -> Result<NodeNumber> {
        NodeNumber::read()
    }

    fn wish(&self, pod: &Pod) -> Result<Option<u8>> {
        Ok(last_digit(pod.metadata()?.name()?))
    }

    fn resident(&self, name: &[u8]) -> Result<Option<u8>> {
        Ok(last_digit(name))
    }

    fn prescore(&self, wish: &mut Option<u8>, _: &Residents<Option<u8>>) -> Status {
        match wish {
            Some(_) => Status::SUCCESS,
            None => Status::SKIP,
        }
    }

    fn score(&self, wish: &Option<u8>, node: &Option<u8>) -> i32 {
        if wish.is_some() && (wish == node) != self.reverse {
            return 100;
        }
        0
    }
}

fn last_digit(name: &[u8]) -> Option<u8> {
    name.last().copied().filter(u8::is_ascii_digit)
}

guest::export!(NodeNumber: prescore, score);

#[cfg(test)]
mod tests {
    use super::{last_digit, NodeNumber};
    use guest::{Plugin, Residents, Status};

    #[test]
    fn the_last_digit_of_a_name() {
        let names: [&[u8]; 5] = [b"web-5", b"0", b"web-57", b"web-5x", b""];
        assert_eq!(names.map(last_digit), [Some(b'5'), Some(b'0'), Some(b'7'), None, None]);
    }

    #[test]
    fn a_pod_with_a_digit_prefers_the_nodes_with_the_same() {
        let nodes = [Some(b'7'), Some(b'1'), None];
        let scores = |reverse, wish| nodes.map(|node| NodeNumber { reverse }.score(&wish, &node));
        assert_eq!(scores(false, Some(b'7')), [100, 0, 0]);
        assert_eq!(scores(true, Some(b'7')), [0, 100, 100]);
        assert_eq!(scores(true, None), [0, 0, 0]);
    }

    #[test]
    fn a_pod_without_a_digit_needs_no_score() {
        assert_eq!(NodeNumber { reverse: true }.prescore(&mut None, &Residents::default()), Status::SKIP);
    }
}
