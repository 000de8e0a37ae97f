//! Prefers the nodes of the tier that a pod's label names, or the configuration.

use guest::{Label, Plugin, Pod, Result, Status};

guest::config! {
    struct Tier {
        tier: String = "spot".into(),
    }
}

/// What is kept of a node.
struct Node {
    tier: Label,
    is_retired: bool,
}

impl Plugin for Tier {
    type Wish = Label;
    type Resident = Node;

    fn new() -> Result<Tier> {
        Tier::read()
    }

    /// Asked once a pod.
    fn wish(&self, pod: &Pod) -> Result<Label> {
        let tier = pod.metadata()?.label("example.com/tier")?;
        Ok(Label::new(tier.or(Some(self.tier.as_bytes()))))
    }

    /// Asked once a node, when it changes.
    fn resident(&self, name: &[u8]) -> Result<Node> {
        let node = guest::node(name).unwrap_or_default();
        let labels = node.metadata()?;
        Ok(Node {
            tier: Label::new(labels.label("example.com/tier")?),
            is_retired: labels.label("example.com/retired")?.is_some(),
        })
    }

    fn filter(&self, _: &Label, node: &Node) -> Status {
        if node.is_retired {
            return Status::unresolvable("node is retired");
        }
        Status::SUCCESS
    }

    fn score(&self, wish: &Label, node: &Node) -> i32 {
        if *wish == node.tier { 100 } else { 0 }
    }
}

guest::export!(Tier: prefilter, filter, score);

#[cfg(test)]
mod tests {
    use super::Tier;
    use guest::hosttest::{node, pod, Host};
    use guest::Status;

    /// A host with a node of each tier, and a retired one.
    fn cluster() -> Host<Tier> {
        let host = Host::new();
        host.put_node(node("cheap").label("example.com/tier", "spot"));
        host.put_node(node("steady").label("example.com/tier", "on-demand"));
        host.put_node(node("old").label("example.com/tier", "spot").label("example.com/retired", "true"));
        host
    }

    #[test]
    fn retired_nodes_are_left_out() {
        let verdicts = cluster().schedule(pod("web-1")).verdicts();
        assert_eq!(verdicts["cheap"], Status::SUCCESS);
        assert_eq!(verdicts["steady"], Status::SUCCESS);
        assert_eq!(verdicts["old"], Status::unresolvable("node is retired"));
    }

    #[test]
    fn nodes_of_the_wished_tier_are_best() {
        let host = cluster();
        host.configure(r#"{"tier": "on-demand"}"#).unwrap();
        let scores = host.schedule(pod("web-1")).scores();
        assert_eq!((scores["cheap"], scores["steady"], scores.len()), (0, 100, 2));
        let scores = host.schedule(pod("web-2").label("example.com/tier", "spot")).scores();
        assert_eq!((scores["cheap"], scores["steady"], scores.len()), (100, 0, 2));
    }
}
