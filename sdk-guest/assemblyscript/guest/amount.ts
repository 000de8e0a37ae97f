const BILLION: u32 = 1_000_000_000;

/**
 * An amount of a resource, exact to a billionth as a Quantity of Kubernetes, so that sums are rounded once. It is not
 * negative; beyond 64 bits it is the largest one.
 */
export class Amount {
  private readonly units: u64;
  static readonly ZERO: Amount = new Amount(0, 0);

  /** Below a billion. */
  private readonly nanos: u32;

  constructor(units: u64, nanos: u32) {
    const carry = nanos / BILLION;
    this.units = min<u64>(Amount.plus(units, carry), i64.MAX_VALUE);
    this.nanos = nanos - carry * BILLION;
  }

  /** Rounded up to a whole number. */
  get value(): i64 {
    return <i64>min<u64>(this.units + (this.nanos > 0 ? 1 : 0), i64.MAX_VALUE);
  }

  /** 1,000 times as much, rounded up to a whole number. */
  get milliValue(): i64 {
    const units = min<u64>(Amount.times(this.units, 1000), i64.MAX_VALUE);
    return <i64>min<u64>(units + (this.nanos + 999_999) / 1_000_000, i64.MAX_VALUE);
  }

  get isZero(): bool {
    return this.units == 0 && this.nanos == 0;
  }

  add(other: Amount): Amount {
    return new Amount(this.units + other.units, this.nanos + other.nanos);
  }

  isMoreThan(other: Amount): bool {
    return this.units > other.units || (this.units == other.units && this.nanos > other.nanos);
  }

  /** The sum, or the largest number. */
  static plus(one: u64, other: u64): u64 {
    return one > u64.MAX_VALUE - other ? u64.MAX_VALUE : one + other;
  }

  /** The product, or the largest number. */
  static times(one: u64, other: u64): u64 {
    return other != 0 && one > u64.MAX_VALUE / other ? u64.MAX_VALUE : one * other;
  }
}
