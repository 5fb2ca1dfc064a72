import {
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import fs from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";

/** The fault in the saves of the mapping file, and the step at which it happens. */
const fault: { at: "write" | "sync" | "rename" | "folder" | null; act: () => void } = {
  at: null,
  act: () => undefined,
};
const reach = (at: typeof fault.at): void => {
  if (fault.at === at) fault.act();
};
const isTemporary = (file: unknown): boolean => /acme\.json5\.rouse-.*\.tmp$/.test(String(file));

const real = { open: fs.open, rename: fs.rename };
const open: typeof fs.open = async (file, ...rest) => {
  const handle = await real.open(file, ...rest);
  const [write, sync] = [handle.writeFile.bind(handle), handle.sync.bind(handle)];
  if (isTemporary(file)) {
    handle.writeFile = async (...given) => {
      reach("write");
      return write(...given);
    };
    handle.sync = async () => {
      await sync();
      reach("sync");
    };
  } else if (String(file).endsWith("mappings"))
    handle.sync = async () => {
      reach("folder");
      return sync();
    };
  return handle;
};
const rename: typeof fs.rename = async (from, to) => {
  if (isTemporary(from)) reach("rename");
  return real.rename(from, to);
};
// The system's functions, for this file alone: a disk cannot be filled at one of them.
beforeAll(() => {
  Object.assign(fs, { open, rename });
  syncBuiltinESMExports();
});
afterAll(() => {
  Object.assign(fs, real);
  syncBuiltinESMExports();
});

const FILE = "mappings/acme.json5";
const TEXT =
  "{\n  // ours\n  id: 'acme',\n  mappings: [\n    { id: 'acme.order', match: { path: 'acme' }, messageTemplate: 'x' },\n  ],\n}\n";
const change = {
  kind: "replace",
  mapping: "acme.order",
  text: "{ id: 'acme.order', match: { path: 'acme' }, messageTemplate: 'Changed' }",
};
const OTHER =
  "{ id: 'other', mappings: [ { id: 'other.one', match: { path: 'other' }, messageTemplate: 'x' } ] }";

let world: World;
beforeEach(async () => {
  world = await createWorld({ workers: false, files: { [FILE]: TEXT } });
});
afterEach(async () => {
  fault.at = null;
  await world.stop();
});

const file = (): string => join(world.dir, FILE);
const land = async (options: object = {}) =>
  (await world.admin("/admin/v1/changes", {
    method: "POST",
    body: JSON.stringify({ change, ...options }),
  })) as {
    status: number;
    body: {
      result?: object;
      error?: { code: string; message: string };
    };
  };
const left = (): string[] =>
  readdirSync(world.dir, { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".tmp"),
  );
const fail = (code: string) => (): never => {
  throw Object.assign(new Error(`${code}: no space left on device, write`), {
    code,
    syscall: "write",
  });
};

describe("a save that fails", () => {
  it.each(["write", "sync", "rename"] as const)(
    "at %s, because the disk is full, leaves the old file and gives the change as a patch",
    async (at) => {
      const snapshot = world.gateway.status().snapshot;
      Object.assign(fault, { at, act: fail("ENOSPC") });
      const { status, body } = await land();
      expect([status, body]).toMatchObject([
        200,
        {
          result: {
            landed: false,
            reason: "it cannot be written (ENOSPC)",
            patch: expect.stringContaining("messageTemplate: 'Changed'"),
          },
        },
      ]);
      expect([readFileSync(file(), "utf8"), left(), world.gateway.status().snapshot]).toEqual([
        TEXT,
        [],
        snapshot,
      ]);
      fault.at = null;
      expect(await land()).toMatchObject({ body: { result: { landed: true } } });
    },
  );

  it("when the folder is made durable is put back, and says why", async () => {
    let syncs = 0;
    // The first is that of the file of before.
    const act = (): void => void (++syncs === 2 && fail("EIO")());
    Object.assign(fault, { at: "folder", act });
    expect(await land()).toMatchObject({
      body: {
        result: { landed: false, reason: "it cannot be written (EIO); it was put back as it was" },
      },
    });
    expect([readFileSync(file(), "utf8"), left()]).toEqual([TEXT, []]);
  });
});

describe("a file that becomes something else while it is saved", () => {
  it("is a conflict if it was edited by hand", async () => {
    const edited = TEXT.replace("// ours", "// theirs");
    Object.assign(fault, { at: "sync", act: () => writeFileSync(file(), edited) });
    const { status, body } = await land();
    expect([status, body.error?.code]).toEqual([409, "conflict"]);
    expect([readFileSync(file(), "utf8"), left()]).toEqual([edited, []]);
  });

  it("stays a link if it was replaced by one, and the file that the link names stays as it is", async () => {
    const target = join(world.dir, "elsewhere.json5");
    const swap = (): void => {
      renameSync(file(), target);
      symlinkSync("../elsewhere.json5", file());
    };
    Object.assign(fault, { at: "sync", act: swap });
    expect(await land()).toMatchObject({
      body: {
        result: { landed: false, reason: expect.stringContaining(`is a link to ${target}`) },
      },
    });
    expect([readlinkSync(file()), readFileSync(target, "utf8"), left()]).toEqual([
      "../elsewhere.json5",
      TEXT,
      [],
    ]);
    // A link that names nothing is no file to write, either.
    unlinkSync(target);
    expect(await land()).toMatchObject({ status: 404 });
    expect(lstatSync(file()).isSymbolicLink()).toBe(true);
  });

  it("is a conflict if it was removed", async () => {
    Object.assign(fault, { at: "sync", act: () => unlinkSync(file()) });
    expect(await land()).toMatchObject({ status: 409, body: { error: { code: "conflict" } } });
    expect([existsSync(file()), left()]).toEqual([false, []]);
  });

  it("is put back if the gateway then uses another config than the one that was checked", async () => {
    Object.assign(fault, { at: "sync", act: () => world.write("mappings/other.json5", OTHER) });
    expect(await land()).toMatchObject({
      status: 409,
      body: {
        error: {
          code: "not_landed",
          message:
            "acme.json5 was changed, but the gateway then used another config than the one that was checked; it was put back as it was",
        },
      },
    });
    expect(readFileSync(file(), "utf8")).toBe(TEXT);
    expect((await world.post("/hooks/other", {})).status).toBe(202);
  });

  it("names the file of before if it cannot be put back", async () => {
    let saves = 0;
    const act = (): void => {
      if (++saves === 1) world.write("mappings/other.json5", OTHER);
      else fail("ENOSPC")();
    };
    Object.assign(fault, { at: "sync", act });
    const { status, body } = await land();
    expect([status, body.error?.message]).toEqual([
      409,
      expect.stringContaining(
        "it could not be put back (ENOSPC): acme.json5.before has what it was",
      ),
    ]);
    expect(readFileSync(file(), "utf8")).toContain("Changed");
    expect(readFileSync(`${file()}.before`, "utf8")).toBe(TEXT);
  });
});
