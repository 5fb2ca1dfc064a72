import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll } from "vitest";
import { testExtractor } from "../../src/testing/extractor.ts";

const PAGE = readFileSync(join(import.meta.dirname, "../../docs/plugins.md"), "utf8");
const [, reader = ""] = /```ts\n(\/\/ plugins\/kinds\/log\.ts\n[^]*?)```/.exec(PAGE) ?? [];

const folder = mkdtempSync(join(tmpdir(), "rouse-page-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
writeFileSync(join(folder, "log.ts"), reader);

testExtractor("of the page", {
  extractor: {
    extensions: ["log"],
    mediaTypes: ["text/x-log"],
    module: pathToFileURL(join(folder, "log.ts")).href,
  },
  samples: [
    {
      filename: "x.log",
      bytes: Buffer.from("up at six\ndown at seven"),
      expect: { title: "x.log", text: ["up at six", "down at seven"] },
    },
  ],
});
