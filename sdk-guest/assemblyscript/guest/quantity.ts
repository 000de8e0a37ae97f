import { Amount } from "./amount";
import { fail } from "./failure";
import { Message } from "./protobuf";

/** An amount of a resource as Kubernetes writes it, such as `1500m` or `64Gi`; 0 where it is absent. */
export class Quantity extends Message {
  get text(): string {
    return this.textOf(1);
  }

  /** Rounded up to a whole number, away from 0; beyond 64 bits the largest one. */
  get value(): i64 {
    const amount = this.magnitude();
    return this.isNegative ? -amount.value : amount.value;
  }

  /** 1,000 times as much, rounded in the same way. */
  get milliValue(): i64 {
    const amount = this.magnitude();
    return this.isNegative ? -amount.milliValue : amount.milliValue;
  }

  /** The value to be added up. Resources have no negative one. */
  get amount(): Amount {
    const amount = this.magnitude();
    if (!this.isNegative || amount.isZero) return amount;
    fail("negative quantity");
    return Amount.ZERO;
  }

  private get isNegative(): bool {
    return this.text.startsWith("-");
  }

  /** 0 where it is absent. One that is malformed fails the call. */
  private magnitude(): Amount {
    if (this.isEmpty) return Amount.ZERO;
    const amount = parse(this.text);
    if (amount !== null) return amount;
    fail("malformed quantity");
    return Amount.ZERO;
  }
}

/** The magnitude of a number; null if it is none. */
function parse(text: string): Amount | null {
  const begin = text.startsWith("-") || text.startsWith("+") ? 1 : 0;
  const point = digitsEnd(text, begin);
  const isFraction = point < text.length && text.charCodeAt(point) == 0x2e;
  const suffix = isFraction ? digitsEnd(text, point + 1) : point;
  const digits = text.substring(begin, point) + (isFraction ? text.substring(point + 1, suffix) : "");
  if (digits.length == 0) return null;
  if (!readSuffix(text.substring(suffix))) return null;
  return product(digits, point - begin + powerOfTen, powerOfTwo);
}

/** Where the digits end that begin there. */
function digitsEnd(text: string, begin: i32): i32 {
  while (begin < text.length && isDigit(text.charCodeAt(begin))) begin++;
  return begin;
}

function isDigit(unit: i32): bool {
  return unit >= 0x30 && unit <= 0x39;
}

/**
 * The number with those digits and the point behind the first `point` of them, times 2^`power`, which is 2^60 at most,
 * and 2^0 where the point was moved.
 */
function product(digits: string, point: i64, power: u64): Amount {
  const count = digits.length;
  const above = <i32>max<i64>(0, min<i64>(point, count));
  let units: u64 = 0;
  for (let i = 0; i < above; i++) units = Amount.plus(Amount.times(units, 10), digits.charCodeAt(i) - 0x30);
  for (let i: i64 = count; i < point && units != 0 && units != u64.MAX_VALUE; i++) units = Amount.times(units, 10);

  // From the last digit on, as on paper: what is carried over the point is whole. Where there are zeros between the
  // point and the digits, nothing is carried that far.
  let place = <i64>count - point;
  let carry: u64 = 0;
  let nanos: u32 = 0;
  let isExact = true;
  for (let i = count - 1; i >= above; i--, place--) {
    const tenths = ((<u64>(digits.charCodeAt(i) - 0x30)) << power) + carry;
    carry = tenths / 10;
    const digit = <u32>(tenths % 10);
    if (place >= 1 && place <= 9) {
      let weight: u32 = 1;
      for (let i = place; i < 9; i++) weight *= 10;
      nanos += digit * weight;
    } else if (digit != 0) isExact = false;
  }
  return new Amount(Amount.plus(Amount.times(units, (<u64>1) << power), carry), nanos + (isExact ? 0 : 1));
}

/** What the suffix that was read last multiplies by. */
let powerOfTen: i64 = 0;
let powerOfTwo: u64 = 0;

const DECIMAL = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/** Whether it is a suffix, which it leaves in `powerOfTen` and `powerOfTwo`. */
function readSuffix(suffix: string): bool {
  powerOfTen = 0;
  powerOfTwo = 0;
  const decimal = DECIMAL.indexOf(suffix);
  if (decimal >= 0) {
    powerOfTen = 3 * (decimal - 3);
    return true;
  }
  const binary = BINARY.indexOf(suffix);
  if (binary >= 0) {
    powerOfTwo = 10 * binary;
    return true;
  }
  return (suffix.startsWith("e") || suffix.startsWith("E")) && readExponent(suffix);
}

/** An exponent that is cut off at a billion is beyond everything all the same. */
function readExponent(suffix: string): bool {
  const isNegative = suffix.charCodeAt(1) == 0x2d;
  const begin = isNegative || suffix.charCodeAt(1) == 0x2b ? 2 : 1;
  if (begin >= suffix.length || digitsEnd(suffix, begin) != suffix.length) return false;
  let exponent: i64 = 0;
  for (let i = begin; i < suffix.length; i++) {
    exponent = min<i64>(exponent * 10 + suffix.charCodeAt(i) - 0x30, 1_000_000_000);
  }
  powerOfTen = isNegative ? -exponent : exponent;
  return true;
}
