import { useState } from "react";
import controls from "./controls.module.css";

export function CopyButton({ text }: { text: string }) {
  const [label, setLabel] = useState("Copy");
  const copy = () => {
    navigator.clipboard.writeText(text).then(
      () => setLabel("Copied"),
      () => setLabel("Copy failed"),
    );
  };
  return (
    <button type="button" className={controls.quiet} onClick={copy}>
      {label}
    </button>
  );
}
