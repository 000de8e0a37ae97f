//! Events, which tell people what became of an object: `kubectl describe` shows them.

use crate::host;
use crate::json;
use crate::pod::Pod;
use crate::status::Result;
use std::borrow::Cow;

/// What is to be known of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    pub regarding: Reference,
    /// An object that had a part in it; none if it has no name.
    pub related: Reference,
    pub is_warning: bool,
    /// Why, as one word in camel case.
    pub reason: Cow<'static, str>,
    /// What was being done, as one word in camel case.
    pub action: Cow<'static, str>,
    /// The same for people.
    pub note: Cow<'static, str>,
}

impl Event {
    /// Hands the Event to the host.
    pub fn record(&self) {
        #[cfg(not(target_arch = "wasm32"))]
        crate::hosttest::world::recorded(self);
        let text = self.json();
        // SAFETY: the host reads that many bytes.
        unsafe { host::eventf(text.as_ptr(), text.len()) };
    }

    fn json(&self) -> String {
        let kind = if self.is_warning { "Warning" } else { "Normal" };
        let texts: [(&str, &str); 4] =
            [("Eventtype", kind), ("Reason", &self.reason), ("Action", &self.action), ("Note", &self.note)];
        let mut text = String::from("{");
        for (key, reference) in [("RegardingReference", &self.regarding), ("RelatedReference", &self.related)] {
            json::key(key, &mut text);
            reference.json(&mut text);
        }
        members(&texts, &mut text);
        text.push('}');
        text
    }
}

/// What names an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reference {
    pub kind: String,
    pub api_version: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub resource_version: String,
}

impl Reference {
    pub fn pod(pod: &Pod) -> Result<Reference> {
        let metadata = pod.metadata()?;
        Ok(Reference {
            kind: "Pod".into(),
            api_version: "v1".into(),
            namespace: text(metadata.namespace()?),
            name: text(metadata.name()?),
            uid: text(metadata.uid()?),
            resource_version: text(metadata.resource_version()?),
        })
    }

    /// The node of this name.
    pub fn node(name: &[u8]) -> Reference {
        Reference { kind: "Node".into(), api_version: "v1".into(), name: text(name), ..Reference::default() }
    }

    fn json(&self, text: &mut String) {
        let texts: [(&str, &str); 6] = [
            ("Kind", &self.kind),
            ("APIVersion", &self.api_version),
            ("Namespace", &self.namespace),
            ("Name", &self.name),
            ("UID", &self.uid),
            ("ResourceVersion", &self.resource_version),
        ];
        text.push('{');
        members(&texts, text);
        text.push('}');
    }
}

fn members(members: &[(&str, &str)], text: &mut String) {
    for (key, value) in members {
        json::key(key, text);
        json::quote(value, text);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Event, Reference};
    use crate::pod::Pod;

    #[test]
    fn the_json_of_an_event() {
        let pod = Pod::new(b"\x0a\x19\x0a\x05web-7\x1a\x07default\x2a\x03u-1\x32\x0212".to_vec());
        let event = Event {
            regarding: Reference::pod(&pod).unwrap(),
            related: Reference::node(b"node-7"),
            is_warning: true,
            reason: "Full".into(),
            action: "Scheduling".into(),
            note: String::from("rack \"r7\"\n").into(),
        };
        let expected = [
            r#"{"RegardingReference":{"Kind":"Pod","APIVersion":"v1","Namespace":"default","Name":"web-7","#,
            r#""UID":"u-1","ResourceVersion":"12"},"RelatedReference":{"Kind":"Node","APIVersion":"v1","#,
            r#""Namespace":"","Name":"node-7","UID":"","ResourceVersion":""},"Eventtype":"Warning","Reason":"Full","#,
            r#""Action":"Scheduling","Note":"rack \"r7\"\u000a"}"#,
        ];
        assert_eq!(event.json(), expected.concat());
        assert!(Event::default().json().contains(r#""Eventtype":"Normal""#));
    }
}
