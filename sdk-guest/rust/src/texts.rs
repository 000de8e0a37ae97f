/// The end of a chain: a number that no text has.
const END: u32 = u32::MAX;

/// Texts by number, and numbers by text. Numbers are small; the empty text has none.
///
/// A hash table with chains, whose length is a power of two and at least that of `entries`.
#[derive(Default)]
pub struct Texts {
    /// By number.
    entries: Vec<Entry>,
    /// The first number of each chain.
    heads: Vec<u32>,
}

/// A text and the number that comes next in its chain. The text is empty where a number has none.
struct Entry {
    text: Vec<u8>,
    next: u32,
}

impl Texts {
    pub const fn new() -> Texts {
        Texts { entries: Vec::new(), heads: Vec::new() }
    }

    /// The text of a number.
    pub fn text(&self, number: u32) -> Option<&[u8]> {
        let entry = self.entries.get(number as usize)?;
        Some(entry.text.as_slice()).filter(|text| !text.is_empty())
    }

    /// The number of a text.
    pub fn number(&self, text: &[u8]) -> Option<u32> {
        let mut at = *self.heads.get(self.chain(text))?;
        loop {
            let entry = self.entries.get(at as usize)?;
            if entry.text == text {
                return Some(at);
            }
            at = entry.next;
        }
    }

    /// Makes it the number's text, and the number the text's only one.
    pub fn set(&mut self, number: u32, text: &[u8]) {
        if self.text(number) == Some(text) {
            return;
        }
        self.remove(number);
        if let Some(other) = self.number(text) {
            self.remove(other);
        }
        while self.entries.len() <= number as usize {
            self.entries.push(Entry { text: Vec::new(), next: END });
        }
        if let Some(entry) = self.entries.get_mut(number as usize) {
            entry.text.extend_from_slice(text);
        }
        if self.entries.len() <= self.heads.len() {
            self.chain_up(number);
            return;
        }
        self.heads = std::vec![END; self.entries.len().next_power_of_two()];
        (0..self.entries.len() as u32).for_each(|number| self.chain_up(number));
    }

    /// Takes the text from a number, if it has one.
    pub fn remove(&mut self, number: u32) {
        let chain = match self.text(number) {
            Some(text) => self.chain(text),
            None => return,
        };
        let next = self.entries.get_mut(number as usize).map_or(END, |entry| {
            entry.text = Vec::new();
            entry.next
        });
        if let Some(link) = self.link(chain, number) {
            *link = next;
        }
    }

    /// Puts a number that has a text at the head of its chain.
    fn chain_up(&mut self, number: u32) {
        let chain = match self.text(number) {
            Some(text) => self.chain(text),
            None => return,
        };
        if let (Some(head), Some(entry)) = (self.heads.get_mut(chain), self.entries.get_mut(number as usize)) {
            entry.next = std::mem::replace(head, number);
        }
    }

    /// What points to a number in its chain.
    fn link(&mut self, chain: usize, number: u32) -> Option<&mut u32> {
        let head = self.heads.get_mut(chain)?;
        if *head == number {
            return Some(head);
        }
        let mut at = *head as usize;
        while self.entries.get(at)?.next != number {
            at = self.entries.get(at)?.next as usize;
        }
        Some(&mut self.entries.get_mut(at)?.next)
    }

    /// Which chain a text belongs to, by its hash (FNV-1a).
    fn chain(&self, text: &[u8]) -> usize {
        let hash = text.iter().fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
        (hash ^ hash >> 15) as usize & self.heads.len().wrapping_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::Texts;
    use std::collections::HashMap;

    #[test]
    fn no_texts() {
        let mut texts = Texts::new();
        texts.remove(0);
        assert_eq!((texts.number(b"a"), texts.number(b""), texts.text(0)), (None, None, None));
    }

    #[test]
    fn a_text_moves_to_another_number_and_back() {
        let mut texts = Texts::new();
        texts.set(3, b"a");
        texts.set(1, b"a");
        assert_eq!((texts.number(b"a"), texts.text(1), texts.text(3)), (Some(1), Some(&b"a"[..]), None));
        texts.set(3, b"a");
        assert_eq!((texts.number(b"a"), texts.text(1), texts.text(3)), (Some(3), None, Some(&b"a"[..])));
    }

    #[test]
    fn after_random_changes_it_has_what_a_map_has() {
        let mut texts = Texts::new();
        let mut expected = HashMap::new();
        let mut state = 7u32;
        let mut random = |below: u32| {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            (state >> 8) % below
        };
        for _ in 0..20_000 {
            let number = random(200);
            if random(3) == 0 {
                texts.remove(number);
                expected.remove(&number);
            } else {
                let text = format!("text-{}", random(300)).into_bytes();
                texts.set(number, &text);
                expected.retain(|_, other| *other != text);
                expected.insert(number, text);
            }
            let number = random(200);
            assert_eq!(texts.text(number), expected.get(&number).map(|text| text.as_slice()));
        }
        for i in 0..300 {
            let text = format!("text-{}", i).into_bytes();
            let number = expected.iter().find(|(_, other)| **other == text).map(|(number, _)| *number);
            assert_eq!(texts.number(&text), number);
        }
    }
}
