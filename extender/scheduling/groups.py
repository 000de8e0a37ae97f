"""Groups of pods: which pods are of which, and what is known of each."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from extender.cluster import GroupObject
from extender.scheduling.group_claim import Claim, claim
from wasm_runtime.abi import GroupSource
from wasm_runtime.pods.group_table import Group, GroupKey
from wasm_runtime.pods.pod_table import PodTable, ResidentPod

PODS_AT_ONCE: Final = 256
"""Pods that are looked at while nobody else can change any: some milliseconds."""


class GroupEntry(NamedTuple):
    """A group, as people are shown it."""

    key: GroupKey
    group: Group
    has_object: bool
    """Whether there is a PodGroup of that name."""
    problems: list[str]
    """What is said of the group that cannot be read."""
    pods: dict[str, ResidentPod]
    """Its members by UID."""


class _Member(NamedTuple):
    object: bytes
    """The pod as it was when it was looked at."""
    claim: Claim


class Groups:
    """Passes pods on from the ledger to a `PodTable`, each with its group, and tells the table of the groups.

    It stands between the two, so a pod is of its group in every state that the ledger knows. Until `follow` no pod is
    looked at. A group is known as long as it has a PodGroup object or a pod. Where both say something, the object
    counts. May be used from any thread.
    """

    def __init__(self, pods: PodTable, on_objects: Callable[[], object] = lambda: None) -> None:
        """`on_objects` is called after changes of objects, by who made them."""
        self._pods = pods
        self._on_objects = on_objects
        self._lock = threading.RLock()
        """Taken before the locks of the tables, never after them."""
        self._members: dict[str, _Member] = {}
        self._claims: dict[GroupKey, Counter[Claim]] = {}
        """What the pods of each group say of it, and how many say so."""
        self._objects: dict[GroupKey, GroupObject] = {}
        self._is_followed = False

    def follow(self) -> None:
        """Begins to look at pods, those that are there included."""
        with self._lock:
            if self._is_followed:
                return
            self._is_followed = True
        uids = list(self._pods.pods())
        for begin in range(0, len(uids), PODS_AT_ONCE):
            with self._lock:
                pods = ((uid, self._pods.get(uid)) for uid in uids[begin : begin + PODS_AT_ONCE])
                self.put([(uid, pod) for uid, pod in pods if pod])

    def unfollow(self) -> None:
        """Ends it: no pod is of a group from now on, and there are no objects."""
        with self._lock:
            self._is_followed = False
            for uid in list(self._members):
                if pod := self._pods.get(uid):
                    self._pods.put([(uid, pod._replace(group=None))])
            keys = self._claims.keys() | self._objects.keys()
            self._members.clear()
            self._claims.clear()
            self._objects.clear()
            for key in keys:
                self._describe(key)

    def is_member(self, pod: bytes) -> bool:
        """Whether a pod is of a group, as long as groups are followed."""
        return self._is_followed and claim(pod) is not None

    def completes(self, pod: bytes) -> bool:
        """Whether the group of a pod has as many pods as it needs once this pod has come.

        Before that no pod of the group may go on.
        """
        said = claim(pod) if self._is_followed else None
        if said is None:
            return False
        with self._lock:
            claims = self._claims.get(said.key, Counter[Claim]())
            minimum = described(self._objects.get(said.key), [*claims, said]).minimum
            return sum(claims.values()) + 1 >= minimum

    # -- pods --------------------------------------------------------------------------------------

    def put(self, pods: Iterable[tuple[str, ResidentPod]]) -> None:
        """Adds or replaces pods, each with its UID. Which group it is of is found out here."""
        with self._lock:
            if not self._is_followed:
                self._pods.put(pods)
                return
            for uid, pod in pods:
                self._put(uid, pod)

    def remove(self, uid: str) -> None:
        """Forgets a pod. A UID that is not known is not an error."""
        with self._lock:
            self._pods.remove(uid)
            if member := self._members.pop(uid, None):
                self._leave(member.claim)

    def replace(self, pods: Mapping[str, ResidentPod]) -> None:
        """Makes `pods` all that is known."""
        with self._lock:
            for uid in self._pods.pods().keys() - pods.keys():
                self.remove(uid)
            self.put(pods.items())

    def complete(self) -> None:
        """Takes note that all pods that there are have been put."""
        self._pods.complete()

    def _put(self, uid: str, pod: ResidentPod) -> None:
        before = self._members.pop(uid, None)
        said = before.claim if before and before.object == pod.object else claim(pod.object)
        if said:
            self._members[uid] = _Member(pod.object, said)
            self._join(said)  # Guests learn what a group is before they learn of its pod.
        if said is None:
            pod = pod._replace(is_binding=False)  # Nobody is told, so nobody need be told anew.
        self._pods.put([(uid, pod._replace(group=said and said.key))])
        if before:
            self._leave(before.claim)

    def _join(self, said: Claim) -> None:
        claims = self._claims.setdefault(said.key, Counter())
        claims[said] += 1
        if claims[said] == 1:
            self._describe(said.key)

    def _leave(self, said: Claim) -> None:
        claims = self._claims[said.key]
        claims[said] -= 1
        if not claims[said]:
            del claims[said]
            if not claims:
                del self._claims[said.key]
            self._describe(said.key)

    # -- objects -----------------------------------------------------------------------------------

    def objects(self, source: GroupSource) -> GroupObjects:
        """Where the PodGroups go of one API."""
        return GroupObjects(self, source, self._on_objects)

    def put_object(self, key: GroupKey, found: GroupObject) -> None:
        """Takes a PodGroup, which is new or has changed."""
        with self._lock:
            self._objects[key] = found
            self._describe(key)

    def remove_object(self, key: GroupKey) -> None:
        """Forgets a PodGroup, known or not. Its pods stay of the group."""
        with self._lock:
            if self._objects.pop(key, None):
                self._describe(key)

    def keys(self, source: GroupSource) -> set[GroupKey]:
        """The groups of one API that have an object."""
        with self._lock:
            return {key for key in self._objects if key.source is source}

    def _describe(self, key: GroupKey) -> None:
        found, claims = self._objects.get(key), self._claims.get(key, ())
        if found or claims:
            self._pods.groups.put(key, described(found, claims))
        else:
            self._pods.groups.remove(key)

    # -- for people --------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self._claims.keys() | self._objects.keys())

    def entries(self) -> list[GroupEntry]:
        """All groups, each with its pods."""
        with self._lock:
            pods = self._pods.pods()
            members: dict[GroupKey, dict[str, ResidentPod]] = {}
            for uid, member in self._members.items():
                members.setdefault(member.claim.key, {})[uid] = pods[uid]
            return [self._entry(key, members.get(key, {})) for key in self._claims.keys() | self._objects.keys()]

    def _entry(self, key: GroupKey, pods: dict[str, ResidentPod]) -> GroupEntry:
        found, claims = self._objects.get(key), self._claims.get(key, ())
        said = {found.problem if found else "", *(each.problem for each in claims)}
        return GroupEntry(key, described(found, claims), found is not None, sorted(said - {""}), pods)


class GroupObjects:
    """The PodGroups of one API, by `namespace/name`, as a reflector brings them."""

    def __init__(self, groups: Groups, source: GroupSource, on_change: Callable[[], object]) -> None:
        self._groups = groups
        self._source = source
        self._on_change = on_change

    def replace(self, objects: Mapping[str, GroupObject]) -> None:
        """These are all there are."""
        for key in self._groups.keys(self._source):
            if str(key) not in objects:
                self._groups.remove_object(key)
        self.put(objects.items())

    def put(self, objects: Iterable[tuple[str, GroupObject]]) -> None:
        """Adds or replaces objects."""
        for name, found in objects:
            self._groups.put_object(self._key(name), found)
        self._on_change()

    def remove(self, name: str) -> None:
        """Forgets an object, known or not."""
        self._groups.remove_object(self._key(name))
        self._on_change()

    def _key(self, name: str) -> GroupKey:
        namespace, _, short = name.partition("/")
        return GroupKey(self._source, namespace, short)


def described(found: GroupObject | None, claims: Iterable[Claim]) -> Group:
    """What is known of a group by its object and its pods.

    The object counts where it says something, else the largest of what its pods say, and the oldest pod.
    """
    said = [*claims]
    priority = max((each.priority for each in said), default=0)
    timeout = max((each.timeout for each in said), default=0)
    created = min((each.created for each in said if each.created), default=0)
    if found is None:
        return Group(max((each.minimum for each in said), default=0), timeout, priority, created)
    priority = priority if found.priority is None else found.priority
    return Group(found.minimum, found.timeout or timeout, priority, found.created or created)
