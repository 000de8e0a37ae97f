import { guestAfterPrefilter } from "./guest";

export function bindingannotations(): i64 {
  return guestAfterPrefilter().callBindingannotations();
}
