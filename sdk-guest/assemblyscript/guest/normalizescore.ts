import { begunGuest } from "./guest";

export function normalizescore(): i32 {
  return begunGuest().callNormalizescore();
}
