import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Explanation } from "../../src/operate/records/explain.ts";
import type { RecordedFixture } from "../../src/operate/tests/fixture-record.ts";
import type { HookShape } from "../../src/operate/shapes/shape.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { createCli, type CliWorld } from "./world.ts";

/** JSON of so many lists in each other. */
const nested = (levels: number): string => `${"[".repeat(levels)}1${"]".repeat(levels)}`;
const rows = (bytes: number): string => {
  const row = (n: number): object => ({ id: n, name: `row ${n}`, text: "x".repeat(900) });
  return JSON.stringify({ rows: Array.from({ length: Math.ceil(bytes / 940) }, (_, n) => row(n)) });
};
const JSON_TYPE = "application/json";
const FORM = "application/x-www-form-urlencoded";

interface Case {
  body: string | Buffer;
  type?: string;
  outcome: "accepted" | "unmatched" | "rejected";
  /** A field that the shape of the hook has then; null if the body says nothing about fields. */
  field: string | null;
  /** The form in which the fixture keeps the body. */
  kept?: "json" | "text" | "base64";
}

const CASES: [name: string, Case][] = [
  ["of 4 MB", { body: rows(4_000_000), outcome: "accepted", field: null }],
  [
    "of 600 KB of what looks private",
    {
      body: JSON.stringify({ text: "+44 ada@ -----BEGIN ".repeat(30_000) }),
      outcome: "accepted",
      field: null,
    },
  ],
  ["of too many levels", { body: nested(201), outcome: "rejected", field: null, kept: "json" }],
  [
    "of invalid UTF-8",
    {
      body: Buffer.from([0x7b, 0x22, 0x61, 0x22, 0x3a, 0x22, 0xff, 0xfe, 0x22, 0x7d]),
      outcome: "rejected",
      field: null,
      kept: "base64",
    },
  ],
  [
    "in Latin 1",
    {
      body: Buffer.from('{"a":"M\u00fcller"}', "latin1"),
      type: "application/json; charset=iso-8859-1",
      outcome: "accepted",
      field: "a",
      kept: "base64",
    },
  ],
  [
    "of a form",
    {
      body: "a=1&a=2&mail=ada%40shop.example&b=x+y",
      type: FORM,
      outcome: "accepted",
      field: "mail",
      kept: "text",
    },
  ],
  [
    "of XML",
    {
      body: "<order><id>7</id></order>",
      type: "text/xml",
      outcome: "accepted",
      field: null,
      kept: "text",
    },
  ],
  ["that is empty", { body: "", outcome: "accepted", field: null, kept: "text" }],
  [
    "with __proto__",
    { body: '{"__proto__":{"type":"order"},"a":1}', outcome: "accepted", field: "__proto__.type" },
  ],
  [
    "with a number that JavaScript changes",
    { body: '{"id":12345678901234567890}', outcome: "accepted", field: "id", kept: "text" },
  ],
  [
    "with markup and control characters",
    {
      body: '{"t":"<script>\\u001b[31m</script>\\u0000\\u202e","c":"\u009b31m","<b>\\u001b]0;x\\u0007":{"\\u202e\\n":1}}',
      type: "text/json",
      outcome: "accepted",
      field: "t",
    },
  ],
];

let cli: CliWorld;
let world: World;
beforeAll(async () => {
  cli = await createCli();
  const mappings = [
    ...CASES.map((_, n) => ({
      id: `any${n}`,
      match: { path: `any${n}` },
      messageTemplate: "Got {{payload}}",
    })),
    { id: "named", match: { path: "named" }, body: "text", messageTemplate: "Got {{payload}}" },
  ];
  world = await createWorld({
    dir: cli.dir,
    workers: false,
    config: { hooks: { maxBodyBytes: 5_000_000, mappings } },
  });
});
afterAll(async () => {
  await world.stop();
  await cli.close();
});

// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const CONTROLS = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/;

it.each(CASES.map(([name, given], n) => ({ name, path: `any${n}`, given })))(
  "a body $name is shown as text and decided the same everywhere",
  async ({ path, given }) => {
    const { body, type = JSON_TYPE, outcome, field, kept = "json" } = given;
    const answer = await world.post(`/hooks/${path}`, body, { "content-type": type });
    const id = answer.headers.get("x-request-id") ?? (answer.body.eventId as string);
    /** Runs a command that must work, and whose output a terminal must show as it is. */
    const rouse = async (...args: string[]): Promise<string> => {
      const { code, out, err } = await cli.rouse(args);
      expect([args.join(" "), code, err]).toEqual([args.join(" "), 0, expect.any(String)]);
      if (!args.includes("--json")) expect(CONTROLS.exec(out + err)).toBeNull();
      return out;
    };
    expect(await rouse("explain", id)).toContain(outcome);

    const { explanation } = JSON.parse(await rouse("explain", id, "--json")) as {
      explanation: Explanation;
    };
    expect(explanation.event.outcome).toBe(outcome);
    if (outcome === "accepted")
      expect(explanation).toMatchObject({
        note: null,
        evaluation: { mapping: path, outcome: "actions" },
      });
    else
      expect([explanation.evaluation, explanation.note]).toEqual([
        null,
        expect.stringContaining("the body cannot be read: "),
      ]);
    await rouse("test", "add", id, "--name", "body");
    const file = join(cli.dir, `tests/${path}/body.json5`);
    const text = await readFile(file, "utf8");
    expect(CONTROLS.exec(text)).toBeNull();
    const fixture = JSON.parse(text) as RecordedFixture["file"];
    expect([fixture.expect.outcome, fixture.request[kept] === undefined]).toEqual([outcome, false]);
    if (kept === "text" && !text.includes("user1")) expect(fixture.request.text).toBe(body);
    if (kept === "base64")
      expect(fixture.request.base64).toBe(Buffer.from(body).toString("base64"));
    expect(await rouse("test", `tests/${path}`)).toBe("1 fixture: 1 as expected\n");
    await writeFile(file, text.replace(`"outcome": "${outcome}"`, '"outcome": "skipped"'));
    const red = await cli.rouse(["test", `tests/${path}`]);
    expect([red.code, red.out, CONTROLS.exec(red.out)]).toEqual([
      1,
      expect.stringContaining("expect.outcome"),
      null,
    ]);

    const { shape } = JSON.parse(await rouse("hooks", path, "--json")) as {
      shape: HookShape;
    };
    const names = shape.fields.map(({ name }) => name);
    if (field === null) expect(names.filter((name) => !name.endsWith("[]"))).toEqual([]);
    else expect(names).toContain(field);
    await rouse("hooks", path);

    await writeFile(join(cli.dir, "body"), body);
    for (const input of [
      ["--event", id],
      ["--payload", "body", "--content-type", type],
    ]) {
      const { code, out, err } = await cli.rouse(["hooks", "test", path, ...input]);
      expect(CONTROLS.exec(out + err)).toBeNull();
      if (outcome === "accepted")
        expect([code, out]).toEqual([0, expect.stringContaining(`action 1: agent by ${path}`)]);
      else expect([code > 0, err]).toEqual([true, expect.stringMatching(/body|JSON|levels|type/)]);
    }
  },
);

it("a body is tested as its mapping says it is read", async () => {
  const body = '{ "id": 7 }';
  await writeFile(join(cli.dir, "body"), body);
  const { eventId } = (await world.post("/hooks/named", body, { "content-type": JSON_TYPE }))
    .body as { eventId: string };
  for (const input of [
    ["--event", eventId],
    ["--payload", "body", "--content-type", JSON_TYPE],
  ])
    expect((await cli.rouse(["hooks", "test", "named", ...input])).out).toContain(`Got ⟦${body}⟧`);
});
