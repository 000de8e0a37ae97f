//! Finds pods a seat: a node's label `example.com/free-seats` says how many there are, and a pod's label
//! `example.com/seats` how many it takes. A pod with the label `example.com/room` looks at the nodes of that room alone.
//!
//! PreFilter: the nodes of the room, and Skip for a pod that takes no seat. Filter: enough seats, with those of the pods
//! that a preemption would remove. PostFilter: nominates the candidate with the most free seats.

use guest::{Code, Error, Label, Metadata, Plugin, Pod, PostFilter, PreFilter, Residents, Result, Status};

struct Seats;

struct Wish {
    seats: i64,
    room: Label,
    /// By pods that are removed from the node at hand, and not added again.
    freed: i64,
}

struct Place {
    free: i64,
    room: Label,
}

impl Plugin for Seats {
    type Wish = Wish;
    type Resident = Place;

    fn new() -> Result<Seats> {
        Ok(Seats)
    }

    fn wish(&self, pod: &Pod) -> Result<Wish> {
        let metadata = pod.metadata()?;
        let seats = number(metadata, "example.com/seats")?;
        Ok(Wish { seats, room: Label::new(metadata.label("example.com/room")?), freed: 0 })
    }

    fn resident(&self, name: &[u8]) -> Result<Place> {
        let node = guest::node(name).unwrap_or_default();
        let metadata = node.metadata()?;
        let free = number(metadata, "example.com/free-seats")?;
        Ok(Place { free, room: Label::new(metadata.label("example.com/room")?) })
    }

    fn prefilter(&self, wish: &mut Wish, nodes: &Residents<Place>) -> PreFilter {
        if wish.seats == 0 && wish.room.is_empty() {
            return Status::SKIP.into();
        }
        if wish.room.is_empty() || nodes.iter().next().is_none() {
            return Status::SUCCESS.into();
        }
        let in_room = nodes.iter().filter(|(_, place)| place.room == wish.room);
        PreFilter::only(in_room.map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect())
    }

    fn addpod(&self, wish: &mut Wish, pod: &Pod, _: &Place) -> Status {
        count(wish, pod, -1).into()
    }

    fn removepod(&self, wish: &mut Wish, pod: &Pod, _: &Place) -> Status {
        count(wish, pod, 1).into()
    }

    fn filter(&self, wish: &Wish, place: &Place) -> Status {
        if !wish.room.is_empty() && wish.room != place.room {
            return Status::unresolvable("another room");
        }
        let free = place.free + wish.freed;
        if wish.seats > free {
            return Status::unschedulable(format!("{} of {} seats are free", free, wish.seats));
        }
        Status::SUCCESS
    }

    fn postfilter(&self, _: &mut Wish, nodes: &Residents<Place>) -> PostFilter {
        let candidates = match guest::node_statuses() {
            Ok(candidates) => candidates,
            Err(error) => return Status::from(error).into(),
        };
        let resolvable = candidates.into_iter().filter(|(_, code)| *code == Code::Unschedulable);
        let free = |name: &String| nodes.named(name.as_bytes()).map_or(0, |place| place.free);
        match resolvable.map(|(name, _)| name).max_by_key(free) {
            Some(name) if free(&name) > 0 => PostFilter::nominate(name),
            _ => Status::unschedulable("no node has a free seat").into(),
        }
    }
}

/// Frees the seats of a pod, or takes them.
fn count(wish: &mut Wish, pod: &Pod, sign: i64) -> Result<Status> {
    wish.freed += sign * number(pod.metadata()?, "example.com/seats")?;
    Ok(Status::SUCCESS)
}

/// The label as a number, 0 where there is none.
fn number(metadata: Metadata, label: &str) -> Result<i64> {
    let text = match metadata.label(label)? {
        Some(text) => String::from_utf8_lossy(text),
        None => return Ok(0),
    };
    text.parse().map_err(|_| Error::from(format!("label {} is no number: {}", label, text)))
}

guest::export!(Seats: prefilter, addpod, removepod, filter, postfilter);

#[cfg(test)]
mod tests {
    use super::{Place, Seats, Wish};
    use guest::{Label, Plugin, PreFilter, Residents, Status};

    fn wish(seats: i64, room: &[u8]) -> Wish {
        Wish { seats, room: Label::new(Some(room)), freed: 0 }
    }

    #[test]
    fn seats_that_are_freed_count() {
        let place = Place { free: 2, room: Label::new(Some(b"a")) };
        let filter = |wish| Seats.filter(&wish, &place);
        assert_eq!(filter(wish(2, b"a")), Status::SUCCESS);
        assert_eq!(filter(wish(3, b"")), Status::unschedulable("2 of 3 seats are free"));
        assert_eq!(filter(Wish { freed: 1, ..wish(3, b"") }), Status::SUCCESS);
        assert_eq!(filter(wish(1, b"b")), Status::unresolvable("another room"));
    }

    #[test]
    fn where_no_nodes_are_announced_filter_looks_at_all() {
        let prefilter = |mut wish| Seats.prefilter(&mut wish, &Residents::default());
        assert_eq!(prefilter(wish(0, b"")), PreFilter::from(Status::SKIP));
        assert_eq!(prefilter(wish(0, b"a")), PreFilter::from(Status::SUCCESS));
        assert_eq!(prefilter(wish(1, b"")), PreFilter::from(Status::SUCCESS));
    }
}
