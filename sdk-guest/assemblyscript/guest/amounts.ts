import { Amount } from "./amount";
import { QuantityMap } from "./maps";

/** Amounts by the names of their resources. */
export class Amounts {
  private readonly amounts: Map<string, Amount> = new Map<string, Amount>();

  static read(quantities: QuantityMap): Amounts {
    const amounts = new Amounts();
    for (let i = 0, names = quantities.keys(), values = quantities.values(); i < names.length; i++) {
      amounts.set(names[i], values[i].amount);
    }
    return amounts;
  }

  get isEmpty(): bool {
    return this.amounts.size == 0;
  }

  get names(): string[] {
    return this.amounts.keys();
  }

  has(name: string): bool {
    return this.amounts.has(name);
  }

  /** 0 where it is absent. */
  get(name: string): Amount {
    return this.amounts.has(name) ? this.amounts.get(name) : Amount.ZERO;
  }

  set(name: string, amount: Amount): void {
    this.amounts.set(name, amount);
  }

  copy(): Amounts {
    const copy = new Amounts();
    copy.add(this);
    return copy;
  }

  add(other: Amounts): void {
    for (let i = 0, names = other.names; i < names.length; i++) {
      this.set(names[i], this.has(names[i]) ? this.get(names[i]).add(other.get(names[i])) : other.get(names[i]));
    }
  }

  /** Adds those of `other` that it has already. */
  addKnown(other: Amounts): void {
    for (let i = 0, names = this.names; i < names.length; i++) {
      if (other.has(names[i])) this.set(names[i], this.get(names[i]).add(other.get(names[i])));
    }
  }

  /** Takes those of `other` that are larger, or that it lacks. */
  raise(other: Amounts): void {
    for (let i = 0, names = other.names; i < names.length; i++) {
      const amount = other.get(names[i]);
      if (!this.has(names[i]) || amount.isMoreThan(this.get(names[i]))) this.set(names[i], amount);
    }
  }

  /** Takes those of `other` that it lacks. */
  fill(other: Amounts): void {
    for (let i = 0, names = other.names; i < names.length; i++) {
      if (!this.has(names[i])) this.set(names[i], other.get(names[i]));
    }
  }
}
