//! The plugin that the tests ask has all extension points. A node has seats for pods, as many as the configuration says.
//! The pods of a group come together. Annotations of a pod say how it is to fare.

use super::{node, pod, Binding, Group, Host, PodObject};
use crate::event::{Event, Reference};
use crate::group_records::MemberState;
use crate::groups::{groups, GroupKey};
use crate::node_info::{NodeInfo, ResidentPod};
use crate::pending_pods::{KeepsPending, PendingPods};
use crate::plugin::Plugin;
use crate::pod::Pod;
use crate::residents::Residents;
use crate::status::{Result, Status};
use crate::{klog, Code, NodeScore, Permit, PostFilter, PreFilter};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

crate::config! {
    struct Config {
        seats: i64 = 2,
    }
}

struct Seats {
    config: Config,
    waiting: PendingPods<Name>,
    held: RefCell<BTreeSet<String>>,
}

struct Name;

struct Wish {
    name: String,
    said: BTreeMap<&'static str, String>,
    group: Option<GroupKey>,
    freed: i64,
}

type Seated = NodeInfo<Name, String>;

const SAID: [&str; 12] = [
    "only",
    "rejects",
    "prefilter",
    "never",
    "nominates",
    "postfilter",
    "prescore",
    "reserve",
    "seated",
    "permit",
    "prebind",
    "bind",
];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl ResidentPod for Name {
    fn new(pod: &Pod) -> Result<Name> {
        pod.metadata().map(|_| Name)
    }
}

impl Wish {
    fn says(&self, name: &str) -> &str {
        self.said.get(name).map_or("", String::as_str)
    }

    /// What the pod's annotation of that name has the plugin say.
    fn status(&self, point: &str) -> Status {
        match self.says(point) {
            "" => Status::SUCCESS,
            "skip" => Status::SKIP,
            reason => Status::unschedulable(reason.to_string()),
        }
    }
}

impl KeepsPending for Seats {
    type Pending = Name;

    fn pending(&mut self) -> &mut PendingPods<Name> {
        &mut self.waiting
    }
}

impl Plugin for Seats {
    type Wish = Wish;
    type Resident = Seated;

    fn new() -> Result<Seats> {
        Ok(Seats { config: Config::read()?, waiting: PendingPods::default(), held: RefCell::default() })
    }

    fn wish(&self, pod: &Pod) -> Result<Wish> {
        let metadata = pod.metadata()?;
        let mut said = BTreeMap::new();
        for name in SAID {
            if let Some(value) = metadata.annotation(name)? {
                said.insert(name, text(value));
            }
        }
        Ok(Wish { name: text(metadata.name()?), said, group: GroupKey::of(pod)?, freed: 0 })
    }

    fn resident(&self, name: &[u8]) -> Result<Seated> {
        NodeInfo::new(&crate::node(name).unwrap_or_default(), text(name))
    }

    fn prefilter(&self, wish: &mut Wish, _: &Residents<Seated>) -> PreFilter {
        if !wish.says("only").is_empty() {
            return PreFilter::only(vec![wish.says("only").into()]);
        }
        let uid = wish.says("rejects");
        if !uid.is_empty() {
            let waited = crate::reject_waiting_pod(uid.as_bytes());
            klog::info(format_args!("pod {} rejects {}: {}", wish.name, uid, waited));
        }
        wish.status("prefilter").into()
    }

    fn addpod(&self, wish: &mut Wish, _: &Pod, _: &Seated) -> Status {
        wish.freed -= 1;
        Status::SUCCESS
    }

    fn removepod(&self, wish: &mut Wish, _: &Pod, _: &Seated) -> Status {
        wish.freed += 1;
        Status::SUCCESS
    }

    fn filter(&self, wish: &Wish, node: &Seated) -> Status {
        if wish.says("never") == node.node {
            return Status::unresolvable(format!("never on {}", node.node));
        }
        if node.pods().count() as i64 - wish.freed >= self.config.seats {
            return Status::unschedulable("no seat is free");
        }
        Status::SUCCESS
    }

    fn postfilter(&self, wish: &mut Wish, _: &Residents<Seated>) -> PostFilter {
        let nominated = Some(wish.says("nominates").to_string()).filter(|name| !name.is_empty());
        PostFilter { status: wish.status("postfilter"), nominated }
    }

    fn prescore(&self, wish: &mut Wish, _: &Residents<Seated>) -> Status {
        klog::warning(format_args!("{} passed", crate::filtered_nodes().unwrap().join(", ")));
        wish.status("prescore")
    }

    fn score(&self, _: &Wish, node: &Seated) -> i32 {
        node.pods().count() as i32 * 1000
    }

    fn normalizescore(&self, _: &mut Wish, scores: &mut [NodeScore]) -> Status {
        scores.iter_mut().for_each(|each| each.score /= 100);
        Status::SUCCESS
    }

    fn reserve(&self, wish: &mut Wish, _: &Seated) -> Status {
        self.held.borrow_mut().insert(wish.name.clone());
        wish.status("reserve")
    }

    fn bindingannotations(&self, wish: &mut Wish, node: &Seated) -> Vec<(String, String)> {
        match wish.says("seated") {
            "" => Vec::new(),
            seat => vec![("example.com/seat".into(), format!("{}-{}", node.node, seat))],
        }
    }

    fn unreserve(&self, wish: &mut Wish, _: &Seated, _: &Residents<Seated>) {
        self.held.borrow_mut().remove(&wish.name);
    }

    fn permit(&self, wish: &mut Wish, _: &Seated, _: &Residents<Seated>) -> Permit {
        let key = match &wish.group {
            Some(key) => key,
            None => return wish.status("permit").into(),
        };
        let is_complete = groups(|groups| {
            let group = groups.get(key).unwrap();
            Some(group.count(MemberState::Binding) + group.count(MemberState::Bound)) >= group.minimum
        });
        if is_complete {
            return Status::SUCCESS.into();
        }
        Permit::wait(Duration::from_secs(60), "for the others")
    }

    fn prebind(&self, wish: &mut Wish, _: &Seated) -> Status {
        wish.status("prebind")
    }

    fn bind(&self, wish: &mut Wish, _: &Seated) -> Status {
        wish.status("bind")
    }

    fn postbind(&self, wish: &mut Wish, node: &Seated) {
        let note = format!("{} wait, {} hold", self.waiting.iter().count(), self.held.borrow().len());
        let related = Reference::node(node.node.as_bytes());
        Event { related, reason: "Seated".into(), note: note.into(), ..Event::default() }.record();
        klog::error(format_args!("pod {} is on {}", wish.name, node.node));
    }
}

crate::export!(
    Seats: prefilter, addpod, removepod, filter, postfilter, prescore, score, normalizescore, reserve, bindingannotations,
    unreserve, permit, prebind, bind, postbind; pods, pending, groups
);

/// A host with nodes a and b.
fn two() -> Host<Seats> {
    let host = Host::new();
    host.put_node(node("a"));
    host.put_node(node("b"));
    host
}

fn verdicts(a: Status, b: Status) -> BTreeMap<String, Status> {
    BTreeMap::from([("a".into(), a), ("b".into(), b)])
}

fn full() -> Status {
    Status::unschedulable("no seat is free")
}

fn no() -> Status {
    Status::unschedulable("no")
}

fn member(name: &str) -> PodObject {
    pod(name).label("scheduling.x-k8s.io/pod-group", "job")
}

fn job(minimum: u32) -> Group {
    Group { namespace: "default".into(), name: "job".into(), minimum, ..Group::default() }
}

fn bound(node: &str, status: Status) -> Binding {
    Binding { node: node.into(), status, timeout: Duration::ZERO, annotations: Vec::new() }
}

#[test]
fn a_whole_cycle() {
    let host = two();
    host.put_pod(pod("x").on("b"));
    let cycle = host.schedule(pod("y").annotation("seated", "7"));
    assert_eq!(cycle.verdicts(), verdicts(Status::SUCCESS, Status::SUCCESS));
    assert_eq!(cycle.scores(), BTreeMap::from([("a".into(), 0), ("b".into(), 10)]));
    let annotations = vec![("example.com/seat".into(), "b-7".into())];
    assert_eq!(cycle.binding(), Some(Binding { annotations, ..bound("b", Status::SUCCESS) }));
    let note = "0 wait, 1 hold".into();
    let event = Event { related: Reference::node(b"b"), reason: "Seated".into(), note, ..Event::default() };
    assert_eq!(host.events(), [event]);
    assert_eq!(host.log(), ["warning: a, b passed", "error: pod y is on b"]);
    assert_eq!((host.events().len(), host.log().len()), (0, 0));
    assert_eq!(host.begin(pod("z")).filter(), verdicts(Status::SUCCESS, full()));
}

#[test]
fn a_configuration_and_a_cluster_that_changes() {
    let host = two();
    host.configure(r#"{"seats": 1}"#).unwrap();
    assert_eq!(host.schedule(pod("y")).binding(), Some(bound("a", Status::SUCCESS)));
    assert_eq!(host.begin(pod("z")).filter(), verdicts(full(), Status::SUCCESS));
    host.remove_pod(&pod("y"));
    assert_eq!(host.begin(pod("z")).filter(), verdicts(Status::SUCCESS, Status::SUCCESS));
    host.remove_node("a");
    assert_eq!(host.begin(pod("z")).filter(), BTreeMap::from([("b".into(), Status::SUCCESS)]));
    host.put_pod(pod("x").on("b"));
    host.configure("").unwrap();
    host.expect_pod(pod("w").on("b"));
    assert_eq!(host.begin(pod("z")).filter(), BTreeMap::from([("b".into(), full())]));
}

#[test]
fn a_configuration_that_is_wrong() {
    let told = r#"guestConfig: unknown key "seat"; expected a JSON object with "seats" (an integer)"#;
    assert_eq!(two().configure(r#"{"seat": 1}"#), Err(told.to_string().into()));
}

#[test]
fn what_prefilter_says() {
    let host = two();
    let left_out = Status::unresolvable("node(s) not among those that PreFilter names");
    for (key, value, a, b) in [
        ("only", "b", left_out, Status::SUCCESS),
        ("prefilter", "skip", Status::SUCCESS, Status::SUCCESS),
        ("prefilter", "no", no(), no()),
        ("never", "a", Status::unresolvable("never on a"), Status::SUCCESS),
    ] {
        assert_eq!(host.begin(pod("p").annotation(key, value)).filter(), verdicts(a, b));
    }
}

#[test]
fn a_pod_that_no_node_is_left_for_is_not_bound_and_prescore_may_skip() {
    let host = two();
    let cycle = host.schedule(pod("p").annotation("prefilter", "no"));
    assert_eq!((cycle.binding(), cycle.scores().len()), (None, 0));
    let cycle = host.schedule(pod("p").annotation("prescore", "skip"));
    assert_eq!((cycle.binding(), cycle.scores().len()), (Some(bound("a", Status::SUCCESS)), 0));
}

#[test]
fn candidates_for_preemption() {
    let host = two();
    for name in ["a", "b"] {
        host.put_pod(pod(&format!("{}0", name)).on(name));
        host.put_pod(pod(&format!("{}1", name)).on(name));
    }
    let (from_a, from_b) = ([pod("a0").on("a")], [pod("b0").on("b")]);
    for (asked, stays) in [
        (pod("p"), vec!["a", "b"]),
        (pod("p").annotation("never", "a"), vec!["b"]),
        (pod("p").annotation("nominates", "b"), vec!["b"]),
        (pod("p").annotation("nominates", "c"), vec![]),
        (pod("p").annotation("nominates", "b").annotation("postfilter", "no"), vec!["a", "b"]),
    ] {
        assert_eq!(host.begin(asked).preempt(&[("a", &from_a), ("b", &from_b)]), stays);
    }
    assert_eq!(host.begin(pod("p")).preempt(&[("a", &[]), ("b", &from_b)]), ["b"]);
}

#[test]
fn a_pod_that_is_not_bound_is_pending_and_its_seat_is_free() {
    let host = two();
    for point in ["reserve", "permit", "prebind", "bind"] {
        let cycle = host.begin(pod("p").annotation(point, "no").annotation("seated", "1"));
        assert_eq!(cycle.bind("a"), bound("a", no()));
    }
    host.schedule(pod("q"));
    assert_eq!(host.events()[0].note, "1 wait, 1 hold");
    assert_eq!(host.begin(pod("p").annotation("bind", "skip")).bind("a"), bound("a", Status::SUCCESS));
}

#[test]
fn a_group_is_bound_together() {
    let host = two();
    host.put_group(job(2));
    let first = host.begin(member("m0"));
    let status = Status { code: Code::Wait, reason: "for the others".into() };
    let waits = Binding { timeout: Duration::from_secs(60), ..bound("a", status) };
    assert_eq!((first.bind("a"), first.resume()), (waits.clone(), waits));
    assert_eq!(host.begin(member("m1")).bind("a"), bound("a", Status::SUCCESS));
    assert_eq!(first.resume(), bound("a", Status::SUCCESS));
    assert_eq!(host.begin(pod("p")).filter(), verdicts(full(), Status::SUCCESS));
}

#[test]
fn a_wait_may_be_given_up_or_rejected() {
    let host = two();
    host.put_group(job(2));
    let cycle = host.begin(member("m0"));
    cycle.bind("a");
    assert_eq!(cycle.give_up(), bound("a", Status::unschedulable("the wait on Permit was given up")));
    cycle.bind("a");
    host.begin(pod("p").annotation("rejects", "uid of default/m0")).filter();
    let rejected = Status::unschedulable("a plugin rejected the waiting pod");
    assert_eq!(cycle.binding(), Some(bound("a", rejected)));
    assert_eq!(host.log(), ["info: pod p rejects uid of default/m0: true"]);
    host.schedule(pod("q"));
    assert_eq!(host.events()[0].note, "2 wait, 1 hold");
}

#[test]
fn groups_and_their_members() {
    let host = two();
    host.put_pod(member("m0"));
    host.expect_pod(member("m1").on("b"));
    let (timeout, created) = (Duration::from_secs(60), 1 << 33);
    host.put_group(Group { timeout, created, priority: -1, ..job(3) });
    let key = GroupKey::of(&member("m").read()).unwrap().unwrap();
    let counts = || {
        groups(|groups| {
            let of = |group: &crate::Group| {
                [group.count(MemberState::Pending), group.count(MemberState::Tentative), group.placed()]
            };
            groups.get(&key).map(of)
        })
    };
    groups(|groups| {
        let group = groups.get(&key).unwrap();
        assert_eq!(
            (group.minimum, group.timeout, group.priority, group.created),
            (Some(3), Some(timeout), -1, Some(created))
        );
    });
    assert_eq!(counts(), Some([1, 1, 1]));
    host.put_pod(member("m1").on("b"));
    assert_eq!(counts(), Some([1, 0, 1]));
    host.remove_pod(&member("m0"));
    assert_eq!(counts(), Some([0, 0, 1]));
    let native = Group { is_native: true, ..job(1) };
    host.put_group(native);
    assert_eq!(groups(|groups| groups.iter().count()), 2);
    host.remove_group(&job(3));
    assert_eq!(counts(), None);
    drop(host);
    assert_eq!(groups(|groups| groups.iter().count()), 0);
}

#[test]
#[should_panic(expected = "there is one host at a time in a thread: drop the other one")]
fn one_host_at_a_time() {
    let _first = two();
    two();
}

#[test]
#[should_panic(expected = "node c is not there: put it first")]
fn a_pod_on_a_node_that_is_not_there() {
    two().put_pod(pod("p").on("c"));
}
