/**
 * What a pod asks for, as kube-scheduler counts it: `PodRequests` of k8s.io/component-helpers/resource, called as
 * `CalculateResource` of pkg/scheduler/framework/types.go does, in Kubernetes 1.37 with its default features.
 */

import { Amount } from "./amount";
import { Amounts } from "./amounts";
import { Claims, Containers } from "./containers";
import { Pod, PodStatus } from "./objects";
import { Resources } from "./resources";

/** The number of the field `resources` in PodStatus. */
const RESOURCES = 20;

/** What one pod asks for, or all pods of a node do. */
export class Requests {
  resources: Resources = new Resources();
  /** The same with 100 millicores for each container that asks for no cpu. The scheduler's scores count it. */
  nonZeroMilliCPU: i64 = 0;
  /** The same with 200 MiB for each container that asks for no memory, in bytes. */
  nonZeroMemory: i64 = 0;

  /** Those of a pod. An amount that cannot be read, or is negative, fails the call. */
  static of(pod: Pod): Requests {
    const parts = Parts.read(pod);
    const amounts = parts.sum(new Amounts());
    const nonZero = parts.sum(parts.missing(amounts));
    const requests = new Requests();
    requests.resources = Resources.of(amounts);
    requests.resources.pods = 1;
    requests.nonZeroMilliCPU = nonZero.get("cpu").milliValue;
    requests.nonZeroMemory = nonZero.get("memory").value;
    return requests;
  }

  /** Adds `times` as much as the other has. */
  add(times: i64, other: Requests): void {
    this.resources.add(times, other.resources);
    this.nonZeroMilliCPU += times * other.nonZeroMilliCPU;
    this.nonZeroMemory += times * other.nonZeroMemory;
  }
}

/** All of a pod that counts. */
class Parts {
  constructor(
    private readonly containers: Containers,
    private readonly overhead: Amounts,
    /** What takes the place of the containers' sum, by resource. */
    private readonly whole: Amounts,
    /** Whether the pod's spec asks for anything as a whole. */
    private readonly asksAsWhole: bool,
    /** What the pod has got as a whole, by its status; empty if that is not known. */
    private readonly granted: Amounts,
    /** Whether the spec is more than the node will ever give, so that the status alone counts. */
    private readonly isInfeasible: bool,
  ) {}

  static read(pod: Pod): Parts {
    const spec = pod.spec;
    const status = pod.status;
    const isInfeasible = isResizeInfeasible(status);
    const containers = new Containers(spec, status, isInfeasible);
    const overhead = Amounts.read(spec.overhead);
    const wished = Amounts.read(spec.resources.requests);
    const allocated = Amounts.read(status.allocatedResources);
    const actuated = Amounts.read(status.resources.requests);
    const asksAsWhole = wished.names.some((name) => isForPods(name));
    const whole = new Amounts();
    if (asksAsWhole) {
      const isResized = status.has(RESOURCES);
      if (!isResized || !isInfeasible) whole.raise(wished);
      if (isResized) {
        whole.raise(actuated);
        whole.raise(allocated);
      }
    }
    const granted = new Amounts();
    if (!allocated.isEmpty && !actuated.isEmpty) {
      granted.raise(actuated);
      granted.raise(allocated);
    }
    return new Parts(containers, overhead, whole, asksAsWhole, granted, isInfeasible);
  }

  /** What the pod asks for, with `missing` for each container that does not name these resources. */
  sum(missing: Amounts): Amounts {
    const sum = this.granted.copy();
    if (sum.isEmpty) {
      sum.raise(this.containers.sum(missing, (claims: Claims) => claims.actuated));
      sum.raise(this.containers.sum(missing, (claims: Claims) => claims.allocated));
    }
    if (!this.isInfeasible) sum.raise(this.containers.sum(missing, (claims: Claims) => claims.spec));
    for (let i = 0, names = this.whole.names; i < names.length; i++) {
      if (isForPods(names[i])) sum.set(names[i], this.whole.get(names[i]));
    }
    sum.add(this.overhead);
    return sum;
  }

  /**
   * What counts for a container that does not ask: nothing of what the pod as a whole has its say in
   * (`getNonMissingContainerRequests`). The amounts are those of pkg/scheduler/util/pod_resources.go.
   */
  missing(sum: Amounts): Amounts {
    const missing = new Amounts();
    if (!this.asksAsWhole || !sum.has("cpu")) missing.set("cpu", new Amount(0, 100_000_000));
    if (!this.asksAsWhole || !sum.has("memory")) missing.set("memory", new Amount(200 << 20, 0));
    return missing;
  }
}

/** Whether the first condition about a resize says that the node will never do (`IsPodResizeInfeasible`). */
function isResizeInfeasible(status: PodStatus): bool {
  for (let i = 0, conditions = status.conditions; i < conditions.length; i++) {
    if (conditions[i].type == "PodResizePending") return conditions[i].reason == "Infeasible";
  }
  return false;
}

/** Whether a pod may ask for the resource as a whole (`IsSupportedPodLevelResource`). */
function isForPods(name: string): bool {
  return name == "cpu" || name == "memory" || name.startsWith("hugepages-");
}
