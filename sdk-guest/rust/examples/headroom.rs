//! Prefers the nodes that a pod leaves the most room on.
//!
//! Filter: the zone that the pod's label `example.com/zone` names, if it does, and enough cpu and memory. Score: of
//! cpu and memory, what is left of the scarcer one, in percent of all of it; half of that if the pod's label
//! `example.com/instance-type` names another type than the node's. Other pods on the node do not count.

use guest::{Label, Node, Plugin, Pod, Result, Status};

struct Headroom;

struct Wish {
    cpu: i64,
    memory: i64,
    zone: Label,
    instance_type: Label,
}

struct Room {
    /// Millicores.
    cpu: i64,
    /// Bytes.
    memory: i64,
    zone: Label,
    instance_type: Label,
}

impl Plugin for Headroom {
    type Wish = Wish;
    type Resident = Room;

    fn new() -> Result<Headroom> {
        Ok(Headroom)
    }

    fn wish(&self, pod: &Pod) -> Result<Wish> {
        let (mut cpu, mut memory) = (0i64, 0i64);
        for container in pod.containers()? {
            let container = container?;
            if let Some(quantity) = container.request("cpu")? {
                cpu = cpu.saturating_add(quantity.milli_value()?);
            }
            if let Some(quantity) = container.request("memory")? {
                memory = memory.saturating_add(quantity.value()?);
            }
        }
        let metadata = pod.metadata()?;
        Ok(Wish {
            cpu,
            memory,
            zone: Label::new(metadata.label("example.com/zone")?),
            instance_type: Label::new(metadata.label("example.com/instance-type")?),
        })
    }

    fn resident(&self, name: &[u8]) -> Result<Room> {
        Room::of(&guest::node(name).unwrap_or_default())
    }

    fn filter(&self, wish: &Wish, room: &Room) -> Status {
        if !wish.zone.is_empty() && wish.zone != room.zone {
            return Status::unresolvable("node(s) in another zone");
        }
        if wish.cpu > room.cpu {
            return Status::unschedulable("Insufficient cpu");
        }
        if wish.memory > room.memory {
            return Status::unschedulable("Insufficient memory");
        }
        Status::SUCCESS
    }

    fn score(&self, wish: &Wish, room: &Room) -> i32 {
        let score = percent_left(wish.cpu, room.cpu).min(percent_left(wish.memory, room.memory));
        if wish.instance_type.is_empty() || wish.instance_type == room.instance_type {
            return score;
        }
        score / 2
    }
}

impl Room {
    fn of(node: &Node) -> Result<Room> {
        let cpu = node.allocatable("cpu")?.map_or(Ok(0), |quantity| quantity.milli_value())?;
        let memory = node.allocatable("memory")?.map_or(Ok(0), |quantity| quantity.value())?;
        let metadata = node.metadata()?;
        Ok(Room {
            cpu,
            memory,
            zone: Label::new(metadata.label("topology.kubernetes.io/zone")?),
            instance_type: Label::new(metadata.label("node.kubernetes.io/instance-type")?),
        })
    }
}

fn percent_left(request: i64, allocatable: i64) -> i32 {
    if allocatable <= 0 || request > allocatable {
        return 0;
    }
    (100i64.wrapping_mul(allocatable - request) / allocatable) as i32
}

guest::export!(Headroom: prefilter, filter, score);

#[cfg(test)]
mod tests {
    use super::{percent_left, Headroom, Room, Wish};
    use guest::{Label, Plugin, Status};

    fn wish(cpu: i64, memory: i64, zone: &[u8], instance_type: &[u8]) -> Wish {
        Wish { cpu, memory, zone: Label::new(Some(zone)), instance_type: Label::new(Some(instance_type)) }
    }

    fn room() -> Room {
        Room { cpu: 4000, memory: 1000, zone: Label::new(Some(b"a")), instance_type: Label::new(Some(b"large")) }
    }

    #[test]
    fn the_first_reason_against_a_node_counts() {
        let filter = |wish| Headroom.filter(&wish, &room());
        assert_eq!(filter(wish(4000, 1000, b"a", b"small")), Status::SUCCESS);
        assert_eq!(filter(wish(4000, 1000, b"", b"")), Status::SUCCESS);
        assert_eq!(filter(wish(4001, 1001, b"b", b"")), Status::unresolvable("node(s) in another zone"));
        assert_eq!(filter(wish(4001, 1001, b"a", b"")), Status::unschedulable("Insufficient cpu"));
        assert_eq!(filter(wish(4000, 1001, b"a", b"")), Status::unschedulable("Insufficient memory"));
    }

    #[test]
    fn the_scarcer_resource_counts_and_half_of_it_on_another_type() {
        let score = |wish| Headroom.score(&wish, &room());
        assert_eq!(score(wish(1000, 750, b"", b"")), 25);
        assert_eq!(score(wish(3000, 10, b"", b"large")), 25);
        assert_eq!(score(wish(3000, 10, b"", b"small")), 12);
    }

    #[test]
    fn percents_are_cut_off() {
        assert_eq!([(0, 3), (1, 3), (3, 3), (4, 3), (0, 0)].map(|(r, a)| percent_left(r, a)), [100, 66, 0, 0, 0]);
    }
}
