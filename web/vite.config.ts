import { defineConfig } from "vitest/config";

export default defineConfig({
  // Relative, so that the UI also works below a path prefix.
  base: "./",
  build: {
    outDir: "../src/clew/api/static",
    emptyOutDir: true,
    sourcemap: false,
    // The first versions that support light-dark().
    target: ["chrome123", "firefox120", "safari17.5"],
    // One script and one style sheet: the self-contained export inlines both.
    cssCodeSplit: false,
    modulePreload: false,
    chunkSizeWarningLimit: 800,
    rolldownOptions: {
      output: { codeSplitting: false },
      // "use client" is for server-side rendering, which is not used.
      onLog: (level, log, report) => log.code !== "MODULE_LEVEL_DIRECTIVE" && report(level, log),
    },
  },
  // Tests compare the class names of CSS modules with their uses.
  test: { css: true },
  server: { proxy: { "/api": "http://127.0.0.1:8777" } },
});
