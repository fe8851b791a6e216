/** Tolerant access to facet values, which can have any shape. */

export type JsonObject = Record<string, unknown>;

export function asObject(value: unknown): JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonObject) : {};
}

export function asList(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

export function asObjects(value: unknown): JsonObject[] {
  return asList(value).map(asObject);
}

export function asText(value: unknown): string {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

export function asNumber(value: unknown): number | null {
  const number = typeof value === "string" && value.trim() ? Number(value) : value;
  return typeof number === "number" && Number.isFinite(number) ? number : null;
}

/** A facet without `_producer`, `_schemaURL` and the like. */
export function withoutMetadata(facet: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(facet).filter(([name]) => !name.startsWith("_")));
}
