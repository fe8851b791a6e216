/** Every view is a URL. It stands in the hash, so that it works for a file on disk as well. */

import { at, type Port, type RunPage, type Scope } from "./page";

export type Tab = "run" | "graph" | "time";

export interface Route {
  tab: Tab;
  session: string | null;
  dataset: string | null;
  version: string | null;
  column: string | null;
  nth: number | null;
  /** The cell or the dataset whose details are open, as `cell:<execution>` or `state:<place>`. */
  open: string | null;
  scope: Scope | null;
  asText: boolean;
}

export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#/, "").split("?", 2);
  const [tab, session] = path.split("/").filter(Boolean);
  const values = new URLSearchParams(query);
  const nth = values.get("nth");
  const scope = values.get("scope");
  return {
    tab: tab === "graph" || tab === "time" ? tab : "run",
    session: session ? decodeURIComponent(session) : null,
    dataset: values.get("dataset"),
    version: values.get("version"),
    column: values.get("column"),
    nth: nth !== null && /^\d+$/.test(nth) ? Number(nth) : null,
    open: values.get("open"),
    scope: scope === "hop" || scope === "session" ? scope : null,
    asText: values.has("text"),
  };
}

export function formatRoute(route: Route): string {
  const values = new URLSearchParams();
  for (const name of ["dataset", "version", "column", "nth", "open", "scope"] as const) {
    const value = route[name];
    if (value !== null) values.set(name, `${value}`);
  }
  if (route.asText) values.set("text", "1");
  const session = route.session === null ? "" : `/${encodeURIComponent(route.session)}`;
  const query = values.size ? `?${values}` : "";
  return `#/${route.tab}${session}${query}`;
}

/** Go to the view that differs from this one by `change`. */
export function go(change: Partial<Route>): void {
  location.hash = formatRoute({ ...parseRoute(location.hash), ...change });
}

/** The column that a URL names: the last state of that name and version, unless it says which. */
export function routePort(page: RunPage, route: Route): Port | null {
  if (route.dataset === null || route.column === null) return null;
  const found = matching(page, route.dataset, route.version, route.column);
  const state = route.nth === null ? found.at(-1) : found[route.nth];
  return state === undefined ? null : { state, column: route.column };
}

/** The part of a URL that names a column. */
export function portRoute(page: RunPage, port: Port | null): Pick<Route, "dataset" | "version" | "column" | "nth"> {
  if (port === null || port.column === null) return { dataset: null, version: null, column: null, nth: null };
  const state = at(page.states, port.state);
  const found = matching(page, state.name, state.version, port.column);
  const nth = found.at(-1) === port.state ? null : found.indexOf(port.state);
  return { dataset: state.name, version: state.version, column: port.column, nth };
}

function matching(page: RunPage, name: string, version: string | null, column: string): number[] {
  return page.states.flatMap((state, i) => {
    const isNamed = state.name === name && (version === null || state.version === version);
    return isNamed && state.columns.some((field) => field.name === column) ? [i] : [];
  });
}
