/** The groups of pods that the host has told of, with their members: `groups.get(key)`. None where it tells of none. */

import { Group, GroupKey, Member } from "./group";
import { GroupRecords, MemberRecords } from "./group_records";

const BY_FIELD = 1;

/** By number; null where there is no group. */
const known: (Group | null)[] = [];
/** By their keys as text, the numbers of groups. */
const numbers = new Map<string, u32>();
/** By the numbers of pods, the numbers of their groups. */
const ofPods: u32[] = [];

/** The number of no group. */
const NONE = u32.MAX_VALUE;

/** Null where the host has not told of the group, which may be a moment behind the scheduler. */
export function get(key: GroupKey): Group | null {
  const text = key.toString();
  return numbers.has(text) ? at(numbers.get(text)) : null;
}

/** All groups, in any order. */
export function all(): Group[] {
  const found: Group[] = [];
  for (let i = 0; i < known.length; i++) {
    const group = known[i];
    if (group !== null) found.push(group);
  }
  return found;
}

/** Reads so many records of groups. */
export function groupsChanged(count: i32): void {
  const records = new GroupRecords();
  for (let i = 0; i < count; i++) {
    records.next();
    groupChanged(records);
  }
}

/** Reads so many records of members. */
export function membersChanged(count: i32): void {
  const records = new MemberRecords();
  for (let i = 0; i < count; i++) {
    records.next();
    memberChanged(records);
  }
}

/** Members of the group that had the number before are told to be gone, or of another group, later. */
function groupChanged(record: GroupRecords): void {
  const former = forget(record.group);
  if (!record.isThere) return;
  const group = new Group(new GroupKey(record.source == BY_FIELD, record.namespace, record.name));
  group.minimum = record.minimum;
  group.timeoutSeconds = record.timeoutSeconds;
  group.priority = record.priority;
  group.created = record.created;
  const key = group.key.toString();
  if (former !== null && former.key.toString() == key) {
    group.members = former.members;
    group.placed = former.placed;
  }
  while (<u32>known.length <= record.group) known.push(null);
  known[record.group] = group;
  numbers.set(key, record.group);
}

/** The group that had a number, which it has no more. */
function forget(number: u32): Group | null {
  const former = at(number);
  if (former === null) return null;
  known[number] = null;
  const key = former.key.toString();
  if (numbers.get(key) == number) numbers.delete(key); // Else it is back by now under another one.
  return former;
}

function memberChanged(record: MemberRecords): void {
  while (<u32>ofPods.length <= record.pod) ofPods.push(NONE);
  const former = at(ofPods[record.pod]);
  if (former !== null) former.remove(record.pod);
  ofPods[record.pod] = record.group;
  const group = at(record.group);
  if (group !== null && record.isThere) group.add(new Member(record.pod, record.node, record.state));
}

function at(number: u32): Group | null {
  return number < <u32>known.length ? known[number] : null;
}
