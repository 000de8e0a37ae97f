use crate::answers::{pairs, words};
use crate::candidates::Candidates;
use crate::cluster_event;
use crate::documents;
use crate::klog;
use crate::node::current_node_name;
use crate::plugin::Plugin;
use crate::pod::{current_pod, target_pod};
use crate::pod_calls::PodPlaces;
use crate::pod_records::Buffer;
use crate::reasons::Reasons;
use crate::residents::Residents;
use crate::status::{Code, Result, Status};
use std::{mem, process};

/// A plugin with what it has found out so far: what the functions of a module work on.
pub struct Guest<P: Plugin> {
    pub(crate) plugin: Option<P>,
    wish: Option<P::Wish>,
    /// Whether the wish has seen a list of candidates.
    has_surveyed: bool,
    pub(crate) residents: Residents<P::Resident>,
    pub(crate) places: PodPlaces,
    /// Where the host writes of pods.
    pub(crate) records: Buffer,
    /// Where the host writes the numbers of nodes and finds the answers, and where it reads annotations.
    buffer: Vec<u32>,
}

impl<P: Plugin> Guest<P> {
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Guest<P> {
        Guest {
            plugin: None,
            wish: None,
            has_surveyed: false,
            residents: Residents::new(),
            places: PodPlaces::new(),
            records: Buffer::new(),
            buffer: Vec::new(),
        }
    }

    pub fn enqueue(&mut self) {
        logged(plugin(&mut self.plugin).map(|plugin| cluster_event::send(&plugin.enqueue())));
    }

    pub fn prefilter(&mut self) -> i32 {
        self.begin();
        answer(self.of_pod(P::prefilter)).send()
    }

    pub fn addpod(&mut self) -> i32 {
        let pod = target_pod();
        answer(self.of_node(|plugin, wish, node| plugin.addpod(wish, &pod, node))).send()
    }

    pub fn removepod(&mut self) -> i32 {
        let pod = target_pod();
        answer(self.of_node(|plugin, wish, node| plugin.removepod(wish, &pod, node))).send()
    }

    pub fn filter(&mut self) -> i32 {
        answer(self.of_node(|plugin, wish, node| plugin.filter(wish, node))).send()
    }

    pub fn filter_nodes(&mut self, count: usize) -> i32 {
        self.of_nodes(count, true, |plugin, wish, node, reasons| encoded(&plugin.filter(wish, node), reasons))
    }

    pub fn postfilter(&mut self) -> i64 {
        answer(self.of_pod(P::postfilter)).send()
    }

    /// PreScore of a plugin without PreFilter.
    pub fn begin_prescore(&mut self) -> i32 {
        self.begin();
        self.prescore()
    }

    pub fn prescore(&mut self) -> i32 {
        answer(self.of_pod(P::prescore)).send()
    }

    pub fn score(&mut self) -> i64 {
        match self.of_node(|plugin, wish, node| plugin.score(wish, node)) {
            Ok(score) => i64::from(score) << 32,
            Err(error) => i64::from(Status::from(error).send()),
        }
    }

    pub fn score_nodes(&mut self, count: usize) -> i32 {
        self.of_nodes(count, false, |plugin, wish, node, _| plugin.score(wish, node) as u32)
    }

    pub fn normalizescore(&mut self) -> i32 {
        Status::from(self.normalized()).send()
    }

    pub fn reserve(&mut self) -> i32 {
        answer(self.of_node(P::reserve)).send()
    }

    /// Where the annotations are, in the buffer, and how long they are: they stay there until the next call.
    pub fn bindingannotations(&mut self) -> i64 {
        let texts = match self.annotations() {
            Ok(annotations) => pairs(&annotations),
            Err(error) => {
                klog::error(format_args!("{}", Status::from(error).reason));
                process::abort() // There is no answer that says so: the pod must not be bound without them.
            }
        };
        self.buffer = words(&texts);
        (self.buffer.as_ptr() as i64) << 32 | texts.len() as i64
    }

    pub(crate) fn annotations(&mut self) -> Result<Vec<(String, String)>> {
        self.of_node(P::bindingannotations)
    }

    pub fn unreserve(&mut self) {
        logged(self.of_node_among(P::unreserve));
    }

    pub fn permit(&mut self) -> i64 {
        answer(self.of_node_among(P::permit)).send()
    }

    pub fn prebind(&mut self) -> i32 {
        answer(self.of_node(P::prebind)).send()
    }

    pub fn bind(&mut self) -> i32 {
        answer(self.of_node(P::bind)).send()
    }

    pub fn postbind(&mut self) {
        logged(self.of_node(P::postbind));
    }

    pub fn node_changed(&mut self, number: u32) {
        let name = current_node_name();
        // A node that cannot be read now is read again when it is judged: then the error can be told.
        let resident = plugin(&mut self.plugin).and_then(|plugin| plugin.resident(&name)).ok();
        self.residents.set(number, &name, resident);
    }

    pub fn node_removed(&mut self, number: u32) {
        self.residents.remove(number);
    }

    pub fn node_buffer(&mut self, count: usize) -> *mut u32 {
        self.buffer.resize(count, 0);
        self.buffer.as_mut_ptr()
    }

    /// What the host has written there, or the plugin in its place.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn numbers(&mut self) -> &mut [u32] {
        &mut self.buffer
    }

    pub fn pod_buffer(&mut self, length: usize) -> *mut u64 {
        self.records.room(length)
    }

    fn begin(&mut self) {
        self.wish = None;
        self.has_surveyed = false;
    }

    fn of_pod<T>(&mut self, judge: impl FnOnce(&P, &mut P::Wish, &Residents<P::Resident>) -> T) -> Result<T> {
        let plugin = plugin(&mut self.plugin)?;
        let wish = wish(plugin, &mut self.wish)?;
        Ok(judge(plugin, wish, &self.residents))
    }

    /// What `judge` says of the current node. One that was not announced is read for this call alone: the host may
    /// not tell when it changes.
    fn of_node<T>(&mut self, judge: impl FnOnce(&P, &mut P::Wish, &P::Resident) -> T) -> Result<T> {
        self.of_node_among(|plugin, wish, node, _| judge(plugin, wish, node))
    }

    /// The same with all nodes that were announced.
    fn of_node_among<T>(
        &mut self,
        judge: impl FnOnce(&P, &mut P::Wish, &P::Resident, &Residents<P::Resident>) -> T,
    ) -> Result<T> {
        let plugin = plugin(&mut self.plugin)?;
        let wish = wish(plugin, &mut self.wish)?;
        let name = current_node_name();
        Ok(match self.residents.named(&name) {
            Some(node) => judge(plugin, wish, node, &self.residents),
            None => judge(plugin, wish, &plugin.resident(&name)?, &self.residents),
        })
    }

    /// Writes over each number in the buffer what `judge` says of that node; in Filter what the survey says, if no node
    /// passes it.
    fn of_nodes(
        &mut self,
        count: usize,
        is_filter: bool,
        judge: impl FnMut(&P, &P::Wish, &P::Resident, &mut Reasons) -> u32,
    ) -> i32 {
        match self.try_nodes(count, is_filter, judge) {
            Ok(()) => Code::Success as i32,
            Err(error) => Status::from(error).send(),
        }
    }

    fn try_nodes(
        &mut self,
        count: usize,
        is_filter: bool,
        mut judge: impl FnMut(&P, &P::Wish, &P::Resident, &mut Reasons) -> u32,
    ) -> Result<()> {
        let plugin = plugin(&mut self.plugin)?;
        let wish = wish(plugin, &mut self.wish)?;
        let mut reasons = Reasons::default();
        let numbers = self.buffer.get_mut(..count).ok_or("a list is longer than the buffer for it")?;
        if !mem::replace(&mut self.has_surveyed, true) || is_filter {
            let status = plugin.survey(wish, &Candidates::new(numbers, &self.residents));
            if is_filter && status.code != Code::Success {
                numbers.fill(encoded(&status, &mut reasons));
                return Ok(());
            }
        }
        for number in numbers {
            *number = match self.residents.get(*number) {
                Some(node) => judge(plugin, wish, node, &mut reasons),
                None => {
                    let name = self.residents.name(*number).ok_or("a number in a list is that of no node")?;
                    let node = plugin.resident(name)?;
                    judge(plugin, wish, &node, &mut reasons)
                }
            };
        }
        Ok(())
    }

    /// Has the scores normalized, and hands them to the host.
    fn normalized(&mut self) -> Result<Status> {
        let plugin = plugin(&mut self.plugin)?;
        let wish = wish(plugin, &mut self.wish)?;
        let mut scores = documents::node_scores()?;
        let status = plugin.normalizescore(wish, &mut scores);
        documents::send_scores(&scores);
        Ok(status)
    }
}

/// The code of a node, and the number of its reason.
#[inline(never)] // It is large, and called for one node and for all.
fn encoded(status: &Status, reasons: &mut Reasons) -> u32 {
    let reason = reasons.number(&status.reason, || {
        status.send();
    });
    status.code as u32 | reason << 8
}

/// The answer, or the error as one.
fn answer<T: From<Status>>(result: Result<T>) -> T {
    result.unwrap_or_else(|error| Status::from(error).into())
}

/// Logs the error of a function without a result.
fn logged(result: Result<()>) {
    if let Err(error) = result {
        klog::error(format_args!("{}", Status::from(error).reason));
    }
}

pub(crate) fn plugin<P: Plugin>(plugin: &mut Option<P>) -> Result<&P> {
    plugin_mut(plugin).map(|plugin| &*plugin)
}

/// The plugin, made now if it has not been.
pub(crate) fn plugin_mut<P: Plugin>(plugin: &mut Option<P>) -> Result<&mut P> {
    match plugin {
        Some(plugin) => Ok(plugin),
        None => {
            #[cfg(all(target_arch = "wasm32", not(feature = "small")))]
            crate::panics::tell();
            Ok(plugin.insert(P::new()?))
        }
    }
}

fn wish<'a, P: Plugin>(plugin: &P, wish: &'a mut Option<P::Wish>) -> Result<&'a mut P::Wish> {
    match wish {
        Some(wish) => Ok(wish),
        None => Ok(wish.insert(plugin.wish(&current_pod())?)),
    }
}
