import { begunGuest } from "./guest";

export function score(): i64 {
  return begunGuest().callScore();
}

export function scorenodes(count: i32): i32 {
  return begunGuest().callScoreNodes(count);
}
