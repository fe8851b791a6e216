/** Facets come as anyone wrote them: what is read of them is asked for gently. */

export type Record_ = Record<string, unknown>;

export function record(value: unknown): Record_ {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record_) : {};
}

export function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

export function records(value: unknown): Record_[] {
  return list(value).map(record);
}

export function text(value: unknown): string {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

export function number(value: unknown): number | null {
  const found = typeof value === "string" && value.trim() ? Number(value) : value;
  return typeof found === "number" && Number.isFinite(found) ? found : null;
}

/** What a facet says of itself, not of its entity. */
export function own(facet: Record_): Record_ {
  return Object.fromEntries(Object.entries(facet).filter(([name]) => !name.startsWith("_")));
}
