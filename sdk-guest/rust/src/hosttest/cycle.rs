//! The scheduling cycle of a pod.

use super::binding::Binding;
use super::cluster::{Host, Inner};
use super::objects::PodObject;
use super::world;
use super::Exported;
use crate::documents::{self, NodeScore};
use crate::json;
use crate::status::{Code, Status};
use std::collections::BTreeMap;

/// The cycle of a pod. PreFilter comes first in each, and once more where the host begins anew: at each `filter`, after
/// the cycle of another pod, and after a wait on Permit.
pub struct Cycle<'h, P: Exported> {
    pub(super) host: &'h Host<P>,
    pub(super) id: usize,
}

/// What is known of a cycle.
pub struct CycleState {
    pub pod: PodObject,
    stage: Stage,
    verdicts: Option<BTreeMap<String, Status>>,
    scores: BTreeMap<String, i64>,
    pub binding: Option<Binding>,
    /// PreFilter's; no names are all nodes.
    status: Status,
    names: Vec<String>,
}

/// A part of a cycle, in their order.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub enum Stage {
    Filter,
    Score,
    Preempt,
    PostFilter,
    Bind,
}

impl CycleState {
    pub fn new(pod: PodObject) -> CycleState {
        CycleState {
            pod,
            stage: Stage::Filter,
            verdicts: None,
            scores: BTreeMap::new(),
            binding: None,
            status: Status::SUCCESS,
            names: Vec::new(),
        }
    }
}

impl<P: Exported> Cycle<'_, P> {
    /// Begins the cycle anew: PreFilter, and Filter on each node that it leaves. Returns what they said of each node.
    pub fn filter(&self) -> BTreeMap<String, Status> {
        self.host.0.borrow_mut().filter(self.id);
        self.verdicts()
    }

    /// Calls PreScore, Score on each node that has passed, and NormalizeScore. Returns the scores of these nodes, from 0
    /// to 100: none if the plugin has no Score, or PreScore says Skip.
    pub fn score(&self) -> BTreeMap<String, i64> {
        self.host.0.borrow_mut().score(self.id);
        self.scores()
    }

    /// Asks about candidates for preemption, each with the pods that would be evicted there: RemovePod of each, Filter,
    /// AddPod of each, and PostFilter for the candidates that are left. Returns those that stay.
    pub fn preempt(&self, victims: &[(&str, &[PodObject])]) -> Vec<String> {
        self.host.0.borrow_mut().preempt(self.id, victims)
    }

    /// What PreFilter and Filter said of each node.
    pub fn verdicts(&self) -> BTreeMap<String, Status> {
        self.host.0.borrow().cycles[self.id].verdicts.clone().unwrap_or_default()
    }

    /// The scores of the nodes that passed.
    pub fn scores(&self) -> BTreeMap<String, i64> {
        self.host.0.borrow().cycles[self.id].scores.clone()
    }

    /// Runs the binding cycle on a node: Reserve, BindingAnnotations and Permit, and PreBind, Bind and PostBind unless the
    /// pod waits. After a failure comes Unreserve, and the pod is pending again.
    pub fn bind(&self, node: &str) -> Binding {
        self.host.0.borrow_mut().bind(self.id, node)
    }

    /// Asks Permit of a pod that waits again, as the host does when pods, nodes or groups have changed, and goes on if
    /// that lets it. Another instance of the plugin may be asked: PreFilter comes first.
    pub fn resume(&self) -> Binding {
        self.host.0.borrow_mut().resume(self.id)
    }

    /// Ends a wait on Permit, as its timeout does: Unreserve.
    pub fn give_up(&self) -> Binding {
        self.host.0.borrow_mut().give_up(self.id)
    }

    /// What became of the pod's binding cycle; None if it had none.
    pub fn binding(&self) -> Option<Binding> {
        self.host.0.borrow().cycles[self.id].binding.clone()
    }
}

impl<P: Exported> Inner<P> {
    fn filter(&mut self, id: usize) {
        self.enter(id, Stage::Filter);
        let (status, only) = (self.cycles[id].status.clone(), self.cycles[id].names.clone());
        let mut verdicts = BTreeMap::new();
        let mut left = Vec::new();
        for name in self.nodes.keys() {
            let verdict = match status.code {
                Code::Skip => Status::SUCCESS,
                Code::Success if !only.is_empty() && !only.contains(&name) => {
                    Status::unresolvable("node(s) not among those that PreFilter names")
                }
                Code::Success => {
                    left.push(name.clone());
                    Status::SUCCESS
                }
                _ => status.clone(),
            };
            verdicts.insert(name, verdict);
        }
        if self.has("filter") {
            let answers = self.filter_all(&left);
            verdicts.extend(left.into_iter().zip(answers));
        }
        self.cycles[id].verdicts = Some(verdicts);
        self.cycles[id].scores.clear();
        self.settle();
    }

    fn filter_all(&mut self, names: &[String]) -> Vec<Status> {
        self.number(names);
        let status = answer(|| self.guest.filter_nodes(names.len()));
        if status.code != Code::Success {
            return vec![status; names.len()];
        }
        let reasons = world::with(|world| world.reasons.clone());
        let read = |answer: &u32| {
            let at = (*answer >> 8) as usize;
            let reason = if at == 0 { String::new() } else { reasons[at - 1].clone() };
            Status { code: code((*answer & 0xff).into()), reason: reason.into() }
        };
        self.guest.numbers().iter().map(read).collect()
    }

    /// Has the numbers of nodes where the plugin finds them and leaves its answers.
    fn number(&mut self, names: &[String]) {
        let numbers: Vec<u32> = names.iter().map(|name| self.number_of(name)).collect();
        self.guest.node_buffer(names.len());
        self.guest.numbers().copy_from_slice(&numbers);
    }

    /// The nodes that Filter has let pass, or all where it was not asked.
    pub fn passed(&self, id: usize) -> Vec<String> {
        match &self.cycles[id].verdicts {
            Some(verdicts) => {
                let passed = verdicts.iter().filter(|(_, status)| **status == Status::SUCCESS);
                passed.map(|(name, _)| name.clone()).collect()
            }
            None => self.nodes.keys(),
        }
    }

    fn score(&mut self, id: usize) {
        self.enter(id, Stage::Score);
        self.cycles[id].scores.clear();
        let names = self.passed(id);
        if self.has("prescore") && !self.prescore(&names) || !self.has("score") || names.is_empty() {
            return;
        }
        self.number(&names);
        must_succeed("score", answer(|| self.guest.score_nodes(names.len())));
        let given = self.guest.numbers().iter().map(|score| i64::from(*score as i32));
        let scores: Vec<NodeScore> =
            names.into_iter().zip(given).map(|(name, score)| NodeScore { name, score }).collect();
        for NodeScore { name, score } in self.normalized(scores) {
            assert!((0..=100).contains(&score), "score {} of node {} is outside 0..100", score, name);
            self.cycles[id].scores.insert(name, score);
        }
        self.settle();
    }

    /// Whether there is anything to score for.
    fn prescore(&mut self, names: &[String]) -> bool {
        world::with(|world| world.filtered = strings(names));
        let begins = !self.has("prefilter");
        let status = answer(|| if begins { self.guest.begin_prescore() } else { self.guest.prescore() });
        world::with(|world| world.filtered = b"[]".to_vec());
        if status.code == Code::Skip {
            return false;
        }
        must_succeed("prescore", status);
        true
    }

    fn normalized(&mut self, scores: Vec<NodeScore>) -> Vec<NodeScore> {
        if !self.has("normalizescore") {
            return scores;
        }
        world::with(|world| world.scores = documents::object(&scores).into_bytes());
        must_succeed("normalizescore", answer(|| self.guest.normalizescore()));
        documents::scores(&result("normalized_score_list")).expect("the plugin's scores are JSON")
    }

    fn preempt(&mut self, id: usize, victims: &[(&str, &[PodObject])]) -> Vec<String> {
        self.enter(id, Stage::Preempt);
        if !self.has("filter") {
            return Vec::new();
        }
        let mut stay: Vec<String> = Vec::new();
        for (node, evicted) in victims {
            if self.passes_without(node, evicted) {
                stay.push(node.to_string());
            }
        }
        if self.has("postfilter") && !stay.is_empty() {
            return self.nominated(id, stay);
        }
        stay
    }

    fn passes_without(&mut self, node: &str, victims: &[PodObject]) -> bool {
        self.number_of(&node.to_string());
        world::with(|world| world.node_name = node.into());
        for victim in victims.iter().filter(|_| P::POINTS.contains(&"removepod")) {
            world::with(|world| world.target = victim.protobuf());
            must_succeed("removepod", answer(|| self.guest.removepod()));
        }
        let status = answer(|| self.guest.filter());
        for victim in victims.iter().filter(|_| P::POINTS.contains(&"addpod")) {
            world::with(|world| world.target = victim.protobuf());
            must_succeed("addpod", answer(|| self.guest.addpod()));
        }
        world::with(|world| {
            world.target.clear();
            world.node_name.clear();
        });
        status == Status::SUCCESS
    }

    fn nominated(&mut self, id: usize, candidates: Vec<String>) -> Vec<String> {
        self.enter(id, Stage::PostFilter);
        let rejected = |name: &String| NodeScore { name: name.clone(), score: Code::Unschedulable as i64 };
        let statuses: Vec<NodeScore> = candidates.iter().map(rejected).collect();
        world::with(|world| world.statuses = documents::object(&statuses).into_bytes());
        let status = answer(|| self.guest.postfilter() as i32);
        world::with(|world| world.statuses = b"{}".to_vec());
        let name = String::from_utf8_lossy(&result("nominated_node_name")).into_owned();
        if status != Status::SUCCESS || name.is_empty() {
            return candidates;
        }
        candidates.into_iter().filter(|candidate| *candidate == name).collect()
    }

    /// Goes on to a stage of the cycle, which begins anew where the plugin was asked about another pod meanwhile, or the
    /// cycle was there before.
    pub fn enter(&mut self, id: usize, stage: Stage) {
        if self.on_cycle != Some(id) || stage <= self.cycles[id].stage {
            self.prefilter(id);
        }
        self.cycles[id].stage = stage;
    }

    /// Begins the cycle anew, with PreFilter.
    pub fn prefilter(&mut self, id: usize) {
        self.on_cycle = Some(id);
        let cycle = &mut self.cycles[id];
        world::with(|world| world.pod = cycle.pod.protobuf());
        (cycle.status, cycle.names) = (Status::SUCCESS, Vec::new());
        if !P::POINTS.contains(&"prefilter") {
            return;
        }
        cycle.status = answer(|| P::begin(&mut self.guest));
        let names = result("node_names");
        cycle.names = names.split(|byte| *byte == 0).map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        cycle.names.retain(|name| !name.is_empty());
    }
}

/// What an export says.
pub fn answer(export: impl FnOnce() -> i32) -> Status {
    world::with(|world| {
        world.reasons.clear();
        world.results.clear();
    });
    let number = export();
    let reason = world::with(|world| world.reasons.last().cloned().unwrap_or_default());
    Status { code: code(number.into()), reason: reason.into() }
}

fn code(number: i64) -> Code {
    Code::of(number).unwrap_or_else(|| panic!("{} is no status code", number))
}

fn must_succeed(point: &str, status: Status) {
    assert!(status.code == Code::Success, "{}: {:?}", point, status);
}

/// What the plugin has handed over by that name, empty if nothing.
fn result(name: &str) -> Vec<u8> {
    world::with(|world| world.results.get(name).cloned().unwrap_or_default())
}

/// A JSON list.
fn strings(texts: &[String]) -> Vec<u8> {
    let mut list = String::from("[");
    for text in texts {
        if list.len() > 1 {
            list.push(',');
        }
        json::quote(text, &mut list);
    }
    list.push(']');
    list.into_bytes()
}
