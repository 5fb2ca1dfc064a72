import { describe, expect, it } from "vitest";
import type { Routes } from "../contract/kinds.ts";
import { expectNoSecret, openForEachTest, within, type Harness, type Open } from "./harness.ts";

/** A request below `/plugins/<id>`, and its answer. */
export interface RouteSample {
  name: string;
  /** The path after `/plugins/<id>`, such as `/orders?open=1`. */
  path: string;
  method?: string;
  headers?: Record<string, string>;
  body?: string;
  expect: { status: number; text?: readonly string[] };
}

export interface RoutesHarness extends Harness {
  /** The plugin's id. */
  id: string;
  routes: Routes;
  samples: readonly [RouteSample, ...RouteSample[]];
  /** With `auth: "none"`: requests that the plugin must refuse with 401 or 403. */
  forbidden?: readonly Omit<RouteSample, "expect">[];
  /** Texts that may not be in any answer: credentials. */
  secrets?: readonly string[];
}

const ANSWER_MS = 5_000;

/** Declares the tests that the HTTP routes of every plugin pass: no request makes them throw, and strangers are refused. */
export function testRoutes(name: string, open: Open<RoutesHarness>): void {
  describe(`routes ${name}`, () => {
    const harness = openForEachTest(open);
    const send = async ({
      path,
      method = "GET",
      headers = {},
      body,
    }: Omit<RouteSample, "name" | "expect">) => {
      const { id, routes, secrets = [] } = harness();
      const request = new Request(`http://127.0.0.1/plugins/${id}${path}`, {
        method,
        headers,
        ...(body !== undefined && { body }),
      });
      const answer = await within(ANSWER_MS, `${method} ${path}`, routes.fetch(request));
      const text = await answer.text();
      expectNoSecret(text, secrets);
      // A stack tells strangers about the machine.
      expect(text).not.toMatch(/^\s+at .+:\d+:\d+\)?$/m);
      return { status: answer.status, text };
    };

    it("say who may call", () => {
      expect(["operator", "api", "none"]).toContain(harness().routes.auth);
      if (harness().routes.auth === "none")
        expect(harness().forbidden?.length ?? 0).toBeGreaterThan(0);
    });

    it("answer their requests", async () => {
      for (const sample of harness().samples) {
        const { status, text } = await send(sample);
        expect([sample.name, status]).toEqual([sample.name, sample.expect.status]);
        for (const words of sample.expect.text ?? []) expect(text).toContain(words);
      }
    });

    it("refuse whom they must not trust", async () => {
      for (const sample of harness().forbidden ?? [])
        expect([401, 403]).toContain((await send(sample)).status);
    });

    it("answer 4xx to a path and a body that they do not know", async () => {
      expect((await send({ path: "/there-is-no-such-path" })).status).toBe(404);
      const [{ path, headers = {} }] = harness().samples;
      for (const body of ["", "{", "null", "\u0000", "x".repeat(10_000)]) {
        const { status } = await send({ path, headers, method: "POST", body });
        expect([body.slice(0, 9), status]).toEqual([
          body.slice(0, 9),
          expect.toSatisfy((code: number) => code < 500) as unknown,
        ]);
      }
    });
  });
}
