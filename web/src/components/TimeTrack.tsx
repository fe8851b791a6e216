import styles from "./TimeTrack.module.css";

interface Props {
  /** Start and length of the bar as shares of the track; without a start the track is empty. */
  start?: number;
  length?: number;
  isFailed?: boolean;
  isThin?: boolean;
}

/** A bar on a time axis. */
export function TimeTrack({ start, length = 0, isFailed = false, isThin = false }: Props) {
  return (
    <span className={styles.track} data-thin={isThin || undefined}>
      {start !== undefined && (
        <i
          data-failed={isFailed || undefined}
          style={{
            insetInlineStart: `${Math.min(99.5, start * 100)}%`,
            inlineSize: `${Math.max(0.4, length * 100)}%`,
          }}
        />
      )}
    </span>
  );
}
