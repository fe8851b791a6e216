import styles from "./ErrorBox.module.css";

interface Props {
  message: string;
  task?: string;
  stackTrace?: string;
}

export function ErrorBox({ message, task = "", stackTrace = "" }: Props) {
  return (
    <div className={styles.box} data-testid="error">
      <b>{message}</b>
      {task && <code>{task}</code>}
      {stackTrace && <pre tabIndex={0}>{stackTrace}</pre>}
    </div>
  );
}
