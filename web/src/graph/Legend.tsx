import styles from "./Legend.module.css";

export function Legend() {
  return (
    <footer className={styles.legend}>
      <span>
        <Line /> direct (values)
      </span>
      <span>
        <Line dash="5 4" /> indirect (filter, join, group, sort)
      </span>
      <span>
        <Line dash="1.5 4" /> inferred
      </span>
      <span className={styles.keys}>
        <kbd>←</kbd> <kbd>→</kbd> upstream, downstream column · <kbd>↑</kbd> <kbd>↓</kbd> next column · <kbd>Enter</kbd>{" "}
        select
      </span>
    </footer>
  );
}

function Line({ dash }: { dash?: string }) {
  return (
    <svg width="26" height="8" aria-hidden="true">
      <path d="M1 4H25" stroke="var(--accent)" strokeWidth="2" strokeLinecap="round" strokeDasharray={dash} />
    </svg>
  );
}
