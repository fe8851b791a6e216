import { defineConfig } from "vite";

export default defineConfig({
  // Relative, so that the page also works below a path of its own.
  base: "./",
  build: {
    outDir: "../src/clew/api/static",
    emptyOutDir: true,
    sourcemap: false,
    // Browsers from the middle of 2024 on: the first that know light-dark() by themselves.
    target: ["chrome123", "firefox120", "safari17.5"],
    // One script and one style sheet: the self-contained export inlines both.
    cssCodeSplit: false,
    modulePreload: false,
    chunkSizeWarningLimit: 800,
    rolldownOptions: {
      output: { codeSplitting: false },
      // "use client" is for servers that render React; there is none here.
      onLog: (level, log, report) => log.code !== "MODULE_LEVEL_DIRECTIVE" && report(level, log),
    },
  },
  server: { proxy: { "/api": "http://127.0.0.1:8777" } },
});
