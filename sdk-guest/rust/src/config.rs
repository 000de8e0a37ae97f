//! The plugin's configuration: the host's `guestConfig`, a JSON object, as a struct.

use crate::host;
use crate::json::{Object, Value};
use crate::status::{Error, Result};

/// Most configurations fit; for a larger one the host is asked twice.
const USUAL_SIZE: usize = 1024;
/// Characters of an unknown key that are shown.
const SHOWN: usize = 64;

/// The configuration as text, whatever its format.
pub fn text() -> Vec<u8> {
    // SAFETY: the host keeps to the buffer and its limit.
    host::read(USUAL_SIZE, |buffer, limit| unsafe { host::get_config(buffer, limit) })
}

/// Declares a struct of the configuration's keys, each with its default:
///
/// ```ignore
/// guest::config! {
///     struct Config {
///         reverse: bool = false,
///         label: String = "zone".into(),
///         zones: Vec<String> = Vec::new(),
///     }
/// }
/// ```
///
/// `Config::read()` fills it. An unknown key, one that is given twice and a value of the wrong type are errors that
/// tell what was expected.
#[macro_export]
macro_rules! config {
    ($(#[$about:meta])* $visible:vis struct $name:ident {
        $($(#[$about_key:meta])* $key:ident: $type:ty = $default:expr),* $(,)?
    }) => {
        $(#[$about])*
        $visible struct $name {
            $($(#[$about_key])* $key: $type,)*
        }

        #[allow(dead_code)] // A test may make one without a text.
        impl $name {
            fn read() -> $crate::Result<Self> {
                Self::parse(&$crate::config::text())
            }

            fn parse(text: &[u8]) -> $crate::Result<Self> {
                let mut config = Self { $($key: $default,)* };
                let keys = [$((stringify!($key), <$type as $crate::config::Setting>::KIND),)*];
                $crate::config::parse(text, &keys, &mut |key, value| match key {
                    $(stringify!($key) => $crate::config::set(&mut config.$key, value),)*
                    _ => false,
                })?;
                Ok(config)
            }
        }
    };
}

/// A type of a configuration's value.
pub trait Setting: Sized {
    /// The type as people are told of it.
    const KIND: &'static str;

    fn from_json(value: Value) -> Option<Self>;
}

impl Setting for bool {
    const KIND: &'static str = "true or false";

    fn from_json(value: Value) -> Option<bool> {
        match value {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }
}

impl Setting for i64 {
    const KIND: &'static str = "an integer";

    fn from_json(value: Value) -> Option<i64> {
        match value {
            Value::Number(digits) => digits.parse().ok(),
            _ => None,
        }
    }
}

impl Setting for String {
    const KIND: &'static str = "a string";

    fn from_json(value: Value) -> Option<String> {
        match value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }
}

impl Setting for Vec<String> {
    const KIND: &'static str = "a list of strings";

    fn from_json(value: Value) -> Option<Vec<String>> {
        match value {
            Value::Strings(texts) => Some(texts),
            _ => None,
        }
    }
}

/// For [`config!`](crate::config!): whether the value is of the right type.
pub fn set<T: Setting>(place: &mut T, value: Value) -> bool {
    T::from_json(value).map(|value| *place = value).is_some()
}

/// For [`config!`](crate::config!): calls `set` with the value of each key. `keys` are all that there may be, with
/// their types as people are told of them. An empty text stands for the defaults.
pub fn parse(text: &[u8], keys: &[(&str, &str)], set: &mut dyn FnMut(&str, Value) -> bool) -> Result<()> {
    if text.iter().all(u8::is_ascii_whitespace) {
        return Ok(());
    }
    let mut seen = vec![false; keys.len()];
    let mut object = Object::new(text);
    loop {
        let (key, value) = match object.member() {
            Ok(Some(member)) => member,
            Ok(None) => return Ok(()),
            Err(_) => return fail(&["guestConfig is no JSON object; ", &expected(keys)]),
        };
        let (seen, kind) = match keys.iter().zip(&mut seen).find(|((known, _), _)| *known == key) {
            Some(((_, kind), seen)) => (seen, kind),
            None => {
                let shown: String = key.chars().take(SHOWN).collect();
                return fail(&["guestConfig: unknown key \"", &shown, "\"; ", &expected(keys)]);
            }
        };
        if std::mem::replace(seen, true) {
            return fail(&["guestConfig: \"", &key, "\" is given twice"]);
        }
        if !set(&key, value) {
            return fail(&["guestConfig: \"", &key, "\" must be ", kind]);
        }
    }
}

fn fail(parts: &[&str]) -> Result<()> {
    Err(Error::from(text_of(parts)))
}

fn expected(keys: &[(&str, &str)]) -> String {
    let mut text = String::from("expected a JSON object with ");
    for (i, (key, kind)) in keys.iter().enumerate() {
        let comma = if i == 0 { "" } else { ", " };
        text.push_str(&text_of(&[comma, "\"", key, "\" (", kind, ")"]));
    }
    text
}

/// As `concat` of the standard library, which can panic and so brings in all that tells of a panic.
fn text_of(parts: &[&str]) -> String {
    let mut text = String::new();
    parts.iter().for_each(|part| text.push_str(part));
    text
}

#[cfg(test)]
mod tests {
    use crate::Error;

    crate::config! {
        #[derive(Debug, PartialEq)]
        struct Config {
            reverse: bool = false,
            label: String = "zone".into(),
            limit: i64 = 10,
            zones: Vec<String> = vec!["a".into()],
        }
    }

    #[test]
    fn configurations() {
        for text in ["", " \n", "{}", " { } "] {
            let defaults = Config { reverse: false, label: "zone".into(), limit: 10, zones: vec!["a".into()] };
            assert_eq!(Config::parse(text.as_bytes()), Ok(defaults), "{}", text);
        }
        let text = br#"{"limit": -255, "label": "ra\u0063k", "zones": ["", "\u0063"], "reverse": true}"#;
        let zones = vec!["".into(), "c".into()];
        assert_eq!(Config::parse(text), Ok(Config { reverse: true, label: "rack".into(), limit: -255, zones }));
        assert_eq!(Config::parse(br#"{"zones": []}"#).map(|config| config.zones), Ok(Vec::new()));
    }

    #[test]
    fn what_is_wrong_with_a_configuration_and_what_was_expected() {
        let keys = "expected a JSON object with \"reverse\" (true or false), \"label\" (a string), \
                    \"limit\" (an integer), \"zones\" (a list of strings)";
        for (text, reason, rest) in [
            ("null", "guestConfig is no JSON object; ", keys),
            ("reverse: true", "guestConfig is no JSON object; ", keys),
            ("{\"reverse\": true", "guestConfig is no JSON object; ", keys),
            ("{\"reverse\": true} x", "guestConfig is no JSON object; ", keys),
            ("{\"revers\": true}", "guestConfig: unknown key \"revers\"; ", keys),
            ("{\"reverse\": \"true\"}", "guestConfig: \"reverse\" must be true or false", ""),
            ("{\"reverse\": null}", "guestConfig: \"reverse\" must be true or false", ""),
            ("{\"reverse\": true, \"reverse\": true}", "guestConfig: \"reverse\" is given twice", ""),
            ("{\"label\": [1]}", "guestConfig: \"label\" must be a string", ""),
            ("{\"label\": [\"a\"]}", "guestConfig: \"label\" must be a string", ""),
            ("{\"zones\": \"a\"}", "guestConfig: \"zones\" must be a list of strings", ""),
            ("{\"zones\": [\"a\", 1]}", "guestConfig: \"zones\" must be a list of strings", ""),
            ("{\"zones\": [[\"a\"]]}", "guestConfig: \"zones\" must be a list of strings", ""),
            ("{\"zones\": {}}", "guestConfig: \"zones\" must be a list of strings", ""),
            ("{\"zones\": [\"a\"", "guestConfig is no JSON object; ", keys),
            ("{\"limit\": 9223372036854775808}", "guestConfig: \"limit\" must be an integer", ""),
            ("{\"limit\": 1.5}", "guestConfig: \"limit\" must be an integer", ""),
        ] {
            assert_eq!(Config::parse(text.as_bytes()), Err(Error::from([reason, rest].concat())), "{}", text);
        }
    }
}
