import { globSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createCli } from "../cli/world.ts";
import { ROOT } from "../deploy/world.ts";
import { parseCode, readCode, walk, type CodeFile } from "../structure/code.ts";

/** Phrases that users have to guess at, with what to write. `docs/glossary.md` has the words that pages use. */
const PHRASES: readonly (readonly [RegExp, string])[] = [
  [/\b(?:not|is|are|was|were|be) believed\b/, "rejected (authentication failed), accepted"],
  [/\bcom(?:e|es|ing) in again\b/, "is replayed, is delivered again"],
  [/\bcom(?:e|es|ing) to nothing\b/, "matches no mapping, has no effect"],
  [/\bexit code 0: well\b/, "exit code 0: success"],
  [/\b(?:worth|needs) a (?:second )?look\b/, "no problems found; needs attention"],
  [/\bbeside the outbox\b/, "bypassing the outbox"],
  [/\bholds up and\b/, "cannot block"],
  [/\bas good as nothing\b/, "is treated as absent"],
  [/\bfound until then\b/, "stays searchable until"],
  [/\b(?:[Tt]ells?|[Ss]ays?) how [^.]* (?:do|does)\b/, "probes, shows the state of"],
  [/\| (?:told|wanted) +\|/, "target, measured, n/a"],
  [
    /\b(?:is|are|was|were|be|been) told\b|\btold (?:apart|between)\b/,
    "gets, is informed, is reported",
  ],
  [/\b(?:heard|unheard|cannot hear|hears? nothing)\b/, "received, reached"],
  [/\b[Ww]here (?:nobody|none|no one|nothing|that|this|there (?:is|are|was|were))\b/, "if"],
  [/(?:^|[.:;] |- )Where [^.,|]{3,60},/, "if"],
  [
    /\b(?:anew|afresh|in the midst|gone on with|turned away)\b/,
    "again, during, continued, rejected",
  ],
  [/\b(?:of|under the mappings of) now\b/, "current"],
  [/\b(?:let|lets) [\w' ]+ come in\b/, "replay"],
  [/\bthe others\b/, "the noun"],
];

/** Further phrases in comments and messages. Pages may use these words in examples. */
const CODE_PHRASES: typeof PHRASES = [
  ...PHRASES,
  [/\bat once\b/, "immediately, at the same time, together"],
  [/\b[Nn]obody\b/, "the actor, or the passive of the condition"],
  [/\btold\b/, "reported, published, informed"],
  [/\b(?:[Tt]rue|[Ff]alse|[Uu]ndefined|[Nn]ull|[Nn]othing) where\b/, "if"],
  [/\b(?:is|are) worth\b/, "warning, problem"],
];

/** Sentences for people on channels, who read plain words rather than those of the glossary. */
const FOR_PEOPLE = ["I cannot answer right now; my operator has been told."];

/** Files of src that are not written in these words yet. The list may only get shorter. */
const PENDING_FILE = join(import.meta.dirname, "prose-pending.json");
const PENDING = JSON.parse(readFileSync(PENDING_FILE, "utf8")) as string[];

const PAGES = globSync(["*.md", "docs/**/*.md", "plugins/*/README.md"], { cwd: ROOT })
  // Its examples have names of the plugin interface that are on the list.
  .filter((page) => page !== "docs/plugins.md")
  .toSorted();

/** Returns the tell-tale phrases of a text as `name:line: phrase → what to write`. */
function findPhrases(name: string, text: string, phrases = PHRASES, firstLine = 1): string[] {
  return FOR_PEOPLE.reduce((rest, sentence) => rest.replaceAll(sentence, ""), text)
    .split("\n")
    .flatMap((line, index) =>
      phrases.flatMap(([phrase, instead]) =>
        (phrase.exec(line) ?? [])
          .slice(0, 1)
          .map((found) => `${name}:${index + firstLine}: "${found}" → ${instead}`),
      ),
    );
}

/** Returns the tell-tale phrases in the comments and the texts of a file. A text without a space is a name. */
function findInCode({ path, text, program, comments }: CodeFile): string[] {
  const passages = comments.map(({ value, start }) => ({ value, start }));
  walk(program, (node) => {
    if (node.type === "Literal" && typeof node.value === "string")
      passages.push({ value: node.value, start: node.start });
    if (node.type === "TemplateElement")
      passages.push({ value: node.value.cooked ?? "", start: node.start });
  });
  return passages
    .filter(({ value }) => value.trim().includes(" "))
    .flatMap(({ value, start }) => {
      const line = text.slice(0, start).split("\n").length;
      // A phrase may go over the end of a line.
      return findPhrases(path, value.replaceAll(/\s*\n[\s*]*/g, " "), CODE_PHRASES, line);
    });
}

it("prose: a phrase is found with its line", () => {
  expect(findPhrases("page", "fine\nHooks that come to nothing.")).toEqual([
    'page:2: "come to nothing" → matches no mapping, has no effect',
  ]);
});

it("prose: a phrase is found in comments and texts of code, also across lines, and in no name", () => {
  const code =
    '/** Fine.\n * All at\n * once. */\nconst nobody = "nobody";\n// Fine.\nlog(`${nobody} was told of ${1}`, "is believed");\n';
  expect(findInCode(parseCode("a.ts", code)).map((found) => found.replace(/ →.*/, ""))).toEqual([
    'a.ts:1: "at once"',
    'a.ts:6: "was told"',
    'a.ts:6: "told"',
    'a.ts:6: "is believed"',
  ]);
});

it("the comments and messages of src are written in the words of the glossary", () => {
  const found = new Map(readCode(["src"]).map((file) => [file.path, findInCode(file)]));
  const pending = new Set(PENDING);
  expect([...found].flatMap(([path, phrases]) => (pending.has(path) ? [] : phrases))).toEqual([]);
  const done = PENDING.filter((path) => (found.get(path) ?? []).length === 0);
  // `UPDATE_DOCS=1 npx vitest run test/docs/prose.test.ts` takes these files off the list.
  if (process.env["UPDATE_DOCS"])
    writeFileSync(
      PENDING_FILE,
      `${JSON.stringify(
        PENDING.filter((path) => !done.includes(path)),
        null,
        2,
      )}\n`,
    );
  else expect(done).toEqual([]);
});

it.each(PAGES)("%s is written in the words of the glossary", (page) => {
  expect(findPhrases(page, readFileSync(join(ROOT, page), "utf8"))).toEqual([]);
});

describe("the command line's help", () => {
  it("is written in the words of the glossary", async () => {
    const cli = await createCli();
    const helps: string[] = [];
    try {
      const waiting: string[][] = [[]];
      for (let path = waiting.pop(); path; path = waiting.pop()) {
        const { out } = await cli.rouse([...path, "--help"]);
        const [, commands = ""] = /^Commands:\n([^]*?)(?:\n\n|$)/m.exec(out) ?? [];
        for (const [, name = ""] of commands.matchAll(/^ {2}([a-z-]+)/gm))
          if (name !== "help") waiting.push([...path, name]);
        helps.push(...findPhrases(`rouse ${path.join(" ")} --help`, out));
      }
    } finally {
      await cli.close();
    }
    expect(helps).toEqual([]);
  });
});
