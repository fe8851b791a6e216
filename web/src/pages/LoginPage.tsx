import { type FormEvent, useState } from "react";
import { logIn } from "../api/login";
import controls from "../components/controls.module.css";
import { useTitle } from "../components/useTitle";
import styles from "./LoginPage.module.css";

/** Ask for an API key; then load the page again. */
export function LoginPage() {
  useTitle("Log in");
  const [key, setKey] = useState("");
  const [error, setError] = useState<string | null>(null);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const reason = await logIn(key.trim());
    setError(reason);
    if (reason === null) location.reload();
  };
  return (
    <form className={styles.form} onSubmit={submit}>
      <h1>Log in</h1>
      <label htmlFor="api-key">API key</label>
      <input
        id="api-key"
        type="password"
        autoComplete="current-password"
        required
        value={key}
        onChange={(event) => setKey(event.target.value)}
      />
      {error !== null && <p role="alert">{error}</p>}
      <button type="submit" className={controls.button}>
        Log in
      </button>
      <p>
        An administrator creates a key with <code>clew keys add NAME --scope read</code>.
      </p>
    </form>
  );
}
