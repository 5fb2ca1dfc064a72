import { describe, expect, it } from "vitest";
import { toDiscord } from "../../plugins/discord/format.ts";
import { toMattermost } from "../../plugins/mattermost/format.ts";
import { toTeams } from "../../plugins/msteams/format.ts";
import { toHtml } from "../../plugins/telegram/format.ts";
import { cleanReply } from "../../src/agent/disarm.ts";
import { findLive } from "../agent/markdown-judge.ts";

/** Replies are not escaped before: what renders them does it, for its vendor. */
const SAID = [
  "a <b>x</b> <img src=http://x.example/p> std::vector<int>",
  '<div>\n<img src="http://x.example">\n</div>',
  "![a](http://x.example/p) <style>p{background:url(http://x.example)}</style>",
].join("\n\n");

describe("HTML in a reply", () => {
  it("is text in Telegram's HTML", () => {
    const html = toHtml(cleanReply(SAID).text);
    expect(html).not.toMatch(/<(?!a href="|\/a>)/);
    expect(html).toContain("&lt;b&gt;x&lt;/b&gt;");
    expect(html).toContain("std::vector&lt;int&gt;");
  });

  it.each([
    ["Discord", toDiscord],
    ["Mattermost", toMattermost],
    ["Teams", toTeams],
  ])("fetches nothing from outside in the markdown of %s", (_name, format) => {
    expect(findLive(format(cleanReply(SAID).text))).toEqual([]);
  });
});
