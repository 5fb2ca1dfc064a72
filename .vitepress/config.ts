/** The documentation site: `npm run docs:site` builds the repository's own pages into `site/`. */
import { cpSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { defineConfig, type DefaultTheme, type MarkdownEnv, type MarkdownOptions } from "vitepress";

const ROOT = resolve(import.meta.dirname, "..");
const INDEX = "docs/README.md";
/** Files that are no pages and that pages link to, such as `deploy/compose/compose.yaml`. The site has a copy of each. */
const linkedFiles = new Set<string>();

/** The groups of the index page, each with its links: the index is the only list of pages. */
function buildSidebar(): DefaultTheme.SidebarItem[] {
  const [, ...groups] = readFileSync(join(ROOT, INDEX), "utf8").split(/^## /m);
  return groups.map((group) => ({
    text: group.slice(0, group.indexOf("\n")),
    items: [...group.matchAll(/^- \[([^\]]+)\]\(([^)]+)\)/gm)].map(([, text = "", link = ""]) => ({
      text: text.replaceAll("`", ""),
      link: `/${join(dirname(INDEX), link).replace(/(?:README)?\.md$/, "")}`,
    })),
  }));
}

/** Returns the anchor that GitHub gives a heading, so that a link works on both. */
export function getAnchor(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .replaceAll(" ", "-");
}

/** Makes links between files of the repository links of the site. */
const adaptLinks: NonNullable<MarkdownOptions["config"]> = (md) => {
  md.core.ruler.push("repository-links", ({ tokens, env }) => {
    for (const token of tokens.flatMap(({ children }) => children ?? [])) {
      const href = token.type === "link_open" ? token.attrGet("href") : null;
      if (href === null || /^(?:[a-z]+:|#)/.test(href)) continue;
      if (/\.md(?:#|$)/.test(href))
        token.attrSet("href", href.replace(/README\.md(?=#|$)/, "index.md"));
      else {
        linkedFiles.add(join(dirname((env as MarkdownEnv).path), href));
        token.attrSet("target", "_self");
      }
    }
  });
};

/** Keeps `{{ }}` in a line's code as it is: pages are templates of Vue. */
const keepBraces: NonNullable<MarkdownOptions["config"]> = (md) => {
  const render = md.renderer.rules.code_inline;
  md.renderer.rules.code_inline = (tokens, index, ...rest) => {
    tokens[index]?.attrSet("v-pre", "");
    return render?.(tokens, index, ...rest) ?? "";
  };
};

export default defineConfig({
  title: "Rouse",
  description: "Turns webhooks into work for AI agents.",
  outDir: "site",
  srcExclude: ["!(docs)/**/*.md"],
  rewrites: (page) => page.replace(/README\.md$/, "index.md"),
  head: [
    ["link", { rel: "icon", href: "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'/>" }],
  ],
  markdown: {
    anchor: { slugify: getAnchor },
    config: (md) => [adaptLinks, keepBraces].forEach((change) => change(md)),
  },
  themeConfig: {
    nav: [{ text: "Documentation", link: "/docs/" }],
    sidebar: buildSidebar(),
    search: { provider: "local" },
    outline: [2, 3],
  },
  vite: { build: { target: "es2022" } },
  buildEnd({ outDir }) {
    for (const file of linkedFiles) cpSync(file, join(outDir, file.slice(ROOT.length)));
  },
});
