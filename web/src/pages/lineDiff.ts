/** Line diff of two texts by their longest common subsequence. */

export interface DiffLine {
  sign: " " | "+" | "-";
  line: string;
}

// The table of lengths is quadratic in the number of lines.
const MAX_LINES = 2000;

export function lineDiff(before: string, after: string): DiffLine[] {
  const oldLines = before.split("\n").slice(0, MAX_LINES);
  const newLines = after.split("\n").slice(0, MAX_LINES);
  const lengths = commonLengths(oldLines, newLines);
  const lines: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < oldLines.length || j < newLines.length) {
    const [a, b] = [oldLines[i], newLines[j]];
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

/** The length of the longest common subsequence of the lines after each pair of positions. */
function commonLengths(oldLines: string[], newLines: string[]): number[][] {
  const lengths = Array.from({ length: oldLines.length + 1 }, () => new Array<number>(newLines.length + 1).fill(0));
  for (let i = oldLines.length - 1; i >= 0; i--) {
    const [row, next] = [lengths[i], lengths[i + 1]];
    if (!row || !next) continue;
    for (let j = newLines.length - 1; j >= 0; j--) {
      row[j] = oldLines[i] === newLines[j] ? (next[j + 1] ?? 0) + 1 : Math.max(next[j] ?? 0, row[j + 1] ?? 0);
    }
  }
  return lengths;
}
