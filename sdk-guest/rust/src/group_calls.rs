use crate::calls::Guest;
use crate::group_records::{GroupRecords, MemberRecords};
use crate::groups::with_groups;
use crate::plugin::Plugin;

impl<P: Plugin> Guest<P> {
    pub fn groups_changed(&mut self, count: usize) {
        let records = GroupRecords(self.records.bytes()).take(count);
        with_groups(|groups| records.for_each(|record| groups.group_changed(record)));
    }

    pub fn members_changed(&mut self, count: usize) {
        let records = MemberRecords(self.records.bytes()).take(count);
        with_groups(|groups| records.for_each(|record| groups.member_changed(record)));
    }
}
