/** Threads between boxes: resting ones, and in their place lit ones from column to column. */

import type { Strength } from "./lineage";

export interface BoxThread {
  key: string;
  source: string;
  target: string;
  d: string;
  strength: Strength | null;
  isGuessed: boolean;
}

export class Weave {
  readonly #threads = new Map<string, BoxThread>();

  rest(source: string, target: string, d: string): void {
    const key = `${source}>${target}`;
    this.#threads.set(key, { key, source, target, d, strength: null, isGuessed: false });
  }

  /** Of several along the same curve the strongest is seen. */
  light(source: string, target: string, d: string, strength: Strength, isGuessed: boolean): void {
    this.#threads.delete(`${source}>${target}`);
    const known = this.#threads.get(d);
    if (known && (known.strength !== "indirect" || strength !== "direct")) return;
    this.#threads.set(d, { key: d, source, target, d, strength, isGuessed });
  }

  threads(): BoxThread[] {
    return [...this.#threads.values()];
  }
}
