import type { Series } from "../api/types";
import { formatCount, formatDate } from "../format";
import { urlFor } from "../router";
import styles from "./LineChart.module.css";

const WIDTH = 320;
const HEIGHT = 64;

/** A metric over time; each point links to its run. */
export function LineChart({ series }: { series: Series }) {
  const values = series.points.map((point) => point.value);
  const [min, max] = [Math.min(...values), Math.max(...values)];
  const [first, last] = [series.points[0], series.points.at(-1)];
  const from = Date.parse(first?.at ?? "");
  const length = Math.max(1, Date.parse(last?.at ?? "") - from);
  const points = series.points.map((point) => ({
    ...point,
    label: `${formatCount(point.value)}, ${formatDate(point.at)}`,
    x: 6 + ((Date.parse(point.at) - from) / length) * (WIDTH - 12),
    y: HEIGHT - 8 - ((point.value - min) / (max - min || 1)) * (HEIGHT - 16),
  }));
  return (
    <figure className={styles.chart} aria-label={`${series.name} over time`}>
      <figcaption>
        <b>{series.name}</b> {formatCount(last?.value ?? 0)}
        <small>
          {min === max ? "constant" : `${formatCount(min)} to ${formatCount(max)}`} · {series.points.length} runs
        </small>
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`}>
        <title>{`${series.name} over time`}</title>
        <polyline points={points.map(({ x, y }) => `${x},${y}`).join(" ")} />
        {points.map(({ x, y, at, label, runUuid }) => (
          <a key={at} href={runUuid ? urlFor("job-run", {}, runUuid) : undefined} tabIndex={-1} aria-label={label}>
            <circle cx={x} cy={y} r="2.5">
              <title>{label}</title>
            </circle>
          </a>
        ))}
      </svg>
    </figure>
  );
}
