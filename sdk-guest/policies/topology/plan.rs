use crate::config::NodePolicy;
use crate::demand::{Demand, Kind};
use crate::domains::{domains, fullest, select, Domain, Leaf};
use crate::place::Place;
use crate::request::Request;
use crate::Node;
use guest::{Candidates, Label, Resources};
use std::collections::BTreeMap;

/// Scores: those of the next domain, of the others that the group takes, and of what is near them. Each band has room for
/// how much of the node is free.
const NEXT: usize = 80;
const OTHERS: usize = 50;
const NEAR: usize = 40;
const NODE: usize = 20;
const FAR_NODE: usize = 9;

/// Where the pods of a group go.
pub struct Plan {
    /// The one domain that may have them, if one of a level has to.
    only: Option<Label>,
    /// Whether that is so since other members are there.
    pub is_pinned: bool,
    /// The level of the domains that the group takes.
    level: usize,
    /// Somewhere in the domain that comes next; None where no candidate may have the pod.
    next: Option<Place>,
    /// What tells the domains apart that the group takes, in order.
    taken: Vec<Label>,
    /// How many pods fit on the roomiest node of the next domain, and of all.
    largest_next: usize,
    largest: usize,
}

/// How rooms are counted: as pods with these requests.
struct Measure<'a> {
    requests: &'a Resources,
    /// How many such pods the members without a node come to, and how many of them at least.
    need: usize,
    least: usize,
}

impl Plan {
    /// Makes the plan. The error is how many pods fit into one domain of the required level at most.
    pub fn of(request: &Request, demand: &Demand, candidates: &Candidates<Node>) -> Result<Plan, usize> {
        let measure = Measure::of(demand, candidates);
        let leaves = leaves(demand, &measure, candidates);
        let level = request.preferred.unwrap_or(0);
        let pinned = request.required.and_then(|required| demand.pinned(required));
        let allowed = leaves.iter().filter(|leaf| match (request.required, pinned) {
            (Some(required), None) => leaf.place.domain(required).is_some(),
            (Some(required), pinned) => leaf.place.domain(required) == pinned,
            (None, _) => true,
        });
        let area: Vec<&Leaf> = allowed.collect();
        let (mut area, first) = match fitting(&area, request, level, &measure) {
            Some((domain, found)) => (domain.leaves, found),
            None => (unfitting(area, request, pinned.is_some(), &measure)?, request.required.unwrap_or(0)),
        };
        let mut taken = Vec::new();
        for each in first..=level {
            taken = select(&area, each, level, measure.need);
            area = taken.iter().flat_map(|domain| domain.leaves.iter().copied()).collect();
        }
        let next = taken.iter().find(|domain| domain.room > 0).or_else(|| taken.first());
        let largest = |leaves: &mut dyn Iterator<Item = &Leaf>| leaves.map(|leaf| leaf.largest).max().unwrap_or(0);
        let somewhere = next.and_then(|domain| domain.leaves.first()).map(|leaf| leaf.place);
        let mut labels: Vec<Label> = taken.iter().map(|domain| domain.label.clone()).collect();
        labels.sort_unstable();
        Ok(Plan {
            only: request.required.and_then(|level| pinned.or_else(|| somewhere?.domain(level)).cloned()),
            is_pinned: pinned.is_some(),
            level,
            largest_next: next.map_or(0, |domain| largest(&mut domain.leaves.iter().copied())),
            largest: largest(&mut leaves.iter()),
            next: somewhere.cloned(),
            taken: labels,
        })
    }

    /// Whether a domain of the required level may have the pod.
    pub fn allows(&self, domain: &Label) -> bool {
        self.only.as_ref() == Some(domain)
    }

    /// How good a node is for the pod, from 0 to 100, that has room for so many like it.
    pub fn score(&self, place: &Place, room: usize, policy: NodePolicy) -> usize {
        let next = match &self.next {
            Some(next) => next,
            None => return 0,
        };
        let domain = place.domain_or_leaf(self.level);
        if domain == next.domain_or_leaf(self.level) {
            return NEXT + policy.share(NODE, room, self.largest_next);
        }
        if self.taken.binary_search(domain).is_ok() {
            return OTHERS + policy.share(NODE, room, self.largest);
        }
        NEAR * place.shared(next, self.level) / (self.level + 1) + policy.share(FAR_NODE, room, self.largest)
    }
}

impl NodePolicy {
    /// So much of `most` as the node is good for.
    fn share(self, most: usize, room: usize, largest: usize) -> usize {
        match self {
            NodePolicy::Spread => most * room.min(largest) / largest.max(1),
            NodePolicy::Binpack => most - most * room.min(largest) / largest.max(1),
            NodePolicy::None => 0,
        }
    }
}

impl<'a> Measure<'a> {
    /// Members that are alike are what is counted. Of unlike ones it is the kind of which the fewest fit the candidates, and
    /// a member of another kind counts as much less as more of its kind fit.
    fn of(demand: &'a Demand, candidates: &Candidates<Node>) -> Measure<'a> {
        let own = &demand.own;
        if demand.others.is_empty() {
            return Measure { requests: &own.requests, need: own.count, least: demand.least };
        }
        let fit = |kind: &Kind| candidates.iter().map(|(_, node)| node.room_for(&kind.requests) as u64).sum::<u64>();
        let kinds: Vec<(&Kind, u64)> = demand.kinds().map(|kind| (kind, fit(kind))).collect();
        let (scarce, fewest) = kinds.iter().copied().min_by_key(|(_, room)| *room).unwrap_or((own, 0));
        let shares =
            kinds.iter().map(|(kind, room)| (kind.count as u64 * 1000).saturating_mul(fewest.max(1)) / (*room).max(1));
        let need = (shares.sum::<u64>() / 1000).max(1) as usize;
        let least = (demand.least * need + demand.total() - 1) / demand.total().max(1);
        Measure { requests: &scarce.requests, need, least: least.max(1) }
    }
}

/// The candidates by where they are, and the places of members that are elsewhere.
fn leaves<'a>(demand: &'a Demand, measure: &Measure, candidates: &Candidates<'a, Node>) -> Vec<Leaf<'a>> {
    let is_own = std::ptr::eq(measure.requests, &demand.own.requests);
    let mut leaves = BTreeMap::new();
    for (_, node) in candidates.iter() {
        let own = node.room_for(&demand.own.requests);
        let leaf = leaves.entry(&node.node.leaf).or_insert_with(|| Leaf::new(&node.node));
        leaf.room += if is_own { own } else { node.room_for(measure.requests) };
        leaf.largest = leaf.largest.max(own);
    }
    for place in &demand.placed {
        leaves.entry(&place.leaf).or_insert_with(|| Leaf::new(place)).placed += 1;
    }
    leaves.into_values().collect()
}

/// The domain that fits all members, of the narrowest level that has one, and that level.
fn fitting<'a>(
    area: &[&'a Leaf<'a>],
    request: &Request,
    last: usize,
    measure: &Measure,
) -> Option<(Domain<'a>, usize)> {
    let placed: usize = area.iter().map(|leaf| leaf.placed).sum();
    (request.required.unwrap_or(0)..=last).rev().find_map(|level| {
        let all = domains(area, level);
        let with_members = all.iter().filter(|domain| domain.placed == placed);
        fullest(with_members, level, last, measure.need).map(|domain| (domain.clone(), level))
    })
}

/// Where the group goes if no domain fits all members: where most fit, if one domain is required.
fn unfitting<'a>(
    area: Vec<&'a Leaf<'a>>,
    request: &Request,
    is_pinned: bool,
    measure: &Measure,
) -> Result<Vec<&'a Leaf<'a>>, usize> {
    let required = match request.required {
        Some(required) if !is_pinned => required,
        _ => return Ok(area),
    };
    match domains(&area, required).into_iter().next() {
        Some(roomiest) if roomiest.room >= measure.least => Ok(roomiest.leaves),
        roomiest => Err(roomiest.map_or(0, |domain| domain.room)),
    }
}
