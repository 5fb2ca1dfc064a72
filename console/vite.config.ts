import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const gateway = process.env["ROUSE_URL"] ?? "http://127.0.0.1:7420";

/**
 * Builds the operator's page into `dist/console`. The gateway serves it under `/console`, and `npm run console` serves it
 * from its sources, with `/admin` and the sign-in passed on to a gateway that runs (`ROUSE_URL`).
 */
export default defineConfig({
  root: fileURLToPath(new URL(".", import.meta.url)),
  base: "/console/",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: fileURLToPath(new URL("../dist/console", import.meta.url)),
    emptyOutDir: true,
    target: "es2023",
    // The first versions that know `light-dark()`: what stands in for it cannot change the theme of a part of the page.
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    // A data: URL for a small file would need `font-src data:` and the like in the policy.
    assetsInlineLimit: 0,
    // The polyfill is an inline script, which the policy forbids, and every supported browser preloads modules.
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: {
    // The gateway answers under its own name only.
    proxy: Object.fromEntries(
      ["/admin", "/console/session"].map((path) => [path, { target: gateway, changeOrigin: true }]),
    ),
  },
});
