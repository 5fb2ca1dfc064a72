import { expect, it } from "vitest";
import { takeQuotes, toText } from "../../plugins/msteams/html.ts";
import { readParts as readTelegram } from "../../plugins/telegram/content.ts";
import { findNumber } from "../../src/channel-kit/api.ts";
import { expectProportional } from "../growth.ts";
import { IMAGE, lastText, openWorld, ask, pass } from "./contents.ts";
import { BOT } from "./telegram-server.ts";
import { samplesOf } from "./samples.ts";
import { VENDORS, type Vendor } from "./vendors.ts";

const get = (id: string): Vendor => VENDORS.find((vendor) => vendor.id === id) as Vendor;

const user = { id: 5, is_bot: false, first_name: "Vera", last_name: "Stone" };
for (const vendor of VENDORS.filter(({ id }) => samplesOf(id).pointedAt))
  it(`${vendor.id}: the agent gets what people point at`, async () => {
    const { start } = vendor;
    const opened = await openWorld({ ...vendor, start: async () => named(await start()) });
    for (const { what, text, more, shown } of samplesOf(vendor.id).pointedAt ?? []) {
      await ask(opened, opened.far.sends.raw(text, more));
      expect(lastText(opened.provider), what).toContain(shown);
    }
  });

/** The people whom Slack knows. */
function named<T extends Awaited<ReturnType<Vendor["start"]>>>(far: T): T {
  far.sends.name?.("U0VERA0001", "Vera Stone");
  return far;
}

const group = { chat: { id: -1001234567890, type: "supergroup", title: "Friday" } };
const answered = { message_id: 1, date: 1, ...group, from: BOT, text: "Yes?" };

for (const vendor of VENDORS)
  it.each(samplesOf(vendor.id).calls ?? [])(
    `${vendor.id}: people of a group address the agent by $what`,
    async ({ text, more }) => {
      const opened = await openWorld(vendor);
      expect(await ask(opened, opened.far.sends.raw(text, more))).not.toBe("");
    },
  );

const FORWARD = '<blockquote itemtype="http://schema.skype.com/Forward">';
const REPLY = '<blockquote itemscope itemtype="http://schema.skype.com/Reply" itemid="1">';

it.each<[string, string, string[]]>([
  ["<p>mine</p>", "<p>mine</p>", []],
  [`a${FORWARD}b</blockquote>c`, "ac", ["b"]],
  [`a${FORWARD}b${REPLY}c</blockquote>d</blockquote>e`, "ae", [`b${REPLY}c</blockquote>d`]],
  [`${REPLY}a</blockquote>b${FORWARD}c</blockquote>`, "b", ["a", "c"]],
  [`a${FORWARD}b`, "a", ["b"]],
  ["a<blockquote>b</blockquote>c", "a<blockquote>b</blockquote>c", []],
])("msteams: of %s only %s is the sender's own", (html, own, others) => {
  const taken = takeQuotes(html);
  expect([taken.own, taken.quotes.map((quote) => quote.html)]).toEqual([own, others]);
});

it.each([
  ["<p>a</p><pre><code>b<br>c</code></pre><p>d</p>", "a\nb\nc\nd"],
  ["<codeblock><code>a</code></codeblock><p>b</p>", "a\nb"],
  ["<ul><li>a<ol><li>b</li></ol></li></ul>", "a\nb"],
  ['<p>a <emoji id="smile" alt="🙂" title="Smile"></emoji></p>', "a 🙂"],
  [`<p title='<'>a <b title="it's <">b</b></p>`, "a b"],
  [`<p title=don't>a <b title = ">" id=5">b</b> 'c'</p>`, "a b 'c'"],
])("msteams: of %s a reader sees lines and signs", (html, text) => {
  expect(toText(html)).toBe(text);
});

it.each(["<", `<"'`, `<="`, `<= '`])(
  "msteams: reads %s that never ends in a time that grows with its number",
  (mark) => expectProportional((size) => toText(mark.repeat(size)), 20_000 / mark.length),
);

it.each([
  [145, "EUR", "1.45 EUR"],
  [500, "JPY", "500 JPY"],
  [50, "XTR", "50 XTR"],
  [1500, "IQD", "1.500 IQD"],
])("telegram: an invoice of %i %s reads %s", (total_amount, currency, shown) => {
  const invoice = { title: "Bill", description: "Tea", currency, total_amount };
  expect(readTelegram({ invoice } as never).map(({ text }) => text)).toContain(
    `[invoice] Bill\nTea\n${shown}`,
  );
});

it("imessage: people of a group address the agent by an answer", async () => {
  const opened = await openWorld(get("imessage"));
  const chats = [{ guid: "iMessage;+;chat123456", displayName: "Friday" }];
  const { raw } = opened.far.sends;
  await ask(opened, raw("Rouse, hi", { chats }));
  const own = opened.far.ownIds?.() ?? [];
  expect(await ask(opened, raw("and now?", { chats, threadOriginatorGuid: own.at(-1) }))).not.toBe(
    "",
  );
  expect(lastText(opened.provider)).toContain("and now?");
});

it.each([
  ["at once", false],
  ["one by one", true],
])(
  "telegram: an album that comes %s is one message, which one of its captions addresses to the agent",
  async (_how, isSlow) => {
    const opened = await openWorld(
      get("telegram"),
      {},
      { config: { sessions: { messages: "separate" } } },
    );
    const { far, world, provider } = opened;
    const { sends } = far;
    const photo = (name: string) => {
      const { id, bytes } = sends.shelf.put({ ...IMAGE, name });
      const size = {
        file_id: id,
        file_unique_id: id,
        file_size: bytes.length,
        width: 64,
        height: 48,
      };
      return { ...group, text: undefined, media_group_id: "77", photo: [size] };
    };
    const caption = `@${BOT.username} what is it?`;
    const caption_entities = [{ type: "mention", offset: 0, length: 1 + BOT.username.length }];
    const reply_to_message = { ...answered, from: user, text: "Look at these." };
    await sends.raw("", photo("one.png"));
    const skipped = async () =>
      (await world.admin("/admin/v1/events?path=channels/telegram")).body.events.length === 1;
    if (isSlow) await world.until(skipped);
    await sends.raw("", { ...photo("two.png"), caption, caption_entities, reply_to_message });
    await pass(world, await sends.raw("", photo("three.png")));
    await world.until(async () => far.arrived().length === 1);
    expect(provider.requests).toHaveLength(1);
    const content = provider.requests[0]?.body.messages.at(-1)?.content as { type: string }[];
    expect(content.filter(({ type }) => type === "image_url")).toHaveLength(3);
    expect(lastText(provider)).toMatch(/what is it\?[^]*Look at these\./);
  },
);

it("whatsapp: who opens the conversation is greeted", async () => {
  const opened = await openWorld(get("whatsapp"));
  const said = opened.far.sends.raw("", { type: "request_welcome", text: undefined });
  expect(await ask(opened, said)).toMatch(/^Hello!/);
});

it("telegram: `/start` is greeted without a model, also with a word behind it", async () => {
  const opened = await openWorld(get("telegram"));
  for (const text of ["/start", "/start campaign_7"])
    expect(await ask(opened, opened.far.speak(text))).toMatch(/^Hello! I am \S+\. .*\/help/);
  expect(opened.provider.requests).toEqual([]);
});

it.each([
  ["+525512345678", "+5215512345678"],
  ["+541112345678", "+5491112345678"],
  ["+551187654321", "+5511987654321"],
  ["+22997123456", "+2290197123456"],
])("phone numbers: %s and %s are one number", (one, other) => {
  expect(findNumber(one, ["+1", other])).toBe(other);
  expect(findNumber(other, ["+1", one])).toBe(one);
  expect(findNumber(one, [other, one])).toBe(one);
});

it.each([
  ["+551134567890", "+5511934567890"],
  ["+15212345678901", "+12345678901"],
  ["+525512345678", "+5225512345678"],
])("phone numbers: %s and %s are two numbers", (one, other) =>
  expect(findNumber(one, [other])).toBeUndefined(),
);

it.each([
  ["whatsapp", "+52 1 55 1234 5678", { from: "525512345678" }],
  ["imessage", "+5215512345678", { handle: { address: "+525512345678" } }],
])(
  "%s: a person in allowFrom may write, in whichever way the number is written",
  async (id, person, more) => {
    const opened = await openWorld(get(id), {}, { more: { allowFrom: [person] } });
    expect(await ask(opened, opened.far.sends.raw("hello", more))).toBe("I was given: text alone");
  },
);
