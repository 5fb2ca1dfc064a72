import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import type { Extract, Extractor } from "../contract/kinds.ts";
import { expectText, within } from "./harness.ts";

/** A document, and what is read of it. */
export interface ExtractorSample {
  filename: string;
  bytes: Uint8Array;
  expect: { title?: string; text: readonly [string, ...string[]] };
}

export interface ExtractorOptions {
  extractor: Extractor;
  samples: readonly [ExtractorSample, ...ExtractorSample[]];
}

const EXTRACT_MS = 10_000;

async function loadExtract({ module }: Extractor): Promise<Extract> {
  const { default: extract } = (await import(/* @vite-ignore */ module)) as { default: Extract };
  return extract;
}

/** Reads a document as knowledge does: title and blocks. */
async function readDocument(
  extractor: Extractor,
  document: { bytes: Uint8Array; filename: string },
) {
  const extract = await loadExtract(extractor);
  const { title, blocks } = await extract(document);
  return { title, blocks: [...blocks] };
}

/** Declares the tests that every extractor passes: its samples become text, and broken documents end in an error or in text. */
export function testExtractor(name: string, { extractor, samples }: ExtractorOptions): void {
  const read = ({ bytes, filename }: { bytes: Uint8Array; filename: string }) =>
    within(
      EXTRACT_MS,
      filename,
      readDocument(extractor, { bytes: Uint8Array.from(bytes), filename }),
    );

  describe(`extractor ${name}`, () => {
    it("names its file types and a module whose default export is a function", async () => {
      expect(extractor.extensions.length + extractor.mediaTypes.length).toBeGreaterThan(0);
      for (const extension of extractor.extensions) expect(extension).toMatch(/^[a-z0-9]{1,16}$/);
      for (const mediaType of extractor.mediaTypes)
        expect(mediaType).toMatch(/^[a-z]+\/[a-z0-9.+-]+$/);
      expect(fileURLToPath(extractor.module)).toMatch(/\S/);
      expect(await loadExtract(extractor)).toEqual(expect.any(Function));
    });

    it.each(samples.map((sample) => [sample.filename, sample] as const))(
      "reads %s",
      async (_name, sample) => {
        const { title, blocks } = await read(sample);
        if (sample.expect.title !== undefined) expect(title).toBe(sample.expect.title);
        for (const { text, page } of blocks) {
          expectText(text);
          if (page !== undefined) expect(page).toBeGreaterThanOrEqual(1);
        }
        const whole = blocks.map(({ text }) => text).join("\n");
        let from = 0;
        for (const words of sample.expect.text) {
          // In the order in which they stand in the document.
          const at = whole.indexOf(words, from);
          expect([words, at]).toEqual([
            words,
            expect.toSatisfy((index: number) => index >= from) as unknown,
          ]);
          from = at;
        }
      },
    );

    it("ends with an error or with text if a document is empty, cut off, or noise", async () => {
      const [{ filename, bytes }] = samples;
      const noise = Uint8Array.from({ length: 10_000 }, (_, index) => (index * 7919) % 251);
      for (const broken of [new Uint8Array(), bytes.subarray(0, bytes.length / 2), noise]) {
        const result: unknown = await read({ filename, bytes: broken }).catch(
          (error: unknown) => error,
        );
        if (!(result instanceof Error))
          expect(result).toEqual(expect.objectContaining({ blocks: expect.any(Array) as unknown }));
        else expect(result.message).not.toMatch(/ took longer than \d+ ms$/);
      }
    });

    it("does not change the document", async () => {
      const [{ filename, bytes }] = samples;
      const given = Uint8Array.from(bytes);
      await readDocument(extractor, { filename, bytes: given });
      expect(Buffer.compare(given, bytes)).toBe(0);
    });
  });
}
