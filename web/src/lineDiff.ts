/** Two texts line by line: what stayed, went and came, by their longest common subsequence. */

export interface DiffLine {
  sign: " " | "+" | "-";
  line: string;
}

// Beyond this the table of lengths would take too long to fill.
const MOST_LINES = 2000;

export function lineDiff(before: string, after: string): DiffLine[] {
  const old = before.split("\n").slice(0, MOST_LINES);
  const fresh = after.split("\n").slice(0, MOST_LINES);
  const lengths = common(old, fresh);
  const lines: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < fresh.length) {
    const [a, b] = [old[i], fresh[j]];
    if (a !== undefined && a === b) {
      lines.push({ sign: " ", line: a });
      i++;
      j++;
    } else if (b === undefined || (a !== undefined && (lengths[i + 1]?.[j] ?? 0) >= (lengths[i]?.[j + 1] ?? 0))) {
      lines.push({ sign: "-", line: a ?? "" });
      i++;
    } else {
      lines.push({ sign: "+", line: b });
      j++;
    }
  }
  return lines;
}

/** The length of the longest common subsequence of what follows each pair of places. */
function common(old: string[], fresh: string[]): number[][] {
  const lengths = Array.from({ length: old.length + 1 }, () => new Array<number>(fresh.length + 1).fill(0));
  for (let i = old.length - 1; i >= 0; i--) {
    const [row, next] = [lengths[i], lengths[i + 1]];
    if (!row || !next) continue;
    for (let j = fresh.length - 1; j >= 0; j--) {
      row[j] = old[i] === fresh[j] ? (next[j + 1] ?? 0) + 1 : Math.max(next[j] ?? 0, row[j + 1] ?? 0);
    }
  }
  return lengths;
}
