import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Snapshot } from "../../src/intake/types.ts";
import { createLanding, type LandingDeps } from "../../src/operate/edits/landing.ts";
import { createWorld } from "../e2e/world.ts";
import { describePostgres, newSchema } from "../store/postgres.ts";

const NEW = `{ id: "acme.order", match: { path: "acme" }, messageTemplate: "x" }`;
const CONFIG = "{\n  // ours\n  hooks: {},\n}\n";
const change = { kind: "add", text: NEW } as const;

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "rouse-landing-"));
  writeFileSync(join(dir, "rouse.json5"), CONFIG);
});
afterEach(() => {
  vi.useRealTimers();
  rmSync(dir, { recursive: true, force: true });
});

/** Landing beside a gateway whose answers the test sets. */
const landWith = (reload: NonNullable<LandingDeps["reload"]>) =>
  createLanding({
    snapshot: () =>
      ({
        config: { hooks: { mappingsDir: join(dir, "mappings") } },
        configFile: join(dir, "rouse.json5"),
      }) as unknown as Snapshot,
    withStore: async () => null,
    withCandidate: (_texts, use) =>
      use({
        ok: true,
        snapshot: {
          hash: "checked",
          warnings: [],
          config: { hooks: { testsDir: join(dir, "tests") } },
        } as unknown as Snapshot,
      }),
    reload,
    findObstacle: async () => undefined,
    now: () => Date.now(),
  }).land(change, {});
const read = (): string => readFileSync(join(dir, "rouse.json5"), "utf8");

describe("a gateway that does not use exactly what was checked", () => {
  it.each<[string, NonNullable<LandingDeps["reload"]>, string]>([
    [
      "uses something else",
      async () => ({ ok: true, hash: "other" }),
      "another config than the one that was checked",
    ],
    [
      "finds problems",
      async () => ({ ok: false, issues: [{ path: "hooks", message: "no" }] }),
      "could not use it",
    ],
    ["does not answer within 20 seconds", () => new Promise(() => undefined), "within 20 seconds"],
  ])("gets the file back as it was, with the reason, when it %s", async (_name, reload, reason) => {
    // The clock of `setTimeout` goes on by a second whenever `waitFor` looks.
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    let calls = 0;
    // The second call is the one after the file went back.
    const landed = landWith(() =>
      ++calls === 1 ? reload() : Promise.resolve({ ok: true, hash: "before" }),
    );
    const ended = vi.fn();
    landed.then(ended, ended);
    await vi.waitFor(() => {
      vi.advanceTimersByTime(1000);
      expect(ended).toHaveBeenCalled();
    });
    await expect(landed).rejects.toMatchObject({
      code: "not_landed",
      message: expect.stringMatching(
        new RegExp(`rouse.json5 was changed, but .*${reason}.*; it was put back as it was`),
      ),
    });
    expect([read(), calls]).toEqual([CONFIG, 2]);
  });

  it("keeps what a person wrote in the meantime", async () => {
    const landed = landWith(async () => {
      writeFileSync(join(dir, "rouse.json5"), "{ hooks: { /* by hand */ } }");
      return { ok: true, hash: "other" };
    });
    await expect(landed).rejects.toMatchObject({
      code: "not_landed",
      message: expect.stringContaining("left as it is"),
    });
    expect(read()).toContain("by hand");
  });
});

describePostgres("gateways on one database", () => {
  it("that have different configs get a patch, and no file is written", async () => {
    const schema = newSchema();
    const config = { store: { url: schema.url } };
    mkdirSync(join(dir, "one"));
    mkdirSync(join(dir, "two"));
    const mapping = { id: "shop", match: { path: "shop" }, messageTemplate: "x" };
    const one = await createWorld({ workers: false, dir: join(dir, "one"), config });
    const two = await createWorld({
      workers: false,
      dir: join(dir, "two"),
      config: { ...config, hooks: { mappings: [mapping] } },
    });
    try {
      await one.until(async () => {
        const { body } = await one.admin("/readyz?detail");
        return (
          (body as { gateways: { url: string | null }[] }).gateways.filter(
            ({ url }) => url !== null,
          ).length === 2
        );
      });
      const before = readFileSync(join(one.dir, "rouse.json5"), "utf8");
      const { body } = await one.admin("/admin/v1/changes", {
        method: "POST",
        body: JSON.stringify({ change }),
      });
      expect(body).toMatchObject({
        result: {
          landed: false,
          reason: expect.stringContaining("have another config"),
          patch: expect.stringContaining("acme.order"),
        },
      });
      expect(readFileSync(join(one.dir, "rouse.json5"), "utf8")).toBe(before);
    } finally {
      await two.stop();
      await one.stop();
      await schema.drop();
    }
  });
});
