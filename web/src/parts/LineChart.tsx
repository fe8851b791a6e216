import type { Series } from "../documents";
import { href } from "../router";
import { count, moment } from "../words";

const WIDTH = 320;
const HEIGHT = 64;

/** One figure over time: each point is a run, and leads to it. */
export function LineChart({ series }: { series: Series }) {
  const values = series.points.map((point) => point.value);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const [first, last] = [series.points[0], series.points.at(-1)];
  const from = Date.parse(first?.at ?? "");
  const span = Math.max(1, Date.parse(last?.at ?? "") - from);
  const placed = series.points.map((point) => ({
    ...point,
    x: 6 + ((Date.parse(point.at) - from) / span) * (WIDTH - 12),
    y: HEIGHT - 8 - ((point.value - low) / (high - low || 1)) * (HEIGHT - 16),
  }));
  return (
    <figure className="line-chart" aria-label={`${series.name} over time`}>
      <figcaption>
        <b>{series.name}</b> {count(last?.value ?? 0)}
        <small>
          {low === high ? "always the same" : `${count(low)} to ${count(high)}`} · {series.points.length} writes
        </small>
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`}>
        <title>{`${series.name} over time`}</title>
        <polyline points={placed.map(({ x, y }) => `${x},${y}`).join(" ")} />
        {placed.map(({ x, y, at, value, runUuid }) => (
          <a
            key={at}
            href={runUuid ? href("job-run", {}, runUuid) : undefined}
            tabIndex={-1}
            aria-label={`${count(value)}, ${moment(at)}`}
          >
            <circle cx={x} cy={y} r="2.5">
              <title>{`${count(value)}, ${moment(at)}`}</title>
            </circle>
          </a>
        ))}
      </svg>
    </figure>
  );
}
