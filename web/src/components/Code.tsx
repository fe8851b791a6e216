/** Syntax highlighting for SQL and Python with one regular expression each. */

import styles from "./Code.module.css";

export type Language = "sql" | "python" | "other";

const SQL_KEYWORDS =
  "select|from|where|join|left|right|full|inner|outer|cross|on|using|group|by|order|having|limit|offset|union|all|distinct|as|with|insert|into|values|update|set|delete|create|table|view|replace|temporary|if|exists|not|null|and|or|in|is|like|between|case|when|then|else|end|over|partition|rows|range|asc|desc|merge|matched|overwrite|true|false|interval|lateral|unnest|cast|coalesce";
const PYTHON_KEYWORDS =
  "def|class|return|if|elif|else|for|while|in|not|and|or|is|import|from|as|with|lambda|try|except|finally|raise|yield|async|await|pass|break|continue|None|True|False|del|global|nonlocal|assert|match|case";

const RULES: Record<Language, RegExp | null> = {
  sql: new RegExp(
    `(--[^\\n]*|/\\*[\\s\\S]*?\\*/)|('(?:[^']|'')*'|"[^"]*"|\`[^\`]*\`)|(\\b\\d+(?:\\.\\d+)?\\b)|\\b(${SQL_KEYWORDS})\\b`,
    "gi",
  ),
  python: new RegExp(
    `(#[^\\n]*)|("""[\\s\\S]*?"""|'''[\\s\\S]*?'''|"(?:\\\\.|[^"\\\\\\n])*"|'(?:\\\\.|[^'\\\\\\n])*')|(\\b\\d+(?:\\.\\d+)?\\b)|\\b(${PYTHON_KEYWORDS})\\b`,
    "g",
  ),
  other: null,
};
const KINDS = ["comment", "string", "number", "keyword"] as const;

export interface Token {
  text: string;
  kind: (typeof KINDS)[number] | null;
}

export function tokenize(code: string, language: Language): Token[] {
  const rule = RULES[language];
  if (!rule) return [{ text: code, kind: null }];
  const tokens: Token[] = [];
  let end = 0;
  for (const match of code.matchAll(rule)) {
    if (match.index > end) tokens.push({ text: code.slice(end, match.index), kind: null });
    const group = match.slice(1).findIndex((part) => part !== undefined);
    tokens.push({ text: match[0], kind: KINDS[group] ?? null });
    end = match.index + match[0].length;
  }
  if (end < code.length) tokens.push({ text: code.slice(end), kind: null });
  return tokens;
}

export function languageOf(name: string): Language {
  const lower = name.toLowerCase();
  if (lower.includes("sql")) return "sql";
  return lower.includes("py") ? "python" : "other";
}

export function Code({ children, language }: { children: string; language: Language }) {
  return (
    <pre className={styles.block} tabIndex={0}>
      <code>
        {tokenize(children, language).map((token, i) =>
          token.kind ? (
            // biome-ignore lint/suspicious/noArrayIndexKey: tokens have no other key
            <span key={i} className={styles[token.kind]}>
              {token.text}
            </span>
          ) : (
            token.text
          ),
        )}
      </code>
    </pre>
  );
}
