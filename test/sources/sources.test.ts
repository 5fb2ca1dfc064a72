import { mkdirSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";

const worlds: World[] = [];
afterEach(async () => {
  for (const world of worlds.splice(0)) await world.stop();
});

/** A gateway that keeps the files of its folder `docs` as documents. */
async function start(folder: object, files: Record<string, string> = {}): Promise<World> {
  const settings = { "documents-folder": { folders: [{ path: "docs", ...folder }] } };
  const world = await createWorld({ config: { plugins: { settings } }, files });
  worlds.push(world);
  return world;
}

// oxlint-disable-next-line typescript/no-explicit-any -- answers of every shape
const documents = async (world: World): Promise<any[]> =>
  (await world.admin("/admin/v1/knowledge/documents")).body.documents;
const sorted = (texts: readonly string[]): string[] =>
  texts.toSorted((a, b) => a.localeCompare(b, "en"));
const names = async (world: World): Promise<string[]> =>
  sorted((await documents(world)).map(({ metadata }) => String(metadata.id)));
const search = async (world: World, text: string): Promise<string[]> => {
  const body = JSON.stringify({ text });
  const answer = await world.admin("/admin/v1/knowledge/search", {
    method: "POST",
    body,
    headers: { "content-type": "application/json" },
  });
  return answer.body.passages.map((passage: { text: string }) => passage.text);
};
/** Waits until a search finds a passage with these words; without words, until no passage has the one searched for. */
const finds = (world: World, text: string, said?: string) =>
  world.until(async () => {
    const found = await search(world, text);
    return said === undefined
      ? found.every((passage) => !passage.includes(text))
      : found.some((passage) => passage.includes(said));
  });
const state = async (world: World): Promise<{ ok: boolean; message: string }> => {
  const { services } = (await world.admin("/admin/v1/status")).body.status;
  return (
    services.find(({ id }: { id: string }) => id === "documents-folder") ?? {
      ok: true,
      message: "",
    }
  );
};

describe("the folder source", () => {
  it("adds, replaces and removes documents as files change, and reads no link and no hidden file", async () => {
    const world = await start({ everyMinutes: 0.01 });
    const folder = join(world.dir, "docs");
    await world.until(async () => ((await state(world)).ok ? undefined : true));
    expect((await state(world)).message).toContain("docs: the folder cannot be read (ENOENT)");
    mkdirSync(join(folder, "sub"), { recursive: true });
    writeFileSync(join(world.dir, "secret.txt"), "The walrus is a secret.");
    writeFileSync(join(folder, "a.md"), "# Handbook\n\nThe axolotl sleeps at noon.");
    writeFileSync(join(folder, "sub/b.txt"), "The pelican eats at nine.");
    writeFileSync(join(folder, ".hidden.txt"), "The walrus hides.");
    writeFileSync(join(folder, "~$a.txt"), "The walrus locks what Office has open.");
    mkdirSync(join(folder, "lost+found"));
    writeFileSync(join(folder, "lost+found/a.txt"), "The walrus was found by the system.");
    symlinkSync(join(world.dir, "secret.txt"), join(folder, "link.txt"));
    symlinkSync(world.dir, join(folder, "up"));
    await finds(world, "pelican", "eats at nine");
    expect(await names(world)).toEqual(["a.md", "sub/b.txt"]);
    expect(await search(world, "walrus")).toEqual([]);
    writeFileSync(join(folder, "sub/b.txt"), "The pelican now eats at ten.");
    await finds(world, "pelican", "now eats at ten");
    rmSync(join(folder, "a.md"));
    await finds(world, "axolotl");
    await world.until(async () => (await names(world)).length === 1);
    expect(await names(world)).toEqual(["sub/b.txt"]);
  });

  it("reads when the system says that something has changed, and only files whose time or size has changed", async () => {
    const world = await start(
      { everyMinutes: 60, extensions: ["TXT"] },
      { "docs/a.txt": "The axolotl sleeps at noon." },
    );
    const folder = join(world.dir, "docs");
    await finds(world, "axolotl", "sleeps");
    utimesSync(join(folder, "a.txt"), 1e9, 1e9);
    await world.until(async () =>
      (await state(world)).message.includes("1 document (0 new, 0 changed"),
    );
    writeFileSync(join(folder, "a.txt"), "The axolotl drinks at noon.");
    utimesSync(join(folder, "a.txt"), 1e9, 1e9);
    writeFileSync(join(folder, "b.md"), "The walrus has another ending.");
    writeFileSync(join(folder, "c.txt"), "The pelican eats at nine.");
    await finds(world, "pelican", "eats");
    expect(await search(world, "axolotl")).toEqual(["The axolotl sleeps at noon."]);
    expect(await names(world)).toEqual(["a.txt", "c.txt"]);
  });

  it("keeps its documents if the folder is empty, which it also is if a disk is not mounted", async () => {
    const world = await start({ everyMinutes: 0.01, agents: ["sales"] });
    const folder = join(world.dir, "docs");
    mkdirSync(join(world.dir, "next"));
    writeFileSync(join(world.dir, "next/a.txt"), "The axolotl sleeps at noon.");
    renameSync(join(world.dir, "next"), folder);
    await finds(world, "axolotl", "sleeps");
    expect((await documents(world))[0].agentIds).toEqual(["sales"]);
    rmSync(join(folder, "a.txt"));
    await world.until(async () =>
      (await state(world)).message.includes("keeps its 1 document until"),
    );
    expect(await names(world)).toEqual(["a.txt"]);
  });
});
