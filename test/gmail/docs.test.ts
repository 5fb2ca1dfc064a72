import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, it } from "vitest";
import { z } from "zod";
import gmail from "../../plugins/gmail/index.ts";
import { gmailConfig } from "../../plugins/gmail/config.ts";
import { parseHttpSample } from "../../src/contract/http-sample.ts";

const FILE = resolve(import.meta.dirname, "../../docs/gmail.md");

interface Field {
  description?: string;
  default?: unknown;
  properties?: Record<string, Field>;
}

/** The rows of the page's table, from the schema; `endpoints` by its members. */
function rows(): string[] {
  const { properties = {} } = z.toJSONSchema(gmailConfig, { io: "input" }) as Field;
  const row = (name: string, { description, default: value }: Field): string =>
    `| \`${name}\` | ${value === undefined ? "" : `\`${JSON.stringify(value)}\``} | ${description} |`;
  return Object.entries(properties).flatMap(([name, field]) =>
    field.properties
      ? Object.entries(field.properties).map(([inner, its]) => row(`${name}.${inner}`, its))
      : [row(name, field)],
  );
}

const TABLE = /(?<=\| `hooks\.gmail\.`[^\n]*\n\|[^\n]*\n)(?:\|[^\n]*\n)+/;
const cells = (row: string): string[] => row.split("|").map((cell) => cell.trim());

it("docs/gmail.md: the table of options is that of the schema", () => {
  // `UPDATE_DOCS=1 npx vitest run test/gmail/docs.test.ts` writes it anew; oxfmt lays it out.
  if (process.env["UPDATE_DOCS"])
    writeFileSync(
      FILE,
      readFileSync(FILE, "utf8").replace(TABLE, () => `${rows().join("\n")}\n`),
    );
  const [table = ""] = TABLE.exec(readFileSync(FILE, "utf8")) ?? [];
  expect(table.trim().split("\n").map(cells)).toEqual(rows().map(cells));
});

it("gmail: the preset's sample is a batch of the watcher", () => {
  const { body } = parseHttpSample(
    "batch",
    readFileSync(resolve(import.meta.dirname, "../fixtures/gmail/batch.http"), "utf8"),
  );
  expect(gmail.presets?.[0]?.samples?.["message"]?.body).toEqual(JSON.parse(body));
});
