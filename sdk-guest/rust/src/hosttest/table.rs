use std::collections::BTreeMap;

/// Values by their keys, with numbers that stay as long as they do.
pub struct Table<K, V> {
    entries: BTreeMap<K, (u32, V)>,
    free: Vec<u32>,
}

impl<K: Ord, V> Default for Table<K, V> {
    fn default() -> Table<K, V> {
        Table { entries: BTreeMap::new(), free: Vec::new() }
    }
}

impl<K: Ord + Clone, V> Table<K, V> {
    /// Returns the number.
    pub fn put(&mut self, key: K, value: V) -> u32 {
        let number = match self.number(&key) {
            Some(number) => number,
            None => self.free.pop().unwrap_or(self.entries.len() as u32),
        };
        self.entries.insert(key, (number, value));
        number
    }

    /// Leaves the number to the next one.
    pub fn remove(&mut self, key: &K) -> Option<(u32, V)> {
        let removed = self.entries.remove(key)?;
        self.free.push(removed.0);
        Some(removed)
    }

    pub fn number(&self, key: &K) -> Option<u32> {
        Some(self.entries.get(key)?.0)
    }

    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        Some(&mut self.entries.get_mut(key)?.1)
    }

    pub fn keys(&self) -> Vec<K> {
        self.entries.keys().cloned().collect()
    }
}
