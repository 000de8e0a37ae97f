use crate::policy::Policy;
use crate::share::{self, Share};
use std::cmp::Reverse;

/// A node with more of the first resource than that has no devices one by one: the resource counts something else.
pub const MAX_DEVICES: usize = 256;

/// The devices of a node, and how much of each is free.
#[derive(Debug, PartialEq, Eq)]
pub struct Devices {
    /// Of each device; 0 if that is not known.
    mebibytes: i64,
    /// Of each device, in the unit of [`Part::of_device`](crate::share::Part::of_device), as all amounts here.
    size: i64,
    /// Below 0 where pods have more than there is.
    free: Vec<i64>,
    /// How many are free as a whole.
    unused: usize,
    /// The sum of what is free.
    all_free: i64,
}

/// As much of each of some devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    pub amount: i64,
    pub devices: usize,
}

impl Devices {
    /// So many devices, all free.
    pub fn new(count: usize, mebibytes: i64) -> Devices {
        let size = share::size(mebibytes);
        Devices::with(mebibytes, size, vec![size; count])
    }

    fn with(mebibytes: i64, size: i64, free: Vec<i64>) -> Devices {
        let mut devices = Devices { mebibytes, size, free, unused: 0, all_free: 0 };
        devices.sum_up();
        devices
    }

    pub fn demand_of_whole(&self, count: i64) -> Demand {
        Demand { amount: self.size, devices: usize::try_from(count).unwrap_or(usize::MAX) }
    }

    pub fn demand_of_share(&self, share: Share) -> Demand {
        Demand { amount: share.part.of_device(self.mebibytes, self.size), devices: share.devices }
    }

    /// Takes what pods have: each with the devices that it is known to have. Those of the others are not known, as are
    /// those that are not there any more: they are thought to be packed, the largest first, on what is left.
    pub fn take<'a>(&mut self, pods: impl Iterator<Item = (Demand, &'a [usize])>) {
        let mut others = Vec::new();
        for (demand, devices) in pods {
            let known = if devices.len() == demand.devices { devices } else { &[] };
            self.take_from(known, demand.amount);
            let there = known.iter().filter(|index| **index < self.free.len()).count();
            others.push(Demand { devices: demand.devices - there, ..demand });
        }
        others.retain(|demand| demand.devices > 0);
        others.sort_by_key(|demand| Reverse((demand.amount, demand.devices)));
        for demand in others {
            let devices = self.choose(demand, Policy::Binpack).unwrap_or_else(|| self.freest(demand.devices));
            self.take_from(&devices, demand.amount);
        }
        self.sum_up();
    }

    /// Whether there is no such device, even if no pod were there.
    pub fn can_never_fit(&self, demand: Demand) -> bool {
        demand.amount > self.size || demand.devices > self.free.len()
    }

    pub fn fit(&self, demand: Demand) -> bool {
        if demand.amount == self.size {
            return self.unused >= demand.devices;
        }
        self.free.iter().filter(|free| **free >= demand.amount).count() >= demand.devices
    }

    /// Whether it fits without any device that is free as a whole.
    pub fn fit_in_use(&self, demand: Demand) -> bool {
        let in_use = self.free.iter().filter(|free| (demand.amount..self.size).contains(*free));
        in_use.count() >= demand.devices
    }

    /// Indices of devices with enough room, the lowest of equal ones; None where too few have it.
    pub fn choose(&self, demand: Demand, policy: Policy) -> Option<Vec<usize>> {
        let mut fitting: Vec<(i64, usize)> = Vec::new();
        for (index, free) in self.free.iter().enumerate().filter(|(_, free)| **free >= demand.amount) {
            fitting.push((if policy == Policy::Binpack { *free } else { -*free }, index));
        }
        if fitting.len() < demand.devices {
            return None;
        }
        fitting.sort_unstable();
        let mut chosen: Vec<usize> = fitting.into_iter().take(demand.devices).map(|(_, index)| index).collect();
        chosen.sort_unstable();
        Some(chosen)
    }

    /// How full all of them are with a demand more, in percent.
    pub fn level_with(&self, demand: Option<Demand>) -> i64 {
        let more = demand.map_or(0, |demand| demand.amount.saturating_mul(demand.devices.min(MAX_DEVICES) as i64));
        let all = self.size * self.free.len() as i64;
        percent(all - self.all_free + more, all)
    }

    fn sum_up(&mut self) {
        self.unused = self.free.iter().filter(|free| **free == self.size).count();
        self.all_free = self.free.iter().map(|free| (*free).max(0)).sum();
    }

    fn take_from(&mut self, devices: &[usize], amount: i64) {
        for index in devices {
            if let Some(free) = self.free.get_mut(*index) {
                *free = free.saturating_sub(amount);
            }
        }
    }

    fn freest(&self, count: usize) -> Vec<usize> {
        let mut devices: Vec<usize> = (0..self.free.len()).collect();
        devices.sort_by_key(|index| Reverse(self.free.get(*index).copied()));
        devices.truncate(count);
        devices
    }
}

/// From 0 to 100.
pub fn percent(part: i64, whole: i64) -> i64 {
    if whole <= 0 {
        return 100;
    }
    let part = part.max(0);
    match part.checked_mul(100) {
        Some(hundredths) => (hundredths / whole).min(100),
        None => (i128::from(part) * 100 / i128::from(whole)).min(100) as i64, // Several times as slow.
    }
}

#[cfg(test)]
mod tests {
    use super::{percent, Demand, Devices};
    use crate::policy::Policy::{Binpack, Spread};
    use crate::share::{Part, Share, MILLION};

    /// Of devices whose memory is not known, in millionths.
    fn demand(amount: i64, devices: usize) -> Demand {
        Demand { amount, devices }
    }

    fn half(devices: usize) -> Demand {
        demand(MILLION / 2, devices)
    }

    fn devices(free: &[i64]) -> Devices {
        Devices::with(0, MILLION, free.to_vec())
    }

    #[test]
    fn a_demand_is_in_the_unit_of_the_devices() {
        let mut of_memory = Devices::new(2, 40_000);
        let share = |part| of_memory.demand_of_share(Share { part, devices: 2 });
        assert_eq!(share(Part::Fraction(250_000)), demand(10_000 * MILLION, 2));
        assert_eq!(share(Part::Memory(10_000)), demand(10_000 * MILLION, 2));
        assert_eq!(of_memory.demand_of_whole(1), demand(40_000 * MILLION, 1));
        let quarter = share(Part::Memory(10_000));
        of_memory.take([(quarter, &[0, 1][..])].into_iter());
        assert_eq!(of_memory.free, [30_000 * MILLION, 30_000 * MILLION]);
        assert_eq!(Devices::new(1, 0).demand_of_share(Share { part: Part::Memory(1), devices: 1 }), demand(MILLION, 1));
    }

    #[test]
    fn a_share_goes_to_the_fullest_device_or_to_the_emptiest() {
        let some = devices(&[MILLION, MILLION / 2, MILLION * 3 / 4, MILLION / 4, MILLION]);
        let choose = |demand, policy| some.choose(demand, policy);
        assert_eq!((choose(half(1), Binpack), choose(half(1), Spread)), (Some(vec![1]), Some(vec![0])));
        assert_eq!((choose(half(2), Binpack), choose(half(2), Spread)), (Some(vec![1, 2]), Some(vec![0, 4])));
        assert_eq!((choose(half(4), Binpack), choose(half(5), Binpack)), (Some(vec![0, 1, 2, 4]), None));
        assert_eq!((choose(demand(MILLION, 2), Spread), choose(demand(MILLION, 3), Spread)), (Some(vec![0, 4]), None));
        for count in 0..6 {
            assert_eq!(some.fit(half(count)), choose(half(count), Binpack).is_some(), "{}", count);
        }
        assert_eq!([1, 2, 3].map(|count| some.fit_in_use(half(count))), [true, true, false]);
    }

    #[test]
    fn what_no_node_like_this_can_ever_have() {
        let full = devices(&[0, 0]);
        let cases = [demand(MILLION, 2), demand(MILLION + 1, 1), demand(1, 3)];
        assert_eq!(cases.map(|demand| full.can_never_fit(demand)), [false, true, true]);
    }

    #[test]
    fn pods_whose_devices_are_not_known_are_packed_around_the_others() {
        let mut some = devices(&[MILLION; 4]);
        let pods = [(half(1), &[][..]), (demand(MILLION, 2), &[]), (half(1), &[2]), (demand(MILLION / 4, 1), &[])];
        some.take(pods.into_iter());
        assert_eq!(some, devices(&[0, 0, 0, MILLION * 3 / 4]));
    }

    #[test]
    fn devices_that_are_not_there_or_too_few_are_not_known() {
        for known in [&[4][..], &[0, 1], &[]] {
            let mut some = devices(&[MILLION; 4]);
            some.take([(half(1), known)].into_iter());
            assert_eq!(some, devices(&[MILLION / 2, MILLION, MILLION, MILLION]), "{:?}", known);
        }
    }

    #[test]
    fn a_pod_keeps_its_other_devices_when_one_is_not_there_any_more() {
        let mut some = devices(&[MILLION; 4]);
        some.take([(demand(MILLION, 2), &[2, 4][..]), (half(1), &[3])].into_iter());
        assert_eq!(some, devices(&[0, MILLION, 0, MILLION / 2]));
    }

    #[test]
    fn more_than_there_is_leaves_less_than_nothing() {
        let mut some = devices(&[MILLION; 2]);
        let whole = demand(MILLION, 2);
        some.take([(whole, &[][..]), (half(1), &[]), (demand(MILLION, 9), &[])].into_iter());
        assert_eq!(some, devices(&[-MILLION * 3 / 2, -MILLION]));
        assert_eq!((some.level_with(None), some.level_with(Some(whole))), (100, 100));
    }

    #[test]
    fn numbers_may_be_as_large_as_can_be() {
        let (all, largest) = (crate::share::size(crate::share::MAX_MEMORY), i64::MAX);
        let mut some = Devices::new(super::MAX_DEVICES, crate::share::MAX_MEMORY);
        let whole = some.demand_of_whole(largest);
        assert_eq!((whole.amount, whole.devices as u64 >= u64::from(u32::MAX)), (all, true));
        assert_eq!((some.level_with(None), some.level_with(Some(whole)), some.fit(whole)), (0, 100, false));
        some.take([(whole, &[][..]), (whole, &[])].into_iter());
        assert_eq!((some.free.iter().all(|free| *free == -all), some.level_with(Some(whole))), (true, 100));
    }

    #[test]
    fn how_full_they_are() {
        let some = devices(&[MILLION, MILLION / 2, MILLION, MILLION]);
        assert_eq!((some.level_with(None), some.level_with(Some(half(1)))), (12, 25));
        assert_eq!(some.level_with(Some(demand(MILLION, 3))), 87);
        assert_eq!([percent(1, 3), percent(-1, 3), percent(4, 3), percent(0, 0)], [33, 0, 100, 100]);
    }
}
