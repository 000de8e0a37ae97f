use guest::{Error, Result};
use std::time::Duration;

guest::config! {
    #[allow(non_snake_case)]
    struct Keys {
        timeoutSeconds: i64 = 60,
        patienceSeconds: i64 = 300,
    }
}

/// What is longer than any wait.
const MAX_SECONDS: i64 = 1 << 31;

/// The plugin's configuration.
pub struct Config {
    /// For how long a pod waits for the others, where its group does not say.
    pub timeout: Duration,
    /// Seconds after which a group that waits has others wait; 0 for never.
    pub patience: u64,
}

impl Config {
    pub fn read() -> Result<Config> {
        Config::of(Keys::read()?)
    }

    fn of(keys: Keys) -> Result<Config> {
        Ok(Config {
            timeout: Duration::from_secs(seconds("timeoutSeconds", keys.timeoutSeconds, 1)?),
            patience: seconds("patienceSeconds", keys.patienceSeconds, 0)?,
        })
    }
}

fn seconds(key: &str, number: i64, least: i64) -> Result<u64> {
    if (least..=MAX_SECONDS).contains(&number) {
        return Ok(number as u64);
    }
    Err(Error::from(format!("guestConfig: \"{}\" must be from {} to {}", key, least, MAX_SECONDS)))
}

#[cfg(test)]
pub mod tests {
    use super::{Config, Keys};
    use guest::{Error, Result};
    use std::time::Duration;

    pub fn config(text: &str) -> Result<Config> {
        Config::of(Keys::parse(text.as_bytes())?)
    }

    #[test]
    fn what_is_not_said_is_a_minute_and_five() {
        let found = config("").unwrap();
        assert_eq!((found.timeout, found.patience), (Duration::from_secs(60), 300));
        let found = config(r#"{"timeoutSeconds": 1, "patienceSeconds": 0}"#).unwrap();
        assert_eq!((found.timeout, found.patience), (Duration::from_secs(1), 0));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, reason) in [
            (r#"{"timeoutSeconds": 0}"#, "\"timeoutSeconds\" must be from 1 to 2147483648"),
            (r#"{"patienceSeconds": -1}"#, "\"patienceSeconds\" must be from 0 to 2147483648"),
            (r#"{"patienceSeconds": 2147483649}"#, "\"patienceSeconds\" must be from 0 to 2147483648"),
        ] {
            assert_eq!(config(text).err(), Some(Error::from(format!("guestConfig: {}", reason))), "{}", text);
        }
    }
}
