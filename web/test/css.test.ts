import { expect, test } from "vitest";

const SOURCES = import.meta.glob<string>("../src/**/*.tsx", { query: "?raw", import: "default", eager: true });
const MODULES = import.meta.glob<Record<string, string>>("../src/**/*.module.css", { import: "default", eager: true });

const KEYFRAMES = ["breathe"];

/** Class names that components use of each CSS module; "*" if they are computed. */
function usedClasses(): Map<string, Set<string>> {
  const used = new Map<string, Set<string>>();
  for (const [file, source] of Object.entries(SOURCES)) {
    for (const [, name = "", path = ""] of source.matchAll(/import (\w+) from "([^"]+\.module\.css)"/g)) {
      const module = new URL(path, new URL(file, "file:///test/")).pathname.replace(/^\//, "../");
      const classes = used.get(module) ?? new Set();
      for (const [, own = ""] of source.matchAll(new RegExp(`(?<![./\\w])${name}\\.(?!module)(\\w+)`, "g")))
        classes.add(own);
      if (source.includes(`${name}[`)) classes.add("*");
      used.set(module, classes);
    }
  }
  return used;
}

test.each(Object.keys(MODULES))("%s defines exactly the classes that components use", (module) => {
  const defined = new Set(Object.keys(MODULES[module] ?? {}).filter((name) => !KEYFRAMES.includes(name)));
  const used = usedClasses().get(module) ?? new Set();
  const isComputed = used.delete("*");
  expect([...used].filter((name) => !defined.has(name))).toEqual([]);
  if (!isComputed) expect([...defined].filter((name) => !used.has(name))).toEqual([]);
});
