//! Shows pods to their node, by annotations `example.com/…` of the pod. It has a part in each step of binding.
//!
//! Enqueue: a new node or other labels of one. Reserve: no pod on a node with the label `example.com/closed`. Permit:
//! `replaces` is the UID of a waiting pod that gives way, `wait` the seconds to wait. PreBind: no pod whose `ticket` is
//! `void`. Bind: left to others, with an annotation of the steps so far. PostBind and Unreserve: an Event about the pod.

use guest::{ClusterEvent, Event, EventResource, Permit, Plugin, Pod, Reference, Residents, Result, Status};
use std::time::Duration;

struct Usher;

struct Wish {
    pod: Reference,
    wait: Option<Duration>,
    replaces: Vec<u8>,
    has_void_ticket: bool,
    /// What was done for the pod so far.
    steps: Vec<&'static str>,
}

impl Plugin for Usher {
    type Wish = Wish;
    /// Whether the node is closed.
    type Resident = bool;

    fn new() -> Result<Usher> {
        Ok(Usher)
    }

    fn wish(&self, pod: &Pod) -> Result<Wish> {
        let metadata = pod.metadata()?;
        let wait = match metadata.annotation("example.com/wait")? {
            Some(text) => Some(seconds(text).ok_or("annotation example.com/wait is no number of seconds")?),
            None => None,
        };
        Ok(Wish {
            pod: Reference::pod(pod)?,
            wait,
            replaces: metadata.annotation("example.com/replaces")?.unwrap_or_default().to_vec(),
            has_void_ticket: metadata.annotation("example.com/ticket")? == Some(b"void"),
            steps: Vec::new(),
        })
    }

    fn resident(&self, name: &[u8]) -> Result<bool> {
        let node = guest::node(name).unwrap_or_default();
        Ok(node.metadata()?.label("example.com/closed")?.is_some())
    }

    fn enqueue(&self) -> Vec<ClusterEvent> {
        vec![ClusterEvent::new(EventResource::Node, ClusterEvent::ADD | ClusterEvent::UPDATE_NODE_LABEL)]
    }

    fn reserve(&self, wish: &mut Wish, is_closed: &bool) -> Status {
        if *is_closed {
            return Status::unschedulable("the node is closed");
        }
        wish.steps.push("reserve");
        Status::SUCCESS
    }

    fn bindingannotations(&self, wish: &mut Wish, _: &bool) -> Vec<(String, String)> {
        vec![("example.com/steps".into(), wish.steps.join(", "))]
    }

    fn unreserve(&self, wish: &mut Wish, _: &bool, _: &Residents<bool>) {
        wish.tell("TurnedAway", true);
    }

    fn permit(&self, wish: &mut Wish, _: &bool, _: &Residents<bool>) -> Permit {
        wish.steps.push("permit");
        if !wish.replaces.is_empty() && !guest::reject_waiting_pod(&wish.replaces) {
            return Status::unschedulable("nobody waits whom the pod could replace").into();
        }
        match wish.wait {
            Some(time) => Permit::wait(time, "the doors are not open yet"),
            None => Status::SUCCESS.into(),
        }
    }

    fn prebind(&self, wish: &mut Wish, _: &bool) -> Status {
        if wish.has_void_ticket {
            return Status::unresolvable("the ticket is void");
        }
        wish.steps.push("prebind");
        Status::SUCCESS
    }

    fn bind(&self, wish: &mut Wish, _: &bool) -> Status {
        wish.steps.push("bind");
        Status::SKIP
    }

    fn postbind(&self, wish: &mut Wish, _: &bool) {
        wish.tell("Seated", false);
    }
}

impl Wish {
    fn tell(&self, reason: &'static str, is_warning: bool) {
        let event = Event {
            regarding: self.pod.clone(),
            related: Reference::node(&guest::current_node_name()),
            is_warning,
            reason: reason.into(),
            action: "Binding".into(),
            note: format!("after {}", self.steps.join(", ")).into(),
        };
        event.record();
    }
}

fn seconds(text: &[u8]) -> Option<Duration> {
    std::str::from_utf8(text).ok()?.parse().ok().map(Duration::from_secs)
}

guest::export!(Usher: prefilter, enqueue, reserve, bindingannotations, unreserve, permit, prebind, bind, postbind);

#[cfg(test)]
mod tests {
    use super::{seconds, Usher, Wish};
    use guest::{Permit, Plugin, Reference, Residents, Status};
    use std::time::Duration;

    fn wish() -> Wish {
        Wish { pod: Reference::default(), wait: None, replaces: Vec::new(), has_void_ticket: false, steps: Vec::new() }
    }

    #[test]
    fn a_closed_node_and_a_void_ticket_stop_a_pod() {
        assert_eq!(Usher.reserve(&mut wish(), &true), Status::unschedulable("the node is closed"));
        let mut void = Wish { has_void_ticket: true, ..wish() };
        assert_eq!(Usher.prebind(&mut void, &false), Status::unresolvable("the ticket is void"));
    }

    #[test]
    fn all_steps_in_turn() {
        let mut wish = Wish { wait: seconds(b"3"), ..wish() };
        assert_eq!(Usher.reserve(&mut wish, &false), Status::SUCCESS);
        let annotations = vec![("example.com/steps".into(), "reserve".into())];
        assert_eq!(Usher.bindingannotations(&mut wish, &false), annotations);
        let wait = Permit::wait(Duration::from_secs(3), "the doors are not open yet");
        assert_eq!(Usher.permit(&mut wish, &false, &Residents::default()), wait);
        assert_eq!(Usher.prebind(&mut wish, &false), Status::SUCCESS);
        assert_eq!(Usher.bind(&mut wish, &false), Status::SKIP);
        assert_eq!(wish.steps, ["reserve", "permit", "prebind", "bind"]);
    }

    #[test]
    fn times_are_whole_seconds() {
        for text in ["", "-1", "1.5", "x", "\u{fffd}"] {
            assert_eq!(seconds(text.as_bytes()), None, "{}", text);
        }
    }
}
