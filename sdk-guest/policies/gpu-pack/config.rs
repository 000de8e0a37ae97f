use crate::policy::Policy;
use guest::{Error, Label, Result};

/// Each resource is looked for on each node.
const MAX_RESOURCES: usize = 16;

guest::config! {
    #[allow(non_snake_case)]
    struct Keys {
        resources: Vec<String> = vec!["nvidia.com/gpu".into()],
        memoryLabel: String = "nvidia.com/gpu.memory".into(),
        nodePolicy: String = "binpack".into(),
        gpuPolicy: String = "binpack".into(),
    }
}

/// The plugin's configuration, with the texts that are made of it.
pub struct Config {
    /// At least one. Shares are of the first.
    pub resources: Vec<Resource>,
    /// The label of a node that says how many MiB of memory each device has.
    pub memory_label: String,
    pub node_policy: Policy,
    pub gpu_policy: Policy,
    pub reasons: Reasons,
}

/// A resource of which a node has some.
pub struct Resource {
    pub name: Label,
    /// The reason of a node that has too little of it.
    pub insufficient: &'static str,
}

/// Reasons against a node that are about shares.
pub struct Reasons {
    pub no_device: &'static str,
    pub no_memory_label: &'static str,
    pub insufficient_unshared: &'static str,
    pub insufficient_share: &'static str,
}

impl Config {
    pub fn read() -> Result<Config> {
        Config::of(Keys::read()?)
    }

    fn of(keys: Keys) -> Result<Config> {
        let first = match keys.resources.first() {
            Some(first) if keys.resources.len() <= MAX_RESOURCES => first,
            _ => return fail(format!("\"resources\" must have 1 to {} names", MAX_RESOURCES)),
        };
        if let Some(name) = keys.resources.iter().find(|name| !name.contains('/')) {
            return fail(format!("\"resources\" has {}, which is no extended resource, as example.com/gpu is", name));
        }
        Ok(Config {
            reasons: Reasons {
                no_device: fixed(format!("no {}", first)),
                no_memory_label: fixed(format!("no label {}", keys.memoryLabel)),
                insufficient_unshared: fixed(format!("Insufficient unshared {}", first)),
                insufficient_share: fixed(format!("Insufficient share of {}", first)),
            },
            resources: keys.resources.iter().map(Resource::new).collect(),
            memory_label: keys.memoryLabel,
            node_policy: policy("nodePolicy", &keys.nodePolicy)?,
            gpu_policy: policy("gpuPolicy", &keys.gpuPolicy)?,
        })
    }
}

impl Resource {
    fn new(name: &String) -> Resource {
        let insufficient = fixed(format!("Insufficient {}", name));
        Resource { name: Label::new(Some(name.as_bytes())), insufficient }
    }
}

/// A text that is made once and kept: nodes that give it as their reason share it.
fn fixed(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn policy(key: &str, name: &str) -> Result<Policy> {
    match Policy::named(name.as_bytes()) {
        Some(policy) => Ok(policy),
        None => fail(format!("\"{}\" must be binpack or spread", key)),
    }
}

fn fail<T>(what: String) -> Result<T> {
    Err(Error::from(format!("guestConfig: {}", what)))
}

#[cfg(test)]
pub mod tests {
    use super::{Config, Keys};
    use crate::policy::Policy;
    use guest::{Error, Result};

    pub fn config(text: &str) -> Result<Config> {
        Config::of(Keys::parse(text.as_bytes())?)
    }

    #[test]
    fn what_is_not_said_is_as_nvidia_names_it() {
        let found = config("").unwrap();
        assert_eq!(found.resources[0].name.text(), b"nvidia.com/gpu");
        assert_eq!(found.resources[0].insufficient, "Insufficient nvidia.com/gpu");
        assert_eq!((found.resources.len(), found.memory_label.as_str()), (1, "nvidia.com/gpu.memory"));
        assert_eq!((found.node_policy, found.gpu_policy), (Policy::Binpack, Policy::Binpack));
        let reasons = found.reasons;
        assert_eq!(
            [reasons.no_device, reasons.no_memory_label, reasons.insufficient_unshared, reasons.insufficient_share],
            [
                "no nvidia.com/gpu",
                "no label nvidia.com/gpu.memory",
                "Insufficient unshared nvidia.com/gpu",
                "Insufficient share of nvidia.com/gpu",
            ],
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, reason) in [
            (r#"{"resources": []}"#, "\"resources\" must have 1 to 16 names"),
            (
                r#"{"resources": ["gpu"]}"#,
                "\"resources\" has gpu, which is no extended resource, as example.com/gpu is",
            ),
            (r#"{"nodePolicy": "pack"}"#, "\"nodePolicy\" must be binpack or spread"),
            (r#"{"gpuPolicy": ""}"#, "\"gpuPolicy\" must be binpack or spread"),
        ] {
            assert_eq!(config(text).err(), Some(Error::from(format!("guestConfig: {}", reason))), "{}", text);
        }
    }
}
