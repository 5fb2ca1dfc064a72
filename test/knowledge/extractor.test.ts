import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { compiledCodeEnv } from "../../src/core/process-group.ts";
import { createExtractor, type ExtractorProcess } from "../../src/knowledge/extract/extractor.ts";

/** Says how far it is and sends the result right behind it, so that both are on their way together. */
const CHILD = `
process.on("message", () => {
  process.send({ kind: "progress", part: 1 });
  process.send({ kind: "done", tired: false, mimeType: "text/plain", title: process.env.NODE_COMPILE_CACHE ?? null, pages: null, chunks: 0 });
});
`;
type Call = Parameters<ExtractorProcess["run"]>[0];

function open(): { extractor: ExtractorProcess; call: Call } {
  const dir = mkdtempSync(join(tmpdir(), "rouse-extractor-"));
  const child = join(dir, "child.mjs");
  writeFileSync(child, CHILD);
  const extractor = createExtractor({
    workers: 1,
    memoryMb: 128,
    timeout: 20_000,
    env: process.env,
    child,
    plugins: () => [],
  });
  onTestFinished(async () => {
    await extractor.close();
    rmSync(dir, { recursive: true, force: true });
  });
  return { extractor, call: { file: child, filename: "a.txt" } as Call };
}

it("a process starts from the code that this one keeps compiled", async () => {
  const { extractor, call } = open();
  const options = { signal: new AbortController().signal, onProgress: () => undefined };
  expect(await extractor.run(call, options)).toMatchObject({
    ok: true,
    title: compiledCodeEnv().NODE_COMPILE_CACHE,
  });
});

it("a document is not given to a process that was ended for the one before, whose result was on its way", async () => {
  const { extractor, call } = open();
  for (let round = 0; round < 5; round++) {
    const stop = new AbortController();
    const stopped = extractor.run(call, { signal: stop.signal, onProgress: () => stop.abort() });
    const next = extractor.run(call, {
      signal: new AbortController().signal,
      onProgress: () => undefined,
    });
    expect(await stopped).toEqual({ ok: false, stopped: true });
    expect(await next).toMatchObject({ ok: true, mimeType: "text/plain" });
  }
});
