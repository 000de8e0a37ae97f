use crate::groups::Member;
use crate::node_info::ResidentPod;
use crate::plugin::Plugin;
use crate::pod::Pod;
use crate::status::Result;
use std::mem;

/// The number of a pod that has none, and the place of a pod that has none.
const NONE: u32 = u32::MAX;

/// A plugin that keeps the pods without a node. It is exported with `; pending` or `; pods, pending`.
pub trait KeepsPending: Plugin {
    /// What the plugin keeps of each of them.
    type Pending: ResidentPod;

    /// Where it keeps them.
    fn pending(&mut self) -> &mut PendingPods<Self::Pending>;
}

/// The pods of the cluster that have no node yet, each as what a plugin keeps of it.
///
/// They are those of all schedulers, with the current pod if the host knows it already. There are none where the host
/// tells of none.
pub struct PendingPods<T> {
    /// Each with its number.
    pods: Vec<(u32, T)>,
    /// By the pods' numbers, where in `pods` each is.
    places: Vec<u32>,
}

impl<T> Default for PendingPods<T> {
    fn default() -> PendingPods<T> {
        PendingPods { pods: Vec::new(), places: Vec::new() }
    }
}

impl<T> PendingPods<T> {
    /// The pods, in any order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.pods.iter().map(|(_, pod)| pod)
    }

    /// The pod that is this member of a group.
    pub fn get(&self, member: &Member) -> Option<&T> {
        let place = *self.places.get(member.pod as usize)?;
        self.pods.get(place as usize).map(|(_, pod)| pod)
    }

    /// Puts a pod there of which the host has not told, as tests need to.
    pub fn add_pod(&mut self, pod: &Pod) -> Result<()>
    where
        T: ResidentPod,
    {
        self.pods.push((NONE, T::new(pod)?));
        Ok(())
    }

    /// Takes the place of the pod that had the number before.
    pub(crate) fn put(&mut self, number: u32, pod: T) {
        self.remove(number);
        while self.places.len() <= number as usize {
            self.places.push(NONE);
        }
        if let Some(place) = self.places.get_mut(number as usize) {
            *place = self.pods.len() as u32;
        }
        self.pods.push((number, pod));
    }

    /// Takes away the pod with this number, if it is there. The last one takes its place.
    pub(crate) fn remove(&mut self, number: u32) {
        let place = match self.places.get_mut(number as usize) {
            Some(place) if *place != NONE => mem::replace(place, NONE),
            _ => return,
        };
        if let Some(last) = self.pods.pop() {
            if let Some(removed) = self.pods.get_mut(place as usize) {
                if let Some(moved) = self.places.get_mut(last.0 as usize) {
                    *moved = place;
                }
                *removed = last;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PendingPods;
    use crate::pod::Pod;

    fn kept(pods: &PendingPods<char>) -> Vec<char> {
        let mut kept: Vec<char> = pods.iter().copied().collect();
        kept.sort_unstable();
        kept
    }

    #[test]
    fn pods_come_change_and_go() {
        let mut pods = PendingPods::default();
        for (number, pod) in [(7, 'a'), (3, 'b'), (9, 'c'), (3, 'd')] {
            pods.put(number, pod);
        }
        assert_eq!(kept(&pods), ['a', 'c', 'd']);
        for (number, left) in
            [(3, vec!['a', 'c']), (8, vec!['a', 'c']), (3, vec!['a', 'c']), (7, vec!['c']), (9, vec![])]
        {
            pods.remove(number);
            assert_eq!(kept(&pods), left, "{}", number);
        }
        pods.put(7, 'e');
        assert_eq!(kept(&pods), ['e']);
    }

    #[test]
    fn tests_put_pods_there_of_which_no_host_has_told() {
        let mut pods = PendingPods::<()>::default();
        pods.add_pod(&Pod::new(Vec::new())).unwrap();
        pods.put(0, ());
        pods.add_pod(&Pod::new(Vec::new())).unwrap();
        pods.remove(0);
        pods.remove(0);
        assert_eq!(pods.iter().count(), 2);
    }
}
