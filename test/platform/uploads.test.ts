import { execFile } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  DESK,
  documentsWorld,
  expectLanguages,
  expectOwnership,
  formOf,
  READER,
  SALES,
  STRANGER,
  type DocumentsWorld,
} from "./documents.ts";
import { createWorld } from "../e2e/world.ts";
import { KEY } from "./world.ts";

let world: DocumentsWorld;
beforeAll(async () => {
  world = await documentsWorld();
});
afterAll(() => world.close());
beforeEach(() => {
  expect(world.staged()).toEqual([]);
});

let number = 0;
/** A word that no other test has. */
const word = (): string => `walrus${++number}`;

describe("an upload", () => {
  it("opens nothing before the first one", async () => {
    const fresh = await documentsWorld();
    expect(await fresh.search("anything")).toEqual([]);
    expect((await fresh.get("documents")).body).toEqual({
      object: "list",
      data: [],
      has_more: false,
    });
    expect((await fresh.get("documents/doc_1")).status).toBe(404);
    expect((await fresh.chat({}, { key: DESK })).status).toBe(200);
    expect(fresh.model.asked[0]?.body.tools).toBeUndefined();
    expect(existsSync(join(fresh.dir, ".rouse/knowledge.db"))).toBe(false);
    await fresh.close();
  });

  it("answers 202 when it is on disk, and 200 when it waited for the end", async () => {
    const text = `The ${word()} sleeps.`;
    const first = await world.upload(
      formOf("a.txt", text, {
        title: "Walruses",
        metadata: '{"team":"zoo","n":1,"ok":true}',
        external_id: "w",
      }),
    );
    expect(first.status).toBe(202);
    expect(first.body).toMatchObject({
      id: expect.stringMatching(/^doc_/),
      object: "knowledge.document",
      filename: "a.txt",
      title: "Walruses",
      bytes: text.length,
      sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
      agent_ids: [],
      metadata: { team: "zoo", n: 1, ok: true },
      external_id: "w",
      version: 1,
      duplicate: false,
    });
    const ended = await world.get(`documents/${first.body.id}?wait=25`);
    expect(ended.body).toMatchObject({
      status: "ready",
      progress: 1,
      error: null,
      chunk_count: 1,
      mime_type: "text/plain",
    });
    expect(ended.body.indexed_at).toBeGreaterThanOrEqual(ended.body.created_at);
    const second = await world.index("b.txt", `Another ${word()}.`);
    expect([second.status, second.body.status]).toEqual([200, "ready"]);
    const again = await world.upload(formOf("c.txt", text));
    expect([again.status, again.body.id, again.body.duplicate]).toEqual([200, first.body.id, true]);
  });

  it("of a real PDF is found", async () => {
    const { status, body } = await world.fixture("libreoffice.pdf");
    expect([status, body.status, body.error]).toEqual([200, "ready", null]);
    const query = { query: "descaling", limit: 100 };
    const { body: found } = await world.call("/v1/knowledge/search", query, { key: DESK });
    const passage = found.data.find((one: { document_id: string }) => one.document_id === body.id);
    expect(passage).toMatchObject({
      filename: "libreoffice.pdf",
      chunk_id: expect.stringContaining(`${body.id}#`),
    });
  });

  it("waits in line if others are in progress: of ten together each answers 202, as forms and as JSON", async () => {
    const busy = await documentsWorld({ platform: { knowledge: { uploads: 1, workers: 1 } } });
    // Large enough that all are under way at the same time.
    const text = (n: number): string => `Walrus number ${n} sleeps on the rock. `.repeat(20_000);
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, n) =>
        n % 5 === 4
          ? busy.call(
              "/v1/knowledge/upload",
              { filename: `${n}.txt`, text: `Walrus number ${n} sleeps.` },
              { key: DESK },
            )
          : busy.upload(formOf(`${n}.txt`, text(n))),
      ),
    );
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 202));
    for (const { body } of answers)
      expect((await busy.get(`documents/${body.id}?wait=60`)).body.status).toBe("ready");
    await busy.close();
  });

  it.each([["agent_id"], ["agent_id[]"], ["agent_id[0]"], ["agent_ids[]"]])(
    "is for the agents of the field %s, as programs write lists, and for no others",
    async (name) => {
      const form = new FormData();
      form.append("file[]", new Blob([`The ${word()}.`]), "a.txt");
      form.append(name, "ops");
      const { status, body } = await world.upload(form);
      expect([status, body.agent_ids]).toEqual([202, ["ops"]]);
    },
  );

  it("has metadata whose members are fields of their own", async () => {
    const fields = { "metadata[team]": "ops", "metadata[year]": "2026" };
    const { body } = await world.upload(formOf("a.txt", `The ${word()}.`, fields));
    expect(body.metadata).toEqual({ team: "ops", year: "2026" });
    const both = formOf("a.txt", `The ${word()}.`, { ...fields, metadata: '{"a":1}' });
    const refused = await world.upload(both);
    expect([refused.status, refused.body.error.param]).toEqual([400, "metadata"]);
  });

  it.each<[string, (metadata: string) => Promise<{ status: number; body: { metadata: object } }>]>([
    ["a form", (metadata) => world.upload(formOf("a.txt", `The ${word()}.`, { metadata }))],
    [
      "JSON",
      (metadata) =>
        world.call(
          "/v1/knowledge/upload",
          `{"filename":"a.txt","text":"The ${word()}.","metadata":${metadata}}`,
          { key: DESK },
        ),
    ],
  ])("keeps numbers of metadata in %s, with all their digits", async (_name, upload) => {
    const { status, body } = await upload('{"channel":154284075601887489,"n":1.5}');
    expect([status, body.metadata]).toEqual([202, { channel: "154284075601887489", n: 1.5 }]);
  });

  it("takes JSON as well, as text or as base64", async () => {
    const upload = (body: object) =>
      world.call("/v1/knowledge/upload", { wait: 25, ...body }, { key: DESK });
    const [one, two] = [word(), word()];
    const text = await upload({
      filename: "n.md",
      text: `# ${one}`,
      agent_id: "ops",
      metadata: { a: 1 },
      title: null,
    });
    expect([text.status, text.body.status, text.body.agent_ids, text.body.metadata]).toEqual([
      200,
      "ready",
      ["ops"],
      { a: 1 },
    ]);
    const encoded = await upload({
      filename: "n.txt",
      // In lines, as the command `base64` writes it.
      content_base64: Buffer.from(`ein ${two}: €`).toString("base64").replace(/.{12}/g, "$&\n"),
      agent_ids: ["ops", "sales"],
    });
    expect([encoded.status, encoded.body.agent_ids]).toEqual([200, ["ops", "sales"]]);
    expect([await world.search(one), await world.search(two)]).toEqual([[one], [`ein ${two}: €`]]);
  });

  it("for one agent is found by a search that names the agent, in either field", async () => {
    const one = word();
    await world.index("a.txt", `The ${one}.`, { agent_id: "ops" });
    for (const field of ["agent_id", "agent_ids"]) {
      expect(await world.search(one, { [field]: ["ops"] })).toEqual([`The ${one}.`]);
      expect(await world.search(one, { [field]: ["sales"] })).toEqual([]);
    }
  });

  it("has the name that the client gave, whatever it is, and no path", async () => {
    for (const [name, kept] of [
      ["港口咖啡馆 菜单.md", "港口咖啡馆 菜单.md"],
      ['it\'s "quoted".md', 'it\'s "quoted".md'],
      ["line\nbreak.md", "line\nbreak.md"],
      ["../../etc/passwd.md", "passwd.md"],
      ["..\\..\\windows\\a.md", "a.md"],
      ["100%41.md", "100%41.md"],
      // As programs send it that encode a whole name.
      ["%E8%8F%9C%E5%8D%95%20%C3%BCbrig%20(1).md", "菜单 übrig (1).md"],
      ["50%EF.md", "50%EF.md"],
    ] as const) {
      const { status, body } = await world.index(name, `# ${word()}`);
      expect([status, body.status, body.filename]).toEqual([200, "ready", kept]);
      expect((await world.get(`documents/${body.id}`)).body.filename).toBe(kept);
    }
  });

  it("comes from curl, names in its own way of writing them too", async () => {
    const names = ["菜单 übrig.md", 'quo"ted.md'];
    for (const name of names) writeFileSync(join(world.dir, name), `# ${word()}`);
    const quoted = (name: string): string =>
      `file=@"${join(world.dir, name).replaceAll('"', '\\"')}"`;
    const args = [
      "-sS",
      `${world.url}/v1/knowledge/upload`,
      "-H",
      `authorization: Bearer ${DESK}`,
      "-F",
      "wait=25",
    ];
    const { stdout } = await promisify(execFile)("curl", [
      ...args,
      ...names.flatMap((name) => ["-F", quoted(name)]),
    ]);
    const { data } = JSON.parse(stdout);
    expect(
      data.map(({ filename, status }: { filename: string; status: string }) => [filename, status]),
    ).toEqual(names.map((name) => [name, "ready"]));
    const large = join(world.dir, "large.txt");
    writeFileSync(large, `${word()} stands here. `.repeat(100_000));
    const sent = await promisify(execFile)("curl", [
      ...args,
      "-F",
      `file=@${large};type=text/plain`,
    ]);
    expect(JSON.parse(sent.stdout)).toMatchObject({ status: "ready", filename: "large.txt" });
  });

  it("of several files is a list; one that is refused keeps no other from being added", async () => {
    const text = `The ${word()}.`;
    await world.index("a.txt", text);
    const form = formOf("one.txt", `The ${word()}.`, { on_duplicate: "error", wait: "25" });
    form.append("file", new Blob([text]), "two.txt");
    form.append("file", new Blob([""]), "three.txt");
    const { status, body } = await world.upload(form);
    expect([status, body.object]).toEqual([200, "list"]);
    expect(body.data).toMatchObject([
      { filename: "one.txt", status: "ready", duplicate: false },
      { object: "error", filename: "two.txt", error: { code: "duplicate_document", param: null } },
      { filename: "three.txt", status: "failed", error: { code: "no_text_found" } },
    ]);
    expect(await world.upload(formOf("x.txt", text, { on_duplicate: "error" }))).toMatchObject({
      status: 409,
      body: { error: { code: "duplicate_document" } },
    });
  });
});

it("what a kill left of an upload is gone after the next start", async () => {
  const own = await documentsWorld();
  await own.index("a.txt", `The ${word()}.`);
  await own.gateway.stop();
  writeFileSync(join(own.dir, ".rouse/tmp/upload-1"), "half of it");
  expect(own.staged()).toEqual(["upload-1"]);
  const config = JSON.parse(readFileSync(join(own.dir, "rouse.json5"), "utf8")) as object;
  const again = await createWorld({ dir: own.dir, config });
  expect(own.staged()).toEqual([]);
  await again.stop();
});

describe("documents", () => {
  it("are listed newest first, page by page, and by what they are", async () => {
    const own = await documentsWorld();
    const made: string[] = [];
    for (const n of [1, 2, 3])
      made.unshift(
        (
          await own.index(
            `${n}.txt`,
            n === 2 ? "" : `text ${n}`,
            n === 3 ? { agent_id: "sales" } : {},
          )
        ).body.id,
      );
    const ids = async (query: string): Promise<unknown> => {
      const { status, body } = await own.get(`documents${query}`);
      return status === 200
        ? [body.data.map(({ id }: { id: string }) => id), body.has_more]
        : [status, body.error.param];
    };
    expect(await ids("")).toEqual([made, false]);
    expect(await ids("?limit=2")).toEqual([made.slice(0, 2), true]);
    expect(await ids(`?limit=2&after=${made[1]}`)).toEqual([made.slice(2), false]);
    expect(await ids("?status=failed")).toEqual([[made[1]], false]);
    expect(await ids("?agent_id=ops")).toEqual([made.slice(1), false]);
    for (const [query, param] of [
      ["?limit=0", "limit"],
      ["?status=done", "status"],
      ["?after=doc_no", "after"],
      ["?agent_id=no", "agent_id"],
    ] as const)
      expect(await ids(query)).toEqual([400, param]);
    // A program that removes what it has seen goes on behind it.
    expect((await own.del(`documents/${made[0]}`)).status).toBe(200);
    expect(await ids(`?after=${made[0]}`)).toEqual([made.slice(1), false]);
    await own.close();
  });

  it("are deleted with all of theirs", async () => {
    const one = word();
    const { body } = await world.index("a.txt", `The ${one}.`);
    expect(await world.search(one)).toHaveLength(1);
    expect((await world.del(`documents/${body.id}`)).body).toEqual({
      id: body.id,
      object: "knowledge.document.deleted",
      deleted: true,
    });
    expect(await world.search(one)).toEqual([]);
    expect([
      (await world.del(`documents/${body.id}`)).status,
      (await world.get(`documents/${body.id}`)).status,
    ]).toEqual([404, 404]);
    const db = new DatabaseSync(join(world.dir, ".rouse/knowledge.db"), { readOnly: true });
    for (const table of ["knowledge_files", "knowledge_file_parts"])
      expect(
        db.prepare(`SELECT count(*) AS n FROM ${table} WHERE sha256 = ?`).get(body.sha256),
      ).toEqual({ n: 0 });
    db.close();
  });

  it("are found in the forms of their own language", () => expectLanguages(world));
});

describe("who reaches what", () => {
  it("a key does what its scopes say", async () => {
    const { body } = await world.index("a.txt", `The ${word()}.`);
    const statuses = async (key: string) => [
      (await world.upload(formOf("b.txt", `The ${word()}.`), key)).status,
      (await world.get("documents", key)).status,
      (await world.get(`documents/${body.id}`, key)).status,
      (await world.call("/v1/knowledge/search", { query: "x" }, { key })).status,
      (await world.del(`documents/${body.id}`, key)).status,
    ];
    expect(await statuses(KEY)).toEqual([403, 403, 403, 403, 403]);
    expect(await statuses(READER)).toEqual([403, 200, 200, 200, 403]);
    expect(await statuses("")).toEqual([401, 401, 401, 401, 401]);
    expect(await statuses(STRANGER)).toEqual([202, 200, 404, 200, 404]);
    expect(await statuses(DESK)).toEqual([202, 200, 200, 200, 200]);
  });

  it("no tenant sees another's documents, nor that they are there", async () => {
    const one = word();
    const text = `The ${one} lives in one tenant.`;
    const { body } = await world.index("a.txt", text, { external_id: "tenant" });
    expect(await world.search(one, {}, STRANGER)).toEqual([]);
    const same = await world.index("a.txt", text, { external_id: "tenant" }, STRANGER);
    expect([same.body.duplicate, same.body.version, same.body.id === body.id]).toEqual([
      false,
      1,
      false,
    ]);
    const after = await world.get(`documents?after=${body.id}`, STRANGER);
    expect(after.body.data.map(({ id }: { id: string }) => id)).not.toContain(body.id);
    expect((await world.del(`documents/${same.body.id}`, STRANGER)).status).toBe(200);
    expect(await world.search(one)).toHaveLength(1);
  });

  it("a key for one agent sees what that agent may search, and changes what is that agent's alone", async () => {
    const [ops, sales, all] = [word(), word(), word()];
    const ofOps = await world.index("ops.txt", `The ${ops}.`, { agent_id: "ops" });
    const ofSales = await world.index("sales.txt", `The ${sales}.`, {}, SALES);
    const ofBoth = await world.index("all.txt", `The ${all}.`);
    expect([ofSales.body.agent_ids, ofBoth.body.agent_ids]).toEqual([["sales"], []]);
    const seen = async (of: object, key: string) =>
      (await Promise.all([ops, sales, all].map((one) => world.search(one, of, key)))).map(
        ({ length }) => length,
      );
    expect(await seen({}, SALES)).toEqual([0, 1, 1]);
    expect(await seen({}, DESK)).toEqual([1, 1, 1]);
    expect(await seen({ agent_id: "ops" }, DESK)).toEqual([1, 0, 1]);
    expect(await seen({ agent_id: ["ops", "sales"] }, DESK)).toEqual([1, 1, 1]);
    expect(
      (await world.call("/v1/knowledge/search", { query: "x", agent_id: "ops" }, { key: SALES }))
        .body.error.code,
    ).toBe("unknown_agent");
    expect(
      (await world.upload(formOf("x.txt", "x", { agent_id: ["sales", "ops"] }), SALES)).body.error,
    ).toMatchObject({
      code: "unknown_agent",
      param: "agent_id",
    });
    expect((await world.get(`documents/${ofOps.body.id}`, SALES)).status).toBe(404);
    const listed = (await world.get("documents?limit=100", SALES)).body.data.map(
      ({ id }: { id: string }) => id,
    );
    expect([
      listed.includes(ofSales.body.id),
      listed.includes(ofBoth.body.id),
      listed.includes(ofOps.body.id),
    ]).toEqual([true, true, false]);
    expect((await world.del(`documents/${ofOps.body.id}`, SALES)).status).toBe(404);
    expect((await world.del(`documents/${ofBoth.body.id}`, SALES)).body.error.code).toBe(
      "document_shared",
    );
    expect((await world.del(`documents/${ofSales.body.id}`, SALES)).status).toBe(200);
  });

  it("a key for one agent leaves the documents of others alone, whatever it uploads", () =>
    expectOwnership(world, word));

  it("a document that names no agents follows its key's agents", async () => {
    const key = "rk_moving-key-0123456789-0123456789";
    const scopes = ["knowledge:read", "knowledge:write"];
    const config = (agents: string[]) => ({ id: "moving", key, tenant: "moving", agents, scopes });
    const own = await documentsWorld({
      keys: [config(["sales"]), { id: "all", key: `${key}-all`, tenant: "moving", scopes }],
    });
    await own.index("a.txt", "The walrus.", {}, key);
    const opsSees = async () =>
      (await own.search("walrus", { agent_id: "ops" }, `${key}-all`)).length;
    expect(await opsSees()).toBe(0);
    const file = JSON.parse(readFileSync(join(own.dir, "rouse.json5"), "utf8")) as {
      platform: { apiKeys: { id: string }[] };
    };
    file.platform.apiKeys = file.platform.apiKeys.map((one) =>
      one.id === "moving" ? config(["sales", "ops"]) : one,
    );
    own.write("rouse.json5", file);
    expect(await own.gateway.reload()).toMatchObject({ ok: true });
    expect(await opsSees()).toBe(1);
    await own.close();
  });
});
