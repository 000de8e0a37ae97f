//! The imports of a module as tests have them: what the host of this thread answers.

use super::objects::message;
use crate::event::Event;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{ptr, slice};

/// What the plugin may ask for, and what it has handed over.
#[derive(Default)]
pub struct World {
    pub pod: Vec<u8>,
    pub target: Vec<u8>,
    pub node_name: String,
    pub config: Vec<u8>,
    pub nodes: BTreeMap<String, Vec<u8>>,
    /// JSON.
    pub filtered: Vec<u8>,
    pub statuses: Vec<u8>,
    pub scores: Vec<u8>,
    /// Pods that wait on Permit, by their UIDs.
    pub waiting: BTreeMap<String, Vec<u8>>,
    /// What was handed over since the call began, by the names of the imports.
    pub results: BTreeMap<&'static str, Vec<u8>>,
    pub reasons: Vec<String>,
    pub events: Vec<Event>,
    pub log: Vec<String>,
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

/// Takes the place of the world that is there, if any, and returns that.
pub fn set(world: Option<World>) -> Option<World> {
    WORLD.with(|cell| cell.replace(world))
}

/// Looks at the world, or changes it. Without one there is no host to ask.
pub fn with<T>(look: impl FnOnce(&mut World) -> T) -> T {
    WORLD.with(|cell| look(cell.borrow_mut().as_mut().expect("there is no host: make a guest::hosttest::Host")))
}

/// Keeps an Event, which `eventf` gets as JSON.
pub fn recorded(event: &Event) {
    with(|world| world.events.push(event.clone()));
}

/// The bytes of a text in memory.
///
/// # Safety
/// As `slice::from_raw_parts`.
unsafe fn given(at: *const u8, length: usize) -> Vec<u8> {
    slice::from_raw_parts(at, length).to_vec()
}

unsafe fn text(at: *const u8, length: usize) -> String {
    String::from_utf8_lossy(&given(at, length)).into_owned()
}

/// Writes an answer if it fits, and returns its length.
unsafe fn answer(value: &[u8], buf: *mut u8, limit: usize) -> usize {
    if value.len() <= limit {
        ptr::copy_nonoverlapping(value.as_ptr(), buf, value.len());
    }
    value.len()
}

unsafe fn result(name: &'static str, buf: *const u8, len: usize) {
    let value = given(buf, len);
    with(|world| world.results.insert(name, value));
}

fn line(severity: i32, text: &str) {
    let severity = ["info", "warning", "error"].get(severity as usize).copied().unwrap_or("fatal");
    with(|world| world.log.push(format!("{}: {}", severity, text)));
}

// Each function is as `host` declares it.

pub unsafe fn clock_time_get(_: u32, _: u64, time: *mut u64) -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    *time = now.as_nanos() as u64;
    0
}

pub unsafe fn fd_write(_: u32, parts: *const [usize; 2], count: usize, written: *mut usize) -> u32 {
    let parts = slice::from_raw_parts(parts, count);
    eprint!("{}", parts.iter().map(|part| text(part[0] as *const u8, part[1])).collect::<String>());
    *written = parts.iter().map(|part| part[1]).sum();
    0
}

pub unsafe fn node(name: *const u8, name_len: usize, buf: *mut u8, limit: usize) -> usize {
    let name = text(name, name_len);
    with(|world| answer(world.nodes.get(&name).map_or(&[], Vec::as_slice), buf, limit))
}

pub unsafe fn node_list(buf: *mut u8, limit: usize) -> usize {
    let list: Vec<u8> = with(|world| world.nodes.values().flat_map(|node| message(2, node)).collect());
    answer(&list, buf, limit)
}

pub unsafe fn log(severity: i32, msg: *const u8, msg_len: usize) {
    line(severity, &text(msg, msg_len));
}

pub unsafe fn logs(severity: i32, msg: *const u8, msg_len: usize, kvs: *const u8, kvs_len: usize) {
    let pairs = text(kvs, kvs_len);
    let pairs: Vec<&str> = pairs.split_terminator('\0').collect();
    let pairs: String = pairs.chunks(2).map(|pair| format!(" {}", pair.join("="))).collect();
    line(severity, &(text(msg, msg_len) + &pairs));
}

pub unsafe fn severity() -> i32 {
    0
}

pub unsafe fn current_pod(buf: *mut u8, limit: usize) -> usize {
    with(|world| answer(&world.pod, buf, limit))
}

pub unsafe fn current_node_name(buf: *mut u8, limit: usize) -> usize {
    with(|world| answer(world.node_name.as_bytes(), buf, limit))
}

pub unsafe fn target_pod(buf: *mut u8, limit: usize) -> usize {
    with(|world| answer(&world.target, buf, limit))
}

pub unsafe fn filtered_node_list(buf: *mut u8, limit: usize) -> usize {
    with(|world| answer(&world.filtered, buf, limit))
}

pub unsafe fn node_to_status_map(buf: *mut u8, limit: usize) -> usize {
    with(|world| answer(&world.statuses, buf, limit))
}

pub unsafe fn node_score_list(buf: *mut u8, limit: usize) -> usize {
    with(|world| answer(&world.scores, buf, limit))
}

pub unsafe fn node_image_states(name: *const u8, name_len: usize, buf: *mut u8, limit: usize) -> usize {
    let name = text(name, name_len);
    let states = with(|world| if world.nodes.contains_key(&name) { "{}" } else { "null" });
    answer(states.as_bytes(), buf, limit)
}

pub unsafe fn get_config(buf: *mut u8, limit: usize) -> usize {
    with(|world| answer(&world.config, buf, limit))
}

pub unsafe fn result_cluster_events(buf: *const u8, len: usize) {
    result("cluster_events", buf, len);
}

pub unsafe fn result_node_names(buf: *const u8, len: usize) {
    result("node_names", buf, len);
}

pub unsafe fn result_nominated_node_name(buf: *const u8, len: usize) {
    result("nominated_node_name", buf, len);
}

pub unsafe fn result_normalized_score_list(buf: *const u8, len: usize) {
    result("normalized_score_list", buf, len);
}

pub unsafe fn result_status_reason(buf: *const u8, len: usize) {
    let reason = text(buf, len);
    with(|world| world.reasons.push(reason));
}

/// `recorded` has it.
pub unsafe fn eventf(_: *const u8, _: usize) {}

pub unsafe fn reject_waiting_pod(uid: *const u8, uid_len: usize, buf: *mut u8, limit: usize) {
    let uid = text(uid, uid_len);
    let waited = with(|world| world.waiting.remove(&uid).is_some());
    answer(&u64::from(waited).to_le_bytes(), buf, limit);
}

pub unsafe fn get_waiting_pod(uid: *const u8, uid_len: usize, buf: *mut u8, limit: usize) {
    let uid = text(uid, uid_len);
    with(|world| answer(world.waiting.get(&uid).map_or(&[0; 8], Vec::as_slice), buf, limit));
}
