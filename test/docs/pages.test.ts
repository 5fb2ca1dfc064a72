import { existsSync, globSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { RUN_STATUSES } from "../../src/vocabulary/outcomes.ts";
import { misunderstood, ROOT } from "../deploy/world.ts";

/** Pages for users and contributors are held to the repository: links, files, folders and commands that they name. */
const glob = (...patterns: string[]): string[] => globSync(patterns, { cwd: ROOT }).toSorted();
const read = (file: string): string => readFileSync(join(ROOT, file), "utf8");
const withoutBlocks = (text: string): string => text.replaceAll(/^```[^]*?^```$/gm, "");

const PAGES = glob("*.md", ".github/*.md", "docs/**/*.md", "plugins/*/README.md");
const DECISIONS = glob("docs/adr/[0-9]*.md");
const TEMPLATES = glob(".github/ISSUE_TEMPLATE/*.yml", ".github/*.md");
const FORMS = TEMPLATES.filter(
  (file) => file.includes("ISSUE_TEMPLATE") && !file.endsWith("config.yml"),
);
/** Pages that name files of the repository. */
const NAMING = [
  "CONTRIBUTING.md",
  "docs/architecture.md",
  "docs/adr/README.md",
  ...DECISIONS,
  ...TEMPLATES,
];
const { scripts, exports } = JSON.parse(read("package.json")) as {
  scripts: object;
  exports: object;
};

const codeIn = (file: string): string[] =>
  [...withoutBlocks(read(file)).matchAll(/`([^`\n]+)`/g)].map(([, code = ""]) => code);

/** The anchors of a page, as GitHub makes them. */
const anchorsOf = (file: string): string[] =>
  [...withoutBlocks(read(file)).matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
      .replaceAll(" ", "-"),
  );

function isThere(page: string, link: string): boolean {
  const [path = "", anchor] = link.split("#");
  const file = path === "" ? page : join(dirname(page), path);
  return existsSync(join(ROOT, file)) && (anchor === undefined || anchorsOf(file).includes(anchor));
}

it.each(PAGES)("every link of %s leads somewhere", (page) => {
  const links = [
    ...withoutBlocks(read(page))
      .replaceAll(/`[^`\n]*`/g, "code")
      .matchAll(/\]\((?![a-z]+:)([^)\s]+)\)/g),
  ].map(([, link = ""]) => link);
  expect(links.filter((link) => !isThere(page, link))).toEqual([]);
});

/** True if a path is in the repository, in a package, or among the exports of this package. `<id>` stands for any name. */
function exists(path: string): boolean {
  const [first, ...rest] = path.split("/");
  if (first === "rouse") return Object.keys(exports).includes([".", ...rest].join("/"));
  return (
    glob(path.replaceAll(/<\w+>/g, "*")).length > 0 || existsSync(join(ROOT, "node_modules", path))
  );
}
const isPath = (word: string): boolean =>
  /^[\w.<>-]+(?:\/[\w.<>-]*)+$/.test(word) || /^[\w.-]+\.(?:ts|js|json|md|yml)$/.test(word);

it.each(NAMING)("every file that %s names is there", (page) => {
  const paths = codeIn(page).flatMap((code) => code.split(" ").filter(isPath));
  expect(paths.filter((path) => !exists(path))).toEqual([]);
  if (page.endsWith("CONTRIBUTING.md") || DECISIONS.includes(page))
    expect(paths.length).toBeGreaterThan(1);
});

it.each(["CHANGELOG.md", "SECURITY.md", ...NAMING])(
  "every command that %s names is there",
  async (page) => {
    const code = codeIn(page);
    const named = code.flatMap((text) => /^npm run (?:-s )?([a-z:]+)/.exec(text)?.[1] ?? []);
    expect(named.filter((name) => !Object.keys(scripts).includes(name))).toEqual([]);
    for (const text of code.filter((one) => /^rouse [a-z-]/.test(one))) {
      const args = text.split(" ").slice(1);
      expect([
        text,
        await misunderstood(args.filter((word) => /^(?:--)?[a-z][a-z-]*$/.test(word))),
      ]).toEqual([text, []]);
    }
  },
);

describe("the documentation", () => {
  it("has an index that lists every page once", () => {
    const listed = [...read("docs/README.md").matchAll(/^- \[[^\]]+\]\(([^)]+)\)/gm)].map(
      ([, link = ""]) => join("docs", link),
    );
    const pages = PAGES.filter(
      (page) =>
        /^(?:[A-Z]+\.md$|docs\/)/.test(page) &&
        page !== "docs/README.md" &&
        !DECISIONS.includes(page),
    );
    expect(listed.toSorted()).toEqual(pages.toSorted());
  });

  it("explains each state of a run", () => {
    const rows = [...read("docs/runs.md").matchAll(/^\| `(\w+)` +\|/gm)].map(([, state]) => state);
    expect(new Set(rows)).toEqual(new Set(RUN_STATUSES));
    expect(rows).toHaveLength(RUN_STATUSES.length);
  });

  it("README and the page about the source fit on two screens", () => {
    expect(read("README.md").split("\n").length).toBeLessThanOrEqual(150);
    expect(read("docs/architecture.md").split("\n").length).toBeLessThanOrEqual(100);
  });

  it.each(PAGES)("%s has no install command for a package that is in no registry", (page) => {
    const text = read(page);
    const packed = text.search(/npm install \S*\/?rouse-\*\.tgz/);
    const wrong =
      text.match(
        /\bnpm (?:i|install|add|create|init)(?: -\S+)* (?:create-)?rouse(?:-plugin)?(?:@\S*)?(?=[\s`]|$)/gm,
      ) ?? [];
    const npx = text.search(/\bnpx (?:-\S+ )*rouse\b/);
    expect([wrong, npx >= 0 && (packed < 0 || packed > npx)]).toEqual([[], false]);
  });
});

describe("docs/architecture.md", () => {
  it("has every folder of the source in its map, once", () => {
    const map = [...read("docs/architecture.md").matchAll(/^\| `(src\/[\w-]+\/)` +\|/gm)].map(
      ([, folder = ""]) => folder,
    );
    const folders = readdirSync(join(ROOT, "src"), { withFileTypes: true }).filter((entry) =>
      entry.isDirectory(),
    );
    expect(map.toSorted()).toEqual(folders.map(({ name }) => `src/${name}/`).toSorted());
  });
});

describe("CONTRIBUTING.md", () => {
  it("says in about ten points each how to add a channel, a preset and a scheme", () => {
    const sections = read("CONTRIBUTING.md").split(/^## /m);
    for (const kind of ["channel", "preset", "scheme"]) {
      const points =
        sections.find((section) => section.startsWith(`Add a ${kind}\n`))?.match(/^\d+\. /gm) ?? [];
      expect([kind, points.length >= 5 && points.length <= 10]).toEqual([kind, true]);
    }
  });
});

describe("decisions", () => {
  it("are numbered one after the other, and listed with their titles", () => {
    expect(DECISIONS.map((file) => Number(/(\d{4})-/.exec(file)?.[1]))).toEqual(
      DECISIONS.map((_, index) => index + 1),
    );
    const index = read("docs/adr/README.md");
    for (const file of DECISIONS) expect(index).toContain(`(${file.slice("docs/adr/".length)})`);
  });

  it.each(DECISIONS)("%s says why, what, what follows and what shows it, on one page", (file) => {
    const text = read(file);
    expect([...text.matchAll(/^## (.*)$/gm)].map(([, heading]) => heading)).toEqual([
      "Context",
      "Decision",
      "Consequences",
      "Evidence",
    ]);
    expect(text.split(/\s+/).length).toBeLessThan(450);
    expect(codeIn(file).some((code) => /^test\/.*\.test\.ts$/.test(code))).toBe(true);
  });
});

it("the changelog keeps its form: what is not released first, changes below the usual headings", () => {
  const text = read("CHANGELOG.md");
  const versions = [...text.matchAll(/^## (.*)$/gm)].map(([, heading = ""]) => heading);
  expect(versions[0]).toBe("Unreleased");
  expect(
    versions.slice(1).filter((heading) => !/^\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d$/.test(heading)),
  ).toEqual([]);
  const kinds = new Set([...text.matchAll(/^### (.*)$/gm)].map(([, heading = ""]) => heading));
  expect(["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]).toEqual(
    expect.arrayContaining([...kinds]),
  );
  expect(kinds.size).toBeGreaterThan(1);
});

describe("issue templates", () => {
  it("are there for a bug, a sender and a channel", () => {
    expect(FORMS.map((file) => file.split("/").at(-1))).toEqual([
      "bug.yml",
      "channel.yml",
      "sender.yml",
    ]);
  });

  it.each(FORMS)("%s is a form as GitHub takes it", (file) => {
    interface Field {
      type: string;
      id?: string;
      attributes: { label?: string; value?: string; options?: unknown[] };
      validations?: { required?: boolean };
    }
    const { name, description, body } = parse(read(file)) as {
      name?: string;
      description?: string;
      body: Field[];
    };
    expect([name, description].every((text) => typeof text === "string" && text !== "")).toBe(true);
    const fields = body.filter(({ type }) => type !== "markdown");
    expect(
      fields.filter(({ type }) => !["input", "textarea", "dropdown", "checkboxes"].includes(type)),
    ).toEqual([]);
    expect(new Set(fields.map(({ id }) => id)).size).toBe(fields.length);
    expect(
      fields.filter(({ id, attributes }) => !/^[\w-]+$/.test(id ?? "") || !attributes.label),
    ).toEqual([]);
    expect(
      fields.filter(
        ({ type, attributes }) =>
          ["dropdown", "checkboxes"].includes(type) && !attributes.options?.length,
      ),
    ).toEqual([]);
    expect(fields.some(({ validations }) => validations?.required)).toBe(true);
    expect(body.filter(({ type, attributes }) => type === "markdown" && !attributes.value)).toEqual(
      [],
    );
  });
});
