/** A small library for scheduler plugins in AssemblyScript. README.md shows how a plugin is written with it. */

import * as config from "./config";
import * as groups from "./known_groups";
import * as klog from "./klog";

export { config, groups, klog };
export { Candidates } from "./candidates";
export { now } from "./clock";
export { currentNodeName, filteredNodes, node, nodeStatuses, NodeScore, rejectWaitingPod } from "./cluster";
export { ClusterEvent, EventResource } from "./cluster_event";
export { Event, Reference } from "./event";
export { fail } from "./failure";
export { Group, GroupKey, Member, MemberState } from "./group";
export { register } from "./guest";
export { TextMap, QuantityMap } from "./maps";
export * from "./objects";
export { NodeInfo, PodInfo } from "./node_info";
export { Plugin } from "./plugin";
export { PluginWithPods } from "./plugin_with_pods";
export { Message } from "./protobuf";
export { Quantity } from "./quantity";
export { Requests } from "./requests";
export { Residents } from "./residents";
export { Resources } from "./resources";
export { Code, Permit, PostFilter, PreFilter, Status } from "./status";
export { abort } from "./fault";
