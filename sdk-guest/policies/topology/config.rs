use guest::{Error, Result};

/// Each level is read of each node.
const MAX_LEVELS: usize = 8;

guest::config! {
    #[allow(non_snake_case)]
    struct Keys {
        levels: Vec<String> = vec![
            "topology.kubernetes.io/zone".into(),
            "cloud.provider.com/topology-block".into(),
            "cloud.provider.com/topology-rack".into(),
        ],
        required: String = "none".into(),
        preferred: String = "narrowest".into(),
        nodePolicy: String = "spread".into(),
    }
}

/// The plugin's configuration, with the texts that are made of it.
pub struct Config {
    /// From the widest to the narrowest; at least one.
    pub levels: Vec<Level>,
    /// For groups whose pods say nothing.
    pub required: Option<usize>,
    pub preferred: Option<usize>,
    pub node_policy: NodePolicy,
}

/// A label of nodes whose values are domains.
pub struct Level {
    pub label: String,
    pub reasons: Reasons,
}

/// Reasons against a node where one domain of the level is required.
#[derive(Clone, Copy, Default)]
pub struct Reasons {
    pub no_label: &'static str,
    pub elsewhere: &'static str,
    pub not_chosen: &'static str,
    pub no_room: &'static str,
}

/// Which node of a domain comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodePolicy {
    /// The one with the most room.
    Spread,
    /// The one with the least.
    Binpack,
    /// Others say.
    None,
}

impl Config {
    pub fn read() -> Result<Config> {
        Config::of(Keys::read()?)
    }

    fn of(keys: Keys) -> Result<Config> {
        if keys.levels.is_empty() || keys.levels.len() > MAX_LEVELS {
            return fail(format!("\"levels\" must have 1 to {} labels", MAX_LEVELS));
        }
        for (at, label) in keys.levels.iter().enumerate() {
            if label.is_empty() || keys.levels.iter().take(at).any(|other| other == label) {
                return fail(format!("\"levels\" must have different labels, and has \"{}\" twice or empty", label));
            }
        }
        let levels: Vec<Level> = keys.levels.into_iter().map(Level::new).collect();
        Ok(Config {
            required: chosen("required", &keys.required, &levels)?,
            preferred: match keys.preferred.as_str() {
                "narrowest" => levels.len().checked_sub(1),
                label => chosen("preferred", label, &levels)?,
            },
            node_policy: match keys.nodePolicy.as_str() {
                "spread" => NodePolicy::Spread,
                "binpack" => NodePolicy::Binpack,
                "none" => NodePolicy::None,
                _ => return fail("\"nodePolicy\" must be spread, binpack or none".into()),
            },
            levels,
        })
    }

    /// The level whose label that is.
    pub fn named(&self, label: &[u8]) -> Option<usize> {
        self.levels.iter().position(|level| level.label.as_bytes() == label)
    }

    pub fn reasons(&self, level: usize) -> Reasons {
        self.levels.get(level).map_or(Reasons::default(), |level| level.reasons)
    }

    /// All labels, for people.
    pub fn labels(&self) -> String {
        self.levels.iter().map(|level| level.label.as_str()).collect::<Vec<_>>().join(", ")
    }
}

impl Level {
    fn new(label: String) -> Level {
        let reasons = Reasons {
            no_label: fixed(format!("no label {}", label)),
            elsewhere: fixed(format!("the group is in another {}", label)),
            not_chosen: fixed(format!("another {} is for the group", label)),
            no_room: fixed(format!("no {} has room for", label)),
        };
        Level { label, reasons }
    }
}

/// A text that is made once and kept: nodes that give it as their reason share it.
fn fixed(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn chosen(key: &str, label: &str, levels: &[Level]) -> Result<Option<usize>> {
    match levels.iter().position(|level| level.label == label) {
        None if label != "none" => fail(format!("\"{}\" is {}, which is none of \"levels\"", key, label)),
        level => Ok(level),
    }
}

fn fail<T>(what: String) -> Result<T> {
    Err(Error::from(format!("guestConfig: {}", what)))
}

#[cfg(test)]
pub mod tests {
    use super::{Config, Keys, NodePolicy};
    use guest::{Error, Result};

    pub fn config(text: &str) -> Result<Config> {
        Config::of(Keys::parse(text.as_bytes())?)
    }

    #[test]
    fn what_is_not_said_prefers_the_narrowest_level() {
        let found = config("").unwrap();
        let labels = "topology.kubernetes.io/zone, cloud.provider.com/topology-block, cloud.provider.com/topology-rack";
        assert_eq!(found.labels(), labels);
        assert_eq!((found.required, found.preferred), (None, Some(2)));
        assert_eq!(found.node_policy, NodePolicy::Spread);
        assert_eq!(found.levels[2].reasons.no_label, "no label cloud.provider.com/topology-rack");
        assert_eq!([found.named(b"topology.kubernetes.io/zone"), found.named(b"rack")], [Some(0), None]);
    }

    #[test]
    fn levels_are_chosen_by_their_labels() {
        let found = config(r#"{"levels": ["block", "rack"], "required": "block", "preferred": "none"}"#).unwrap();
        assert_eq!((found.required, found.preferred), (Some(0), None));
        assert_eq!(config(r#"{"nodePolicy": "none"}"#).unwrap().node_policy, NodePolicy::None);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, reason) in [
            (r#"{"levels": []}"#, "\"levels\" must have 1 to 8 labels"),
            (r#"{"levels": ["a", ""]}"#, "\"levels\" must have different labels, and has \"\" twice or empty"),
            (r#"{"levels": ["a", "b", "a"]}"#, "\"levels\" must have different labels, and has \"a\" twice or empty"),
            (r#"{"required": "rack"}"#, "\"required\" is rack, which is none of \"levels\""),
            (r#"{"preferred": ""}"#, "\"preferred\" is , which is none of \"levels\""),
            (r#"{"nodePolicy": "pack"}"#, "\"nodePolicy\" must be spread, binpack or none"),
        ] {
            assert_eq!(config(text).err(), Some(Error::from(format!("guestConfig: {}", reason))), "{}", text);
        }
    }
}
