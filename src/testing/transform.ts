import { basename, dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestGateway, HOOK_TOKEN, type TestGateway } from "./gateway.ts";

/** A payload, and what the transform makes of it. */
export interface TransformSample {
  name: string;
  payload: unknown;
  /** Words that the agent is given, in one run; `null` if the transform skips the event. */
  expect: { text: readonly string[]; sessionKey?: string } | null;
}

export interface TransformOptions {
  /** The module: a path or a file URL. */
  module: string;
  /** The name of the function, if it is not the default export. */
  export?: string;
  samples: readonly [TransformSample, ...TransformSample[]];
}

/** Payloads of other senders, and values that no sender posts. */
const ODD = [
  "{}",
  "[]",
  '"text"',
  "0",
  "null",
  '{"data":null}',
  `[${"[".repeat(50)}${"]".repeat(50)}]`,
];
const PATH = "transform-under-test";

/** Declares the tests that every transform module passes, in the process and with the rights that the gateway gives it. */
export function testTransform(
  name: string,
  { module, export: exported, samples }: TransformOptions,
): void {
  describe(`transform ${name}`, () => {
    let gateway: TestGateway | undefined;
    const file = module.startsWith("file:") ? fileURLToPath(module) : module;
    beforeAll(async () => {
      const transform = {
        module: basename(file),
        ...(exported !== undefined && { export: exported }),
      };
      const mappings = [{ id: PATH, match: { path: PATH }, transform }];
      gateway = await createTestGateway({ transformsDir: dirname(file), mappings });
    });
    afterAll(() => gateway?.close());
    const post = (body: string) =>
      (gateway as TestGateway).post(PATH, body, {
        authorization: `Bearer ${HOOK_TOKEN}`,
        "content-type": "application/json",
      });

    it("is loaded without a warning", () => {
      const warnings = (gateway as TestGateway).gateway.status().warnings;
      expect(warnings.filter(({ path, message }) => `${path} ${message}`.includes(PATH))).toEqual(
        [],
      );
    });

    it.each(samples.map((sample) => [sample.name, sample] as const))(
      "%s",
      async (_name, sample) => {
        const { status, body } = await post(JSON.stringify(sample.payload));
        if (sample.expect === null) return expect([status, body]).toEqual([204, ""]);
        const { runId, sessionKey } = body as { runId?: string; sessionKey?: string };
        expect([status, body]).toEqual([
          202,
          expect.objectContaining({ runId: expect.any(String) as unknown }),
        ]);
        if (sample.expect.sessionKey !== undefined)
          expect(sessionKey).toBe(sample.expect.sessionKey);
        const { text } = await (gateway as TestGateway).readRun(String(runId));
        for (const words of sample.expect.text) expect(text).toContain(words);
      },
    );

    it("gives the same for the same payload", async () => {
      const [{ payload }] = samples;
      const texts = [await post(JSON.stringify(payload)), await post(JSON.stringify(payload))].map(
        async ({ body }) => {
          const { runId } = body as { runId?: string };
          return runId === undefined ? body : (await (gateway as TestGateway).readRun(runId)).text;
        },
      );
      const [first, second] = await Promise.all(texts);
      expect(second).toEqual(first);
    });

    it.each(ODD)("does not fail on %j", async (body) => {
      const { status } = await post(body);
      // The event is refused or skipped, or becomes work; a transform that throws answers 5xx.
      expect(status).toBeLessThan(500);
    });
  });
}
