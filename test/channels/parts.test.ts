import { expect, it } from "vitest";
import { takeQuotes } from "../../plugins/msteams/html.ts";
import { findNumber } from "../../src/channel-kit/api.ts";
import { IMAGE, lastText, openWorld, ask, pass } from "./contents.ts";
import { BOT_ID, BOT_ROLE, CHANNEL as DISCORD_CHANNEL } from "./discord-server.ts";
import { BOT_USER } from "./slack-server.ts";
import { BOT as TEAMS_BOT, CHANNEL as TEAMS_CHANNEL } from "./teams-server.ts";
import { BOT } from "./telegram-server.ts";
import { VENDORS, type Vendor } from "./vendors.ts";

const get = (id: string): Vendor => VENDORS.find((vendor) => vendor.id === id) as Vendor;

/** A message of the vendor, and what the model gets to read. */
type Case = [what: string, text: string, more: object, shown: string];

const user = { id: 5, is_bot: false, first_name: "Vera", last_name: "Stone" };
const none = { text: undefined };
const at = { latitude: 52.5, longitude: 13.4 };
const poll = {
  id: "1",
  question: "Lunch?",
  options: [
    { text: "Pizza", voter_count: 0 },
    { text: "Salad", voter_count: 0 },
  ],
};

const POINTED_AT: Record<string, Case[]> = {
  telegram: [
    [
      "a link behind words",
      "see this",
      { entities: [{ type: "text_link", offset: 4, length: 4, url: "https://a.example/x" }] },
      "see [this](https://a.example/x)",
    ],
    ["a location", "", { ...none, location: at }, "[location: 52.5, 13.4]"],
    [
      "a venue",
      "",
      { ...none, location: at, venue: { location: at, title: "Café", address: "Main St 1" } },
      "[location: 52.5, 13.4]\nCafé\nMain St 1",
    ],
    [
      "a contact",
      "",
      {
        ...none,
        contact: { first_name: "Vera", last_name: "Stone", phone_number: "+15550002222" },
      },
      "[contact: Vera Stone, +15550002222]",
    ],
    ["a poll", "", { ...none, poll }, "[poll] Lunch?\n- Pizza\n- Salad"],
    [
      "a checklist",
      "",
      {
        ...none,
        checklist: {
          title: "To do",
          tasks: [
            { id: 1, text: "Milk" },
            { id: 2, text: "Tea", completion_date: 1 },
          ],
        },
      },
      "[checklist]\nTo do\n- [ ] Milk\n- [x] Tea",
    ],
    ["a sticker", "", { ...none, sticker: { file_id: "s", emoji: "👍" } }, "[sticker 👍]"],
    [
      "an answer to a poll",
      "which?",
      {
        reply_to_message: {
          message_id: 1,
          date: 1,
          chat: { id: 42, type: "private", first_name: "Ann" },
          from: user,
          poll,
        },
      },
      "[poll] Lunch?\n- Pizza\n- Salad",
    ],
    [
      "an answer to a forward",
      "is it true?",
      {
        reply_to_message: {
          message_id: 1,
          date: 1,
          chat: { id: 42, type: "private", first_name: "Ann" },
          from: user,
          text: "It rains.",
          forward_origin: { type: "hidden_user", date: 1, sender_user_name: "Ole" },
        },
      },
      "[forwarded by Ole] It rains.",
    ],
  ],
  whatsapp: [
    ["a location", "", { type: "location", ...none, location: at }, "[location: 52.5, 13.4]"],
    [
      "a place",
      "",
      { type: "location", ...none, location: { ...at, name: "Café", address: "Main St 1" } },
      "[location: 52.5, 13.4]\nCafé\nMain St 1",
    ],
    [
      "a contact",
      "",
      {
        type: "contacts",
        ...none,
        contacts: [
          { name: { formatted_name: "Vera Stone" }, phones: [{ phone: "+1 555 000 2222" }] },
        ],
      },
      "[contact: Vera Stone, +1 555 000 2222]",
    ],
    [
      "an order",
      "",
      {
        type: "order",
        ...none,
        order: {
          catalog_id: "1",
          text: "As soon as you can",
          product_items: [
            { product_retailer_id: "tea-7", quantity: 2, item_price: 4.5, currency: "EUR" },
          ],
        },
      },
      "- 2 × tea-7, 4.5 EUR each",
    ],
    [
      "an advertisement",
      "Is it still there?",
      { referral: { source_url: "https://fb.me/1", headline: "Our tea", body: "Now cheaper" } },
      "[Our tea](https://fb.me/1)\nNow cheaper",
    ],
    [
      "a form",
      "",
      {
        type: "interactive",
        ...none,
        interactive: {
          type: "nfm_reply",
          nfm_reply: { name: "flow", body: "Sent", response_json: '{"size":"L"}' },
        },
      },
      '{"size":"L"}',
    ],
  ],
  signal: [
    [
      "a contact",
      "",
      {
        contacts: [
          {
            name: { display: null, given: "Vera", family: "Stone" },
            phone: [{ value: "+15550002222" }],
          },
        ],
      },
      "[contact: Vera Stone, +15550002222]",
    ],
    [
      "a preview of a link",
      "https://a.example",
      { previews: [{ url: "https://a.example", title: "A site", description: "All of it" }] },
      "[A site](https://a.example)\nAll of it",
    ],
    [
      "a poll",
      "",
      { pollCreate: { question: "Lunch?", allowMultiple: false, options: ["Pizza", "Salad"] } },
      "[poll] Lunch?\n- Pizza\n- Salad",
    ],
    [
      "a person who is mentioned",
      "ask \uFFFC",
      { mentions: [{ name: "Vera", uuid: "5", start: 4, length: 1 }] },
      "ask @Vera",
    ],
  ],
  slack: [
    [
      "a link behind words",
      "see <https://a.example/x|this>",
      {},
      "see [this](https://a.example/x)",
    ],
    ["a person who is mentioned", "ask <@U0VERA0001>", {}, "ask @Vera Stone"],
    [
      "words in blocks alone",
      "",
      {
        blocks: [
          {
            type: "rich_text",
            elements: [
              {
                type: "rich_text_section",
                elements: [
                  { type: "text", text: "ask " },
                  { type: "user", user_id: "U0VERA0001" },
                  { type: "text", text: " <now> " },
                  { type: "emoji", name: "wave" },
                ],
              },
            ],
          },
        ],
      },
      "ask @Vera Stone <now> :wave:",
    ],
  ],
  discord: [
    [
      "a person who is mentioned",
      "ask <@5>",
      { mentions: [{ id: "5", username: "vera", global_name: "Vera <Stone>" }] },
      "ask @Vera Stone",
    ],
    [
      "a poll",
      "",
      {
        poll: {
          question: { text: "Lunch?" },
          answers: [{ poll_media: { text: "Pizza" } }, { poll_media: { text: "Salad" } }],
        },
      },
      "[poll] Lunch?\n- Pizza\n- Salad",
    ],
    [
      "an answer to an alert",
      "investigate",
      {
        type: 19,
        referenced_message: {
          id: "1",
          channel_id: "2",
          type: 0,
          content: "",
          author: { id: "6", username: "alerts", bot: true },
          webhook_id: "6",
          mentions: [],
          embeds: [
            {
              author: { name: "Alertmanager" },
              title: "DiskFull",
              url: "https://a.example/x",
              description: "The disk is full.",
              fields: [{ name: "Host", value: "db-7", inline: true }],
              footer: { text: "eu-1" },
            },
          ],
        },
      },
      "Alertmanager\n[DiskFull](https://a.example/x)\nThe disk is full.\nHost: db-7\neu-1",
    ],
    ["a sticker", "", { sticker_items: [{ id: "1", name: "wave" }] }, "[sticker: wave]"],
  ],
  msteams: [
    [
      "a link behind words",
      "see this",
      {
        attachments: [
          {
            contentType: "text/html",
            content: '<p>see <a href="https://a.example/x" title="t">this</a></p>',
          },
        ],
      },
      "see [this](https://a.example/x)",
    ],
    ["a person who is mentioned", "ask <at>Vera Stone</at>", {}, "ask @Vera Stone"],
    [
      "a card",
      "look",
      {
        attachments: [
          {
            contentType: "application/vnd.microsoft.card.adaptive",
            content: {
              type: "AdaptiveCard",
              body: [
                { type: "FactSet", facts: [{ title: "Host", value: "db-7" }] },
                { type: "RichTextBlock", inlines: ["is ", { type: "TextRun", text: "full" }] },
              ],
              actions: [{ type: "Action.OpenUrl", title: "View", url: "https://a.example/x" }],
            },
          },
        ],
      },
      "Host: db-7\nis full\n[View](https://a.example/x)",
    ],
  ],
};

for (const [id, cases] of Object.entries(POINTED_AT))
  it(`${id}: the agent gets what people point at`, async () => {
    const { start } = get(id);
    const opened = await openWorld({ ...get(id), start: async () => named(await start()) });
    for (const [what, text, more, shown] of cases) {
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
const guild = { guild_id: "1", channel_id: DISCORD_CHANNEL, mentions: [] };
const answered = { message_id: 1, date: 1, ...group, from: BOT, text: "Yes?" };
const room = { conversation: { isGroup: true, conversationType: "groupChat", id: TEAMS_CHANNEL } };

const CALLS: Record<string, [what: string, text: string, more: object][]> = {
  telegram: [
    ["a command", "/help", { ...group, entities: [{ type: "bot_command", offset: 0, length: 5 }] }],
  ],
  slack: [
    [
      "a mention with a label",
      `<@${BOT_USER}|rouse> hi`,
      { channel: "C0123ABC", channel_type: "channel" },
    ],
  ],
  discord: [
    ["a mention of its role", `<@&${BOT_ROLE}> hi`, { ...guild, mention_roles: [BOT_ROLE] }],
    [
      "an answer to the bot without a ping",
      "hi",
      {
        ...guild,
        type: 19,
        referenced_message: {
          id: "1",
          channel_id: DISCORD_CHANNEL,
          type: 0,
          content: "Yes?",
          author: { id: BOT_ID, bot: true },
          mentions: [],
        },
      },
    ],
  ],
  msteams: [
    [
      "an answer to the bot",
      "hi",
      {
        ...room,
        entities: [
          {
            type: "quotedReply",
            quotedReply: { messageId: "1", senderId: TEAMS_BOT, preview: "Yes?" },
          },
        ],
      },
    ],
    [
      "an answer to the bot in HTML",
      "hi",
      {
        ...room,
        attachments: [
          {
            contentType: "text/html",
            content: `<blockquote itemscope itemtype="http://schema.skype.com/Reply" itemid="1"><strong itemprop="mri" itemid="${TEAMS_BOT}">Rouse</strong><p itemprop="preview">Yes?</p></blockquote><p>hi</p>`,
          },
        ],
      },
    ],
  ],
};

for (const [id, cases] of Object.entries(CALLS))
  it.each(cases)(`${id}: people of a group address the agent by %s`, async (_what, text, more) => {
    const opened = await openWorld(get(id));
    expect(await ask(opened, opened.far.sends.raw(text, more))).not.toBe("");
  });

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

it.each(["/start", "/start campaign_7"])(
  "telegram: %s is greeted without a model",
  async (text) => {
    const opened = await openWorld(get("telegram"));
    expect(await ask(opened, opened.far.speak(text))).toMatch(/^Hello! I am \S+\. .*\/help/);
    expect(opened.provider.requests).toEqual([]);
  },
);

it.each([
  ["+525512345678", "+5215512345678"],
  ["+541112345678", "+5491112345678"],
  ["+551187654321", "+5511987654321"],
  ["+22997123456", "+2290197123456"],
])("%s and %s are one number", (one, other) => {
  expect(findNumber(one, ["+1", other])).toBe(other);
  expect(findNumber(other, ["+1", one])).toBe(one);
  expect(findNumber(one, [other, one])).toBe(one);
});

it.each([
  ["+551134567890", "+5511934567890"],
  ["+15212345678901", "+12345678901"],
  ["+525512345678", "+5225512345678"],
])("%s and %s are two numbers", (one, other) => expect(findNumber(one, [other])).toBeUndefined());

it.each([
  ["whatsapp", "+52 1 55 1234 5678", { from: "525512345678" }],
  ["whatsapp", "+525512345678", { from: "5215512345678" }],
  ["imessage", "+5215512345678", { handle: { address: "+525512345678" } }],
])(
  "%s: a person in allowFrom may write, in whichever way the number is written",
  async (id, person, more) => {
    const opened = await openWorld(get(id), {}, { more: { allowFrom: [person] } });
    expect(await ask(opened, opened.far.sends.raw("hello", more))).toBe("I was given: text alone");
  },
);
