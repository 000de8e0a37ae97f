/**
 * The plugin's configuration: the host's `guestConfig`, a JSON object. A plugin asks for each key, with its default,
 * when it is made. A key that it has not asked for, one that is given twice and a value of the wrong type are faults that
 * tell what was expected, also in a module without messages: who writes the configuration has no other.
 */

import { readText } from "./answer";
import * as host from "./host";
import { Kind, Value, parse } from "./json";
import { print } from "./stderr";

/** Characters of an unknown key that are shown. */
const SHOWN = 64;

let given: Value | null = null;
let isRead = false;

/** The keys that were asked for, with their types as people are told of them. */
const known: string[] = [];
const types: string[] = [];

/** The configuration as text, whatever its format. */
export function getText(): string {
  return readText(host.getConfig);
}

export function getBool(key: string, byDefault: bool): bool {
  const value = ask(key, "true or false");
  if (value === null) return byDefault;
  if (value.kind != Kind.Bool) fail(key);
  return value.text == "true";
}

export function getInteger(key: string, byDefault: i64): i64 {
  const value = ask(key, "an integer");
  if (value === null) return byDefault;
  if (!value.isInteger) fail(key);
  return value.integer;
}

export function getString(key: string, byDefault: string): string {
  const value = ask(key, "a string");
  if (value === null) return byDefault;
  if (value.kind != Kind.String) fail(key);
  return value.text;
}

export function getStrings(key: string, byDefault: string[]): string[] {
  const value = ask(key, "a list of strings");
  if (value === null) return byDefault;
  const texts: string[] = [];
  if (value.kind != Kind.List) fail(key);
  for (let i = 0; i < value.values.length; i++) {
    if (value.values[i].kind != Kind.String) fail(key);
    texts.push(value.values[i].text);
  }
  return texts;
}

/** Looks for keys that the plugin has not asked for, if it has asked for any. */
export function check(): void {
  if (known.length == 0) return;
  const config = object();
  for (let i = 0; i < config.keys.length; i++) {
    const key = config.keys[i];
    if (!known.includes(key)) {
      refuse(': unknown key "' + key.substring(0, SHOWN) + '"; ' + expected());
    }
    if (config.keys.indexOf(key) != i) refuse(': "' + key + '" is given twice');
  }
}

function ask(key: string, type: string): Value | null {
  known.push(key);
  types.push(type);
  const config = object();
  const at = config.keys.indexOf(key);
  return at < 0 ? null : config.values[at];
}

/** No text stands for the defaults. */
function object(): Value {
  if (!isRead) {
    const config = getText();
    given = config.trim().length == 0 ? new Value(Kind.Object) : parse(config);
    isRead = true;
  }
  const config = given;
  if (config === null || config.kind != Kind.Object) refuse(" is no JSON object; " + expected());
  return config!;
}

function fail(key: string): void {
  refuse(': "' + key + '" must be ' + types[known.indexOf(key)]);
}

function refuse(problem: string): void {
  print("guestConfig" + problem);
  unreachable();
}

function expected(): string {
  let text = "expected a JSON object with ";
  for (let i = 0; i < known.length; i++) text += (i == 0 ? "" : ", ") + '"' + known[i] + '" (' + types[i] + ")";
  return text;
}
