//! The binding cycle of a pod.

use super::cluster::Inner;
use super::cycle::{answer, Stage};
use super::world;
use super::Exported;
use crate::group_records::MemberState;
use crate::status::{Code, Status};
use std::time::Duration;

/// What became of a binding cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    pub node: String,
    /// Success once the pod is bound, Wait while it waits on Permit, and else why it is not bound.
    pub status: Status,
    /// For how long the pod may wait at most. Tests have no clock: `give_up` ends a wait.
    pub timeout: Duration,
    /// Those that the bind gives the pod.
    pub annotations: Vec<(String, String)>,
}

impl<P: Exported> Inner<P> {
    pub fn bind(&mut self, id: usize, node: &str) -> Binding {
        self.number_of(&node.to_string());
        self.enter(id, Stage::Bind);
        let pod = self.cycles[id].pod.clone().on(node);
        self.cycles[id].binding = Some(begun(node, Status::SUCCESS));
        self.place(pod.clone(), MemberState::Binding);
        let status = self.ask(id, "reserve", |inner| inner.guest.reserve());
        if status != Status::SUCCESS {
            return self.undo(id, status);
        }
        if self.has("bindingannotations") {
            let annotations = self.on_node(node, |inner| inner.guest.annotations());
            let annotations = annotations.unwrap_or_else(|error| panic!("bindingannotations: {:?}", error));
            let annotated = annotations.iter().fold(pod, |pod, (key, value)| pod.annotation(key, value));
            self.at(id).annotations = annotations;
            self.place(annotated, MemberState::Binding);
        }
        self.permit(id)
    }

    pub fn resume(&mut self, id: usize) -> Binding {
        self.must_wait(id);
        self.prefilter(id);
        self.permit(id)
    }

    pub fn give_up(&mut self, id: usize) -> Binding {
        self.must_wait(id);
        self.reject(id, Status::unschedulable("the wait on Permit was given up"))
    }

    fn must_wait(&self, id: usize) {
        let pod = &self.cycles[id].pod;
        assert!(self.waiting.get(&pod.uid) == Some(&id), "pod {} does not wait on Permit", pod.key());
    }

    fn permit(&mut self, id: usize) -> Binding {
        let mut packed = 0;
        let status = self.ask(id, "permit", |inner| {
            packed = inner.guest.permit();
            (packed >> 32) as i32
        });
        match status.code {
            Code::Success => self.complete(id),
            Code::Wait => {
                self.at(id).timeout = Duration::from_millis(u64::from(packed as u32));
                self.at(id).status = status;
                let pod = &self.cycles[id].pod;
                self.waiting.insert(pod.uid.clone(), id);
                world::with(|world| world.waiting.insert(pod.uid.clone(), pod.protobuf()));
                self.settle();
                self.at(id).clone()
            }
            _ => self.undo(id, status),
        }
    }

    /// Binds the pod, after Permit.
    fn complete(&mut self, id: usize) -> Binding {
        self.end_wait(id);
        let status = self.ask(id, "prebind", |inner| inner.guest.prebind());
        if status != Status::SUCCESS {
            return self.undo(id, status);
        }
        let status = self.ask(id, "bind", |inner| inner.guest.bind());
        if status.code != Code::Success && status.code != Code::Skip {
            return self.undo(id, status);
        }
        self.at(id).timeout = Duration::ZERO;
        self.at(id).status = Status::SUCCESS;
        let node = self.at(id).node.clone();
        if self.has("postbind") {
            self.on_node(&node, |inner| inner.guest.postbind());
        }
        let key = self.cycles[id].pod.key();
        if let Some(placed) = self.pods.get_mut(&key) {
            let bound = placed.object.clone();
            self.place(bound, MemberState::Bound);
        }
        self.end(id)
    }

    /// Calls Unreserve, and leaves the pod pending.
    fn undo(&mut self, id: usize, status: Status) -> Binding {
        self.end_wait(id);
        let node = self.at(id).node.clone();
        if self.has("unreserve") {
            self.on_node(&node, |inner| inner.guest.unreserve());
        }
        self.cycles[id].binding = Some(begun(&node, status));
        let pod = self.cycles[id].pod.clone();
        self.place(pod.on(""), MemberState::Pending);
        self.end(id)
    }

    /// Has whatever comes next for the pod begin a new cycle, and ends waits that the plugin has rejected.
    fn end(&mut self, id: usize) -> Binding {
        if self.on_cycle == Some(id) {
            self.on_cycle = None;
        }
        self.settle();
        self.at(id).clone()
    }

    /// Ends the waits of the pods that `reject_waiting_pod` has named.
    pub fn settle(&mut self) {
        let is_rejected = |uid: &String| world::with(|world| !world.waiting.contains_key(uid));
        while let Some(id) = self.waiting.iter().find(|(uid, _)| is_rejected(uid)).map(|(_, id)| *id) {
            self.reject(id, Status::unschedulable("a plugin rejected the waiting pod"));
        }
    }

    /// Ends a wait. Another instance of the plugin may be told: PreFilter comes first.
    fn reject(&mut self, id: usize, status: Status) -> Binding {
        self.prefilter(id);
        self.undo(id, status)
    }

    fn end_wait(&mut self, id: usize) {
        let uid = &self.cycles[id].pod.uid;
        self.waiting.remove(uid);
        world::with(|world| world.waiting.remove(uid));
    }

    /// The answer of an extension point that is about the node, success if the module does not have it.
    fn ask(&mut self, id: usize, point: &str, call: impl FnOnce(&mut Inner<P>) -> i32) -> Status {
        if !self.has(point) {
            return Status::SUCCESS;
        }
        let node = self.at(id).node.clone();
        self.on_node(&node, |inner| answer(|| call(inner)))
    }

    fn on_node<T>(&mut self, node: &str, call: impl FnOnce(&mut Inner<P>) -> T) -> T {
        world::with(|world| world.node_name = node.into());
        let result = call(self);
        world::with(|world| world.node_name.clear());
        result
    }

    fn at(&mut self, id: usize) -> &mut Binding {
        self.cycles[id].binding.as_mut().expect("the binding cycle has begun")
    }
}

fn begun(node: &str, status: Status) -> Binding {
    Binding { node: node.into(), status, timeout: Duration::ZERO, annotations: Vec::new() }
}
