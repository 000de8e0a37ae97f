//! Which nodes kube-scheduler may let a pod on by their labels and taints, for nodes that it has not been asked about.
//!
//! Field numbers are those of `k8s.io/api/core/v1/generated.proto`. What is not understood lets the pod on.

use guest::protobuf::Message;
use guest::{Label, Node, Pod, Result};

/// What a pod says of nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Constraints {
    selector: Vec<(Label, Label)>,
    /// One of them has to hold; None where there are none.
    terms: Option<Vec<Vec<Requirement>>>,
    tolerations: Vec<Toleration>,
}

#[derive(Debug, PartialEq, Eq)]
struct Requirement {
    key: Label,
    operator: Operator,
    values: Vec<Label>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Other,
}

#[derive(Debug, PartialEq, Eq)]
struct Toleration {
    key: Label,
    /// None for any.
    value: Option<Label>,
    effect: Label,
}

/// What a node says of itself.
#[derive(Default)]
pub struct Traits {
    labels: Vec<(Label, Label)>,
    taints: Vec<Taint>,
}

struct Taint {
    key: Label,
    value: Label,
    effect: Label,
}

impl Constraints {
    pub fn of(pod: &Pod) -> Result<Constraints> {
        let spec = pod.spec()?;
        let required = spec.child(18)?.child(1)?.bytes(1)?;
        let terms =
            required.map(|selector| Message(selector).repeated(1).map(|term| read_term(Message(term?))).collect());
        let tolerations = spec.repeated(22).map(|toleration| read_toleration(Message(toleration?)));
        Ok(Constraints {
            selector: entries(spec, 7)?,
            terms: terms.transpose()?,
            tolerations: tolerations.collect::<Result<_>>()?,
        })
    }

    pub fn let_on(&self, node: &Traits) -> bool {
        self.selector.iter().all(|(key, value)| node.label(key) == Some(value))
            && self
                .terms
                .as_ref()
                .map_or(true, |terms| terms.iter().any(|term| term.iter().all(|each| each.holds(node))))
            && node.taints.iter().all(|taint| self.tolerations.iter().any(|toleration| toleration.covers(taint)))
    }
}

impl Requirement {
    fn holds(&self, node: &Traits) -> bool {
        let value = node.label(&self.key);
        match self.operator {
            Operator::In => value.map_or(false, |value| self.values.contains(value)),
            Operator::NotIn => value.map_or(true, |value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Other => true,
        }
    }
}

impl Toleration {
    fn covers(&self, taint: &Taint) -> bool {
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && self.value.as_ref().map_or(true, |value| *value == taint.value)
    }
}

impl Traits {
    pub fn of(node: &Node) -> Result<Traits> {
        let spec = node.spec()?;
        let mut taints = Vec::new();
        for taint in spec.repeated(5) {
            let taint = Message(taint?);
            let effect = taint.bytes(3)?.unwrap_or_default();
            if effect != b"PreferNoSchedule" {
                taints.push(Taint { key: label(taint, 1)?, value: label(taint, 2)?, effect: Label::new(Some(effect)) });
            }
        }
        if spec.integer(4)? != 0 {
            taints.push(Taint {
                key: Label::new(Some(b"node.kubernetes.io/unschedulable")),
                value: Label::new(None),
                effect: Label::new(Some(b"NoSchedule")),
            });
        }
        Ok(Traits { labels: entries(node.metadata()?.0, 11)?, taints })
    }

    fn label(&self, key: &Label) -> Option<&Label> {
        self.labels.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }
}

/// A term without expressions holds nowhere, as in kube-scheduler, unless it has fields.
fn read_term(term: Message) -> Result<Vec<Requirement>> {
    let mut found = Vec::new();
    for expression in term.repeated(1) {
        let expression = Message(expression?);
        let values = expression.repeated(3).map(|value| Ok(Label::new(Some(value?))));
        found.push(Requirement {
            key: label(expression, 1)?,
            operator: match expression.bytes(2)?.unwrap_or_default() {
                b"In" => Operator::In,
                b"NotIn" => Operator::NotIn,
                b"Exists" => Operator::Exists,
                b"DoesNotExist" => Operator::DoesNotExist,
                _ => Operator::Other,
            },
            values: values.collect::<Result<_>>()?,
        });
    }
    if found.is_empty() && term.bytes(2)?.is_none() {
        found.push(Requirement { key: Label::new(None), operator: Operator::In, values: Vec::new() });
    }
    Ok(found)
}

fn read_toleration(toleration: Message) -> Result<Toleration> {
    let is_equal = matches!(toleration.bytes(2)?.unwrap_or_default(), b"" | b"Equal");
    Ok(Toleration {
        key: label(toleration, 1)?,
        value: if is_equal { Some(label(toleration, 3)?) } else { None },
        effect: label(toleration, 4)?,
    })
}

fn label(message: Message, number: u32) -> Result<Label> {
    Ok(Label::new(message.bytes(number)?))
}

/// Keys and values of a map.
fn entries(message: Message, number: u32) -> Result<Vec<(Label, Label)>> {
    let entry = |entry: Result<&[u8]>| {
        let entry = Message(entry?);
        Ok((label(entry, 1)?, label(entry, 2)?))
    };
    message.repeated(number).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::{Constraints, Traits};
    use guest::{Node, Pod};

    fn wrap(number: u32, inner: &[u8]) -> Vec<u8> {
        let tag = number << 3 | 2;
        let mut bytes = if tag < 128 { vec![tag as u8] } else { vec![tag as u8 & 127 | 128, (tag >> 7) as u8] };
        bytes.push(inner.len() as u8);
        bytes.extend_from_slice(inner);
        bytes
    }

    fn texts(parts: &[(u32, &str)]) -> Vec<u8> {
        parts.iter().flat_map(|(number, text)| wrap(*number, text.as_bytes())).collect()
    }

    fn node(labels: &[(&str, &str)], taints: &[&[(u32, &str)]], is_unschedulable: bool) -> Traits {
        let labels: Vec<u8> =
            labels.iter().flat_map(|(key, value)| wrap(11, &texts(&[(1, key), (2, value)]))).collect();
        let mut spec: Vec<u8> = taints.iter().flat_map(|taint| wrap(5, &texts(taint))).collect();
        if is_unschedulable {
            spec.extend([4 << 3, 1]);
        }
        Traits::of(&Node::new([wrap(1, &labels), wrap(2, &spec)].concat())).unwrap()
    }

    fn pod(spec: Vec<u8>) -> Constraints {
        Constraints::of(&Pod::new(wrap(2, &spec))).unwrap()
    }

    /// A pod with terms of node affinity, each a list of key, operator and values.
    fn affine(terms: &[&[(&str, &str, &[&str])]]) -> Constraints {
        let expression = |(key, operator, values): &(&str, &str, &[&str])| {
            let values: Vec<u8> = values.iter().flat_map(|value| wrap(3, value.as_bytes())).collect();
            wrap(1, &[texts(&[(1, key), (2, operator)]), values].concat())
        };
        let term = |term: &&[(&str, &str, &[&str])]| wrap(1, &term.iter().flat_map(expression).collect::<Vec<_>>());
        let selector: Vec<u8> = terms.iter().flat_map(term).collect();
        pod(wrap(18, &wrap(1, &wrap(1, &selector))))
    }

    #[test]
    fn all_labels_of_the_selector_are_those_of_the_node() {
        let there = node(&[("pool", "a"), ("zone", "z")], &[], false);
        for (selector, expected) in [(vec![], true), (vec![("pool", "a")], true), (vec![("pool", "b")], false)] {
            let spec = selector.iter().flat_map(|(key, value)| wrap(7, &texts(&[(1, key), (2, value)]))).collect();
            assert_eq!(pod(spec).let_on(&there), expected, "{:?}", selector);
        }
        let both = [wrap(7, &texts(&[(1, "pool"), (2, "a")])), wrap(7, &texts(&[(1, "other"), (2, "z")]))].concat();
        assert!(!pod(both).let_on(&there));
    }

    #[test]
    fn one_term_of_the_affinity_holds_as_a_whole() {
        let there = node(&[("pool", "a")], &[], false);
        for (terms, expected) in [
            (&[&[("pool", "In", &["b", "a"][..])][..]][..], true),
            (&[&[("pool", "In", &["b"][..])][..]][..], false),
            (&[&[("pool", "NotIn", &["a"][..])][..]][..], false),
            (&[&[("zone", "NotIn", &["a"][..])][..]][..], true),
            (&[&[("pool", "Exists", &[][..]), ("zone", "DoesNotExist", &[][..])][..]][..], true),
            (&[&[("pool", "Exists", &[][..]), ("zone", "Exists", &[][..])][..]][..], false),
            (&[&[("pool", "Gt", &["1"][..])][..]][..], true),
            (&[&[][..]][..], false),
            (&[&[][..], &[("pool", "Exists", &[][..])][..]][..], true),
            (&[][..], false),
        ] {
            assert_eq!(affine(terms).let_on(&there), expected, "{:?}", terms);
        }
    }

    #[test]
    fn all_taints_that_keep_pods_off_are_tolerated() {
        let tainted =
            node(&[], &[&[(1, "gpu"), (2, "yes"), (3, "NoSchedule")], &[(1, "x"), (3, "PreferNoSchedule")]], false);
        for (toleration, expected) in [
            (&[(1, "gpu"), (3, "yes")][..], true),
            (&[(1, "gpu"), (2, "Equal"), (3, "yes"), (4, "NoSchedule")][..], true),
            (&[(1, "gpu"), (3, "no")][..], false),
            (&[(1, "gpu"), (2, "Exists"), (4, "NoExecute")][..], false),
            (&[(1, "gpu"), (2, "Exists")][..], true),
            (&[(2, "Exists")][..], true),
            (&[(1, "x"), (2, "Exists")][..], false),
        ] {
            assert_eq!(pod(wrap(22, &texts(toleration))).let_on(&tainted), expected, "{:?}", toleration);
        }
        assert!(!pod(Vec::new()).let_on(&tainted));
    }

    #[test]
    fn a_node_that_is_unschedulable_is_tainted() {
        assert!(!pod(Vec::new()).let_on(&node(&[], &[], true)));
        assert!(pod(wrap(22, &texts(&[(2, "Exists")]))).let_on(&node(&[], &[], true)));
    }
}
