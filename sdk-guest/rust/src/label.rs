use crate::texts::Texts;
use std::cell::Cell;

/// A label's value to be kept and compared, of any length. Equal ones share their bytes, so comparing two is
/// comparing two numbers. The empty one stands for an absent label as well. The order of labels is not that of their
/// bytes, and stays as it is while they are kept.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label(u32);

/// The number of the empty label, which has no entry in `Labels`.
const EMPTY: u32 = 0;

/// The values of all labels that are kept.
#[derive(Default)]
struct Labels {
    /// From 1 on.
    texts: Texts,
    /// How many labels have the number's text, from number 1 on.
    uses: Vec<u32>,
    /// The numbers below that have none.
    free: Vec<u32>,
}

thread_local! {
    static LABELS: Cell<Option<Labels>> = const { Cell::new(None) };
}

/// Runs `work` on the labels of this thread; a guest has one.
fn with_labels<T>(work: impl FnOnce(&mut Labels) -> T) -> T {
    LABELS.with(|cell| {
        let mut labels = cell.take().unwrap_or_default();
        let result = work(&mut labels);
        cell.set(Some(labels));
        result
    })
}

impl Label {
    pub fn new(value: Option<&[u8]>) -> Label {
        match value {
            None | Some(b"") => Label(EMPTY),
            Some(value) => Label(with_labels(|labels| labels.take(value))),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0 == EMPTY
    }

    /// A copy of its bytes.
    pub fn text(&self) -> Vec<u8> {
        with_labels(|labels| labels.texts.text(self.0).unwrap_or_default().to_vec())
    }
}

impl Clone for Label {
    fn clone(&self) -> Label {
        if self.0 != EMPTY {
            with_labels(|labels| labels.share(self.0));
        }
        Label(self.0)
    }
}

impl Default for Label {
    /// The empty one.
    fn default() -> Label {
        Label(EMPTY)
    }
}

impl Drop for Label {
    fn drop(&mut self) {
        if self.0 != EMPTY {
            with_labels(|labels| labels.give_back(self.0));
        }
    }
}

impl Labels {
    fn take(&mut self, value: &[u8]) -> u32 {
        let number = self.texts.number(value).or_else(|| self.free.pop()).unwrap_or(self.uses.len() as u32 + 1);
        match self.uses.get_mut(number as usize - 1) {
            Some(uses) => *uses += 1,
            None => self.uses.push(1),
        }
        self.texts.set(number, value);
        number
    }

    fn share(&mut self, number: u32) {
        if let Some(uses) = self.uses.get_mut(number as usize - 1) {
            *uses += 1;
        }
    }

    fn give_back(&mut self, number: u32) {
        if let Some(uses) = self.uses.get_mut(number as usize - 1) {
            *uses -= 1;
            if *uses == 0 {
                self.texts.remove(number);
                self.free.push(number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{with_labels, Label};

    fn label(value: &[u8]) -> Label {
        Label::new(Some(value))
    }

    #[test]
    fn labels_are_equal_if_their_bytes_are() {
        let values: [&[u8]; 6] = [b"", b"\0", b"\0\0", b"a", b"b", &[b'x'; 1000]];
        let labels = values.map(label);
        for (i, one) in labels.iter().enumerate() {
            for (j, other) in values.iter().enumerate() {
                assert_eq!(*one == label(other), i == j, "{} {}", i, j);
            }
        }
    }

    #[test]
    fn an_absent_label_is_an_empty_one() {
        assert_eq!(Label::new(None), label(b""));
        assert!(label(b"").is_empty());
        assert!(!label(b"\0").is_empty());
    }

    #[test]
    fn a_copy_keeps_the_bytes() {
        let copy = label(b"zone-b").clone();
        assert!(copy == label(b"zone-b") && copy.text() == b"zone-b");
        assert_eq!((Label::default().clone().text(), Label::default()), (Vec::new(), label(b"")));
        drop(copy);
        assert_eq!(with_labels(|labels| labels.texts.number(b"zone-b")), None);
    }

    #[test]
    fn the_bytes_of_a_value_are_kept_as_long_as_a_label_has_it() {
        let first = label(b"zone-a");
        for i in 0..1000 {
            let changing = [label(b"zone-a"), label(i.to_string().as_bytes())];
            assert!(changing[0] == first && changing[1] != first);
        }
        let (numbers, in_use) = with_labels(|labels| (labels.uses.len(), labels.uses.iter().sum::<u32>()));
        assert_eq!((numbers, in_use), (2, 1));
        drop(first);
        assert_eq!(with_labels(|labels| labels.texts.number(b"zone-a")), None);
    }
}
