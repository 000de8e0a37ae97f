use crate::texts::Texts;
use std::borrow::Cow;

/// The reasons of one list call. Each is handed over once, and has a number from 1 on.
#[derive(Default)]
pub struct Reasons {
    count: u32,
    /// Those that are part of the program, of which there are few, with their numbers.
    fixed: Vec<(&'static str, u32)>,
    /// Those that were made for a node.
    made: Texts,
}

impl Reasons {
    /// The number of a reason, 0 for none. `send` is called with one that has no number yet.
    pub fn number(&mut self, reason: &Cow<'static, str>, send: impl FnOnce()) -> u32 {
        match reason {
            Cow::Borrowed("") => 0,
            Cow::Borrowed(text) => {
                let is_text = |(known, _): &&(&str, u32)| known.as_ptr() == text.as_ptr() && known.len() == text.len();
                if let Some((_, number)) = self.fixed.iter().find(is_text) {
                    return *number;
                }
                send();
                self.count += 1;
                self.fixed.push((text, self.count));
                self.count
            }
            Cow::Owned(text) if text.is_empty() => 0,
            Cow::Owned(text) => {
                if let Some(number) = self.made.number(text.as_bytes()) {
                    return number;
                }
                send();
                self.count += 1;
                self.made.set(self.count, text.as_bytes());
                self.count
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Reasons;
    use std::borrow::Cow;

    #[test]
    fn each_reason_is_handed_over_once_and_none_is_0() {
        let mut reasons = Reasons::default();
        let mut sent = Vec::new();
        let all: [Cow<str>; 8] = [
            "".into(),
            "full".into(),
            String::from("full of cats").into(),
            "full".into(),
            "far".into(),
            String::from("full of dogs").into(),
            String::from("full of cats").into(),
            String::new().into(),
        ];
        let numbers: Vec<u32> = all.iter().map(|reason| reasons.number(reason, || sent.push(reason.clone()))).collect();
        assert_eq!(numbers, [0, 1, 2, 1, 3, 4, 2, 0]);
        assert_eq!(sent, ["full", "full of cats", "far", "full of dogs"]);
    }
}
