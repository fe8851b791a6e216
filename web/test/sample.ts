import { portKey } from "../src/lineage";
import { at, type Port, type RunPage } from "../src/page";
import json from "./orders-page.json";

/** The page of the sample run, as the server encodes it. */
export const page = json as unknown as RunPage;

/** The port of `label@version.column`, or of `label.column` for a file. */
export function port(name: string): Port {
  const [, label, version, column] = /^(.+?)(?:@(\d+))?\.(\w+)$/.exec(name) ?? [];
  const state = page.states.findLastIndex((s) => s.label === label && (version === undefined || s.version === version));
  if (state < 0 || column === undefined) throw new Error(`no ${name}`);
  return { state, column };
}

export function nameOf(key: string): string {
  const [state = "", column] = key.split(/\/(.*)/s, 2);
  const { label, version } = at(page.states, Number(state));
  return `${label}${version === null ? "" : `@${version}`}.${column ?? "*"}`;
}

export function names(ports: Iterable<string>): string[] {
  return [...ports].map(nameOf).sort();
}

export { portKey };
