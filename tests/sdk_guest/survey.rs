//! Tells what it saw of the candidates together, for tests: a pod whose name is the letter of a node fits the nodes at
//! least as good. A node's score is how many candidates there were.

use guest::{Candidates, Plugin, Pod, Result, Status};

struct Teller;

struct Wish {
    pod: Vec<u8>,
    /// The names of the candidates of each survey.
    seen: Vec<String>,
    count: i32,
}

impl Plugin for Teller {
    type Wish = Wish;
    type Resident = String;

    fn new() -> Result<Teller> {
        Ok(Teller)
    }

    fn wish(&self, pod: &Pod) -> Result<Wish> {
        Ok(Wish { pod: pod.metadata()?.name()?.to_vec(), seen: Vec::new(), count: 0 })
    }

    fn resident(&self, name: &[u8]) -> Result<String> {
        match name {
            b"unread" => Err("it cannot be read".into()),
            _ => Ok(String::from_utf8_lossy(name).into_owned()),
        }
    }

    fn survey(&self, wish: &mut Wish, candidates: &Candidates<String>) -> Status {
        let mut names = String::new();
        for (number, name) in candidates.iter() {
            names.push_str(&format!("{}{} ", name, number));
        }
        wish.seen.push(names);
        wish.count = candidates.iter().count() as i32;
        match wish.pod.as_slice() {
            b"none" => Status::unresolvable(format!("seen {}", wish.seen.concat())),
            b"bad" => Err("bad candidates".into()).into(),
            _ => Status::SUCCESS,
        }
    }

    fn filter(&self, wish: &Wish, node: &String) -> Status {
        if node.as_bytes() >= wish.pod.as_slice() {
            return Status::SUCCESS;
        }
        Status::unschedulable(format!("{} after {}", node, wish.seen.concat()))
    }

    fn score(&self, wish: &Wish, _: &String) -> i32 {
        wish.count + 10 * wish.seen.len() as i32
    }
}

guest::export!(Teller: prefilter, filter, score);
