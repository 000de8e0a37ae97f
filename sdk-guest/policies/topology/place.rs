use crate::config::Config;
use guest::{Label, Node, Result};

/// Where a node is: what is kept of it beside its pods.
#[derive(Clone, Default)]
pub struct Place {
    /// By level. A domain's label has the values of all wider levels before its own, so equal racks of different blocks
    /// are different domains. It is empty where the node has no such label.
    domains: Vec<Label>,
    /// All of them together.
    pub leaf: Label,
}

impl Place {
    pub fn of(node: &Node, config: &Config) -> Result<Place> {
        let metadata = node.metadata()?;
        let (mut domains, mut path) = (Vec::new(), Vec::new());
        for level in &config.levels {
            let value = metadata.label(&level.label)?.unwrap_or_default();
            path.extend_from_slice(value);
            let domain = if value.is_empty() { None } else { Some(path.as_slice()) };
            domains.push(Label::new(domain));
            path.push(b'/');
        }
        Ok(Place { domains, leaf: Label::new(Some(&path)) })
    }

    /// The domain at a level, if the node is in one.
    pub fn domain(&self, level: usize) -> Option<&Label> {
        self.domains.get(level).filter(|domain| !domain.is_empty())
    }

    /// What tells the domain at a level from others. Nodes without a label there are together where all their labels are
    /// the same.
    pub fn domain_or_leaf(&self, level: usize) -> &Label {
        self.domain(level).unwrap_or(&self.leaf)
    }

    /// At how many of the levels up to this one the other is in the same domain.
    pub fn shared(&self, other: &Place, level: usize) -> usize {
        (0..=level).filter(|level| self.domain(*level).is_some() && self.domain(*level) == other.domain(*level)).count()
    }
}

#[cfg(test)]
pub mod tests {
    use super::Place;
    use crate::config::tests::config;
    use guest::Node;

    /// A node of block and rack, either of which may be empty.
    pub fn place(block: &str, rack: &str) -> Place {
        let wrap = |tag: u8, inner: &[u8]| [&[tag, inner.len() as u8], inner].concat();
        let label = |key: &str, value: &str| {
            let entry = [wrap(0x0a, key.as_bytes()), wrap(0x12, value.as_bytes())].concat();
            if value.is_empty() {
                Vec::new()
            } else {
                wrap(0x5a, &entry)
            }
        };
        let node = Node::new(wrap(0x0a, &[label("block", block), label("rack", rack)].concat()));
        Place::of(&node, &config(r#"{"levels": ["block", "rack"]}"#).unwrap()).unwrap()
    }

    #[test]
    fn equal_racks_of_different_blocks_are_different_domains() {
        let (one, other, apart) = (place("x", "1"), place("x", "2"), place("y", "1"));
        assert_eq!([one.shared(&one, 1), one.shared(&other, 1), one.shared(&apart, 1)], [2, 1, 0]);
        assert_ne!(one.domain(1), apart.domain(1));
        assert_eq!(one.domain(1).map(|domain| domain.text()), Some(b"x/1".to_vec()));
    }

    #[test]
    fn a_node_without_a_label_is_in_no_domain_of_that_level() {
        let (without, other) = (place("x", ""), place("", "1"));
        assert_eq!((without.domain(1), other.domain(0), without.domain(2)), (None, None, None));
        assert_eq!((without.shared(&place("x", ""), 1), other.shared(&other, 1)), (1, 1));
        assert_eq!(without.domain_or_leaf(1), &place("x", "").leaf);
        assert_ne!(without.domain_or_leaf(1), place("y", "").domain_or_leaf(1));
    }
}
