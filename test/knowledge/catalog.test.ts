import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { openCatalog, type DocumentCatalog } from "../../src/knowledge/catalog/catalog.ts";
import { describePostgres, newSchema, sqlSource, type Schema } from "../store/postgres.ts";

let dir: string;
let catalog: DocumentCatalog;

function tests(getSchema: () => Schema | undefined): void {
  let schema: Schema | undefined;
  const open = async (): Promise<void> => {
    dir = await mkdtemp(join(tmpdir(), "rouse-catalog-"));
    schema = getSchema();
    const sql = schema && sqlSource(schema);
    catalog = await openCatalog({ database: join(dir, "knowledge.db"), sql, now: 0 }, true);
  };
  afterEach(async () => {
    await catalog.close();
    await schema?.drop();
    await rm(dir, { recursive: true, force: true });
  });

  it("what is written together fails one by one", async () => {
    await open();
    const add = (name: string, end: () => void = () => undefined): Promise<string> =>
      catalog.write(async (sql) => {
        await sql.query("INSERT INTO knowledge_files (sha256, touched) VALUES ($1, 0)", [name]);
        end();
        return name;
      });
    const refuse = (): never => {
      throw new Error("no");
    };
    const ended = await Promise.allSettled([add("a"), add("b", refuse), add("a"), add("c")]);
    expect(ended.map(({ status }) => status)).toEqual([
      "fulfilled",
      "rejected",
      "rejected",
      "fulfilled",
    ]);
    expect(await catalog.query("SELECT sha256 FROM knowledge_files ORDER BY sha256")).toEqual([
      { sha256: "a" },
      { sha256: "c" },
    ]);
    await expect(add("d", refuse)).rejects.toThrow("no");
    expect(await add("d")).toBe("d");
  });
}

describe("a catalog in a file", () => tests(() => undefined));
describePostgres("a catalog in PostgreSQL", () => tests(newSchema));
