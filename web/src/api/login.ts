/** Login with an API key. The session is in a cookie that scripts cannot read. */

import { useSyncExternalStore } from "react";

let isRequired = false;
const listeners = new Set<() => void>();

/** Show the login form: the server has responded 401. */
export function requireLogin(): void {
  isRequired = true;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useLoginRequired(): boolean {
  return useSyncExternalStore(subscribe, () => isRequired);
}

/** Whether there is a session. */
export function hasSession(cookies: string = document.cookie): boolean {
  return /(^|; )clew-login=1/.test(cookies);
}

/** Return null if the key is accepted, else the reason. */
export async function logIn(key: string): Promise<string | null> {
  const response = await post("api/login", { key }).catch(() => null);
  if (response === null) return "The server is not responding.";
  if (response.ok) return null;
  const problem = (await response.json().catch(() => ({}))) as { title?: string };
  return problem.title ?? `The server responded with status ${response.status}.`;
}

export async function logOut(): Promise<void> {
  await post("api/logout", {}).catch(() => null);
}

function post(path: string, body: object): Promise<Response> {
  return fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json" },
    body: JSON.stringify(body),
  });
}
