import { itemAt } from "../src/api/client";
import type { Port, RunPage } from "../src/api/types";
import json from "./orders-page.json";

/** The document of the sample run, as encoded by the server. */
export const page = json as unknown as RunPage;

/** The column `label@version.name`, or `label.name` of a file. */
export function column(text: string): Port {
  const [, label, version, name] = /^(.+?)(?:@(\d+))?\.(\w+)$/.exec(text) ?? [];
  const state = page.states.findLastIndex((s) => s.label === label && (version === undefined || s.version === version));
  if (state < 0 || name === undefined) throw new Error(`no ${text}`);
  return { state, column: name };
}

function nameOf(key: string): string {
  const [state = "", name] = key.split(/\/(.*)/s, 2);
  const { label, version } = itemAt(page.states, Number(state));
  return `${label}${version === null ? "" : `@${version}`}.${name ?? "*"}`;
}

export function names(keys: Iterable<string>): string[] {
  return [...keys].map(nameOf).sort();
}
