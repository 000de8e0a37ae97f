/**
 * What the containers of a pod ask for together: `aggregateContainerResourcesByFn` of k8s.io/component-helpers/resource.
 */

import { Amounts } from "./amounts";
import { Container, ContainerStatus, PodSpec, PodStatus } from "./objects";
import { Message } from "./protobuf";

/** What a container asks for, what the node has set aside for it, and what it has. */
export class Claims {
  constructor(
    readonly isSidecar: bool,
    readonly spec: Amounts,
    readonly allocated: Amounts,
    readonly actuated: Amounts,
  ) {}
}

/** Which of them is asked for. */
export type Ask = (claims: Claims) => Amounts;

/** The containers of a pod. */
export class Containers {
  private readonly main: Claims[];
  private readonly init: Claims[];

  /**
   * The containers of a PodSpec and a PodStatus. If a resize is infeasible, the spec is not taken for the status.
   */
  constructor(spec: PodSpec, status: PodStatus, isInfeasible: bool) {
    const statuses = new Map<string, ContainerStatus>();
    addFirst(statuses, status.containerStatuses);
    addFirst(statuses, status.initContainerStatuses);
    this.main = claimsOf(spec.containers, statuses, isInfeasible);
    this.init = claimsOf(spec.initContainers, statuses, isInfeasible);
  }

  /**
   * What is needed at the same time: by the containers and the sidecars, or by an init container with the sidecars before
   * it. `missing` is for each one that does not name these resources.
   */
  sum(missing: Amounts, ask: Ask): Amounts {
    const sum = new Amounts();
    for (let i = 0; i < this.main.length; i++) sum.add(filled(ask(this.main[i]), missing));
    const sidecars = new Amounts();
    const peak = new Amounts();
    for (let i = 0; i < this.init.length; i++) {
      const own = filled(ask(this.init[i]), missing);
      const now = own.copy();
      now.addKnown(sidecars);
      peak.raise(now);
      if (!this.init[i].isSidecar) continue;
      sum.add(own);
      sidecars.add(own);
    }
    sum.raise(peak);
    return sum;
  }
}

function filled(amounts: Amounts, missing: Amounts): Amounts {
  const copy = amounts.copy();
  copy.fill(missing);
  return copy;
}

/** The first status of each container counts. */
function addFirst(statuses: Map<string, ContainerStatus>, more: ContainerStatus[]): void {
  for (let i = 0; i < more.length; i++) {
    const name = more[i].name;
    if (!statuses.has(name)) statuses.set(name, more[i]);
  }
}

function claimsOf(containers: Container[], statuses: Map<string, ContainerStatus>, isInfeasible: bool): Claims[] {
  const claims: Claims[] = [];
  for (let i = 0; i < containers.length; i++) {
    const container = containers[i];
    const name = container.name;
    const status = statuses.has(name) ? statuses.get(name) : Message.empty<ContainerStatus>();
    const spec = Amounts.read(container.resources.requests);
    let allocated = Amounts.read(status.allocatedResources);
    if (allocated.isEmpty && !isInfeasible) allocated = spec;
    let actuated = Amounts.read(status.resources.requests);
    if (actuated.isEmpty) actuated = allocated;
    claims.push(new Claims(container.restartPolicy == "Always", spec, allocated, actuated));
  }
  return claims;
}
