import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { RecordedFixture } from "../../src/operate/tests/fixture-record.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { expectProportional } from "../growth.ts";
import { createCli, type CliWorld } from "./world.ts";

let cli: CliWorld;
let world: World | undefined;
beforeEach(async () => {
  cli = await createCli();
});
afterEach(async () => {
  await world?.stop();
  world = undefined;
  await cli.close();
});

/** Posts a body to a gateway that has these mappings, and returns the id of its event. */
async function send(
  mappings: object[],
  body: unknown,
  { path = "shop", headers = {}, hooks = {} } = {},
): Promise<string> {
  world ??= await createWorld({
    dir: cli.dir,
    workers: false,
    config: { hooks: { mappings, ...hooks } },
  });
  const answer = await world.post(`/hooks/${path}`, body, headers);
  return answer.headers.get("x-request-id") ?? (answer.body.eventId as string);
}

async function add(id: string, ...args: string[]): Promise<RecordedFixture["file"]> {
  const { code, out, err } = await cli.rouse(["test", "add", id, "--json", ...args]);
  expect([code, err]).toEqual([0, ""]);
  const { written } = JSON.parse(out) as { written: string };
  expect((await cli.rouse("test")).code).toBe(0);
  return JSON.parse(await readFile(written, "utf8")) as RecordedFixture["file"];
}

const any = (change: object = {}): object => ({
  id: "any",
  messageTemplate: "Got {{payload}}",
  keepHeaders: ["x-sender"],
  ...change,
});

describe("masks of a fixture", () => {
  it("are equal for equal values in path, query, headers and body", async () => {
    const mail = "ada@shop.example";
    const id = await send(
      [any({ messageTemplate: "{{query.who}} {{payload}}" })],
      {
        customer: { email: mail },
        note: `by ${mail}`,
        [mail]: 1,
        byMail: { "bea@shop.example": 2 },
      },
      { path: `in/${mail}?who=${encodeURIComponent(mail)}`, headers: { "x-sender": `<${mail}>` } },
    );
    const { request } = await add(id);
    const { email } = (request.json as { customer: { email: string } }).customer;
    expect(email).toMatch(/^user1\w*@example\.com$/);
    expect(request).toMatchObject({
      path: `in/${email}`,
      query: { who: email },
      headers: { "x-sender": `<${email}>` },
      json: { note: `by ${email}`, [email]: 1 },
    });
    expect(JSON.stringify(request)).not.toMatch(/ada|bea/);
    const files = await readdir(join(cli.dir, "tests"), { recursive: true });
    expect(files.join("\n")).not.toContain("ada");
  });

  it("leave a path alone that is by chance a value of the body", async () => {
    const id = await send(
      [any({ match: { path: "github" } })],
      { sender: { login: "github" } },
      { path: "github" },
    );
    const { request } = await add(id);
    expect(request).toMatchObject({
      path: "github",
      json: { sender: { login: expect.not.stringContaining("github") } },
    });
  });

  it.each([
    "run.calls[].result.name",
    "payload.run.calls[].result.name",
    "run.calls[0].result.name",
    "run.calls.result.name",
  ])("reach into lists: --mask %s", async (field) => {
    const calls = ["Lovelace", "Hopper", "Lovelace"].map((name) => ({
      result: { name, ok: true },
    }));
    const id = await send([any({ match: { path: "shop" } })], { run: { calls, by: "Hopper" } });
    const { json } = (await add(id, "--mask", field)).request as {
      json: { run: { calls: { result: { name: string } }[]; by: string } };
    };
    const names = json.run.calls.map(({ result }) => result.name);
    expect(new Set([...names, "Lovelace", "Hopper"]).size).toBe(4);
    expect([names[0], names[1]]).toEqual([names[2], json.run.by]);
  });

  it("name the fields that a condition needs, also of two that change the outcome only together", async () => {
    const payload = { $or: [{ "a.email": "ada@shop.example" }, { "b.email": "bea@shop.example" }] };
    const id = await send([any({ match: { path: "shop", payload } })], {
      a: { email: "ada@shop.example" },
      b: { email: "bea@shop.example" },
      others: Array.from({ length: 40 }, (_, n) => `c${n}@shop.example`),
    });
    const { code, err } = await cli.rouse(`test add ${id}`);
    expect([code, err]).toEqual([
      1,
      expect.stringContaining("by payload.a.email, payload.b.email; nothing was written"),
    ]);
    expect(await readdir(cli.dir)).not.toContain("tests");
    expect((await cli.rouse(`test add ${id} --no-mask --name all`)).code).toBe(0);
    const { request, expect: wanted } = await add(id, "--keep", "a.email");
    expect(wanted).toMatchObject({ outcome: "accepted", mapping: "any" });
    expect(request.json).toMatchObject({
      a: { email: "ada@shop.example" },
      b: { email: expect.stringMatching(/^user\d/) },
    });
  });

  it("find values behind escapes of bodies that are no plain JSON", async () => {
    const mail = "ada@shop.example";
    const bodies = [
      [
        `{"id":12345678901234567890,"email":"${mail}","note":"x\\n${mail}\\u0020${mail}"}`,
        "application/json",
      ],
      [
        `email=${encodeURIComponent(mail)}&note=a%20ada%40shop.example%2C`,
        "application/x-www-form-urlencoded",
      ],
    ] as const;
    for (const [body, type] of bodies) {
      const id = await send([any()], body, { headers: { "content-type": type } });
      const { request } = await add(id);
      expect(request.text).not.toContain("ada");
      expect(request.text?.match(/user1\w*/g)?.length).toBe(body.split("ada").length - 1);
    }
  });

  it("give different values different stand-ins, however short, and never a value itself", async () => {
    const short = [
      ..."ABCDEFGHIJKLMNOPQRSTUVWXYZ",
      ..."abcdefghijklmnopqrstuvwxyz",
      ..."ÄÖÜäöü",
      "***",
      "—",
      "7",
      "8",
      "-3.5",
    ];
    const id = await send([any({ match: { path: "shop" } })], {
      users: short.map((login) => ({ login })),
      sum: { n: 9, m: 9, o: 1.5 },
    });
    const { json } = (await add(id, "--mask", "sum.n", "sum.o")).request as {
      json: { users: { login: string }[]; sum: { n: number; m: number; o: number } };
    };
    const made = json.users.map(({ login }) => login);
    expect(new Set(made).size).toBe(short.length);
    expect(made.filter((login) => short.includes(login))).toEqual([]);
    expect(json.sum).toEqual({ n: json.sum.m, m: expect.any(Number), o: expect.any(Number) });
    expect([json.sum.n === 9, json.sum.o === 1.5]).toEqual([false, false]);
  });

  it("find values in the bytes of a body that is no UTF-8", async () => {
    const text = '{"customer":{"name":"M\u00fcller"},"note":"from M\u00fcller"}';
    const type = "application/json; charset=iso-8859-1";
    const id = await send([any()], Buffer.from(text, "latin1"), {
      headers: { "content-type": type },
    });
    const { request } = await add(id);
    const masked = Buffer.from(request.base64 ?? "", "base64").toString("latin1");
    expect(masked).not.toContain("ller");
    const { customer, note } = JSON.parse(masked) as { customer: { name: string }; note: string };
    expect(note).toBe(`from ${customer.name}`);
  });

  it("find values in JSON that is a text of the body, however short", async () => {
    const id = await send([any({ match: { path: "shop" } })], {
      data: JSON.stringify({ user: { login: "Al" }, n: 1 }, null, 2),
    });
    const { json } = (await add(id)).request as { json: { data: string } };
    expect(json.data).toMatch(
      /^\{\n {2}"user": \{\n {4}"login": "(?!Al)\w+"\n {2}\},\n {2}"n": 1\n\}$/,
    );
  });

  it("stay numbers, however many short ones there are", async () => {
    const values = Array.from({ length: 12 }, (_, n) => ({ n: -(n + 0.5) }));
    const id = await send([any({ match: { path: "shop" } })], { values });
    const { json } = (await add(id, "--mask", "values.n")).request as {
      json: { values: object[] };
    };
    expect(json.values).toEqual(values.map(() => ({ n: expect.any(Number) })));
  });

  it("take no more time for each value of a body with many of them", async () => {
    await expectProportional(async (count) => {
      const rows = Array.from({ length: count }, (_, n) => ({
        email: `user.${n}@shop.example`,
        note: `mail of user.${n}@shop.example`,
      }));
      const id = await send(
        [any({ match: { path: "shop" } })],
        { rows },
        { hooks: { maxBodyBytes: 10_000_000 } },
      );
      const { request } = await add(id);
      expect(JSON.stringify(request)).not.toContain("shop.example");
    }, 800);
  });
});
