import type { ChannelView } from "../../operate/people/channels.ts";
import type { KeyView } from "../../operate/people/keys.ts";
import type { AddressView, PairingView } from "../../operate/people/people.ts";
import { SCOPES } from "../../config/schema/gateway.ts";
import { asking, listing, type Noun } from "../command.ts";
import { printDetail, printRows } from "../print.ts";
import { read, withId } from "../gateway/connect.ts";
import { usage } from "../failure.ts";
import { cell, printable } from "../text.ts";
import { plural } from "../../core/text.ts";

const STATES: Record<AddressView["state"], string> = {
  linked: "linked",
  owner: "the owner",
  unlinked: "not linked: no /link yet",
};

const renderPairing = ({ state, by }: PairingView): string =>
  by === null ? state : `${state} by ${by}`;

const peopleList = asking({
  usage: "",
  about: "who has linked which channels, and who waits to write, was approved or denied",
  examples: ["rouse people"],
  async ask({ api }) {
    const [{ addresses }, { pairings }] = await Promise.all([
      read(api.people.$get()),
      read(api.pairings.$get()),
    ]);
    return { addresses, pairings };
  },
  print({ addresses, pairings }, io) {
    if (addresses.length === 0 && pairings.length === 0)
      return io.out("no person has linked a channel, and none waits to write\n");
    printRows(
      io,
      [
        ["linked as", ({ personId }) => personId],
        "entry",
        "channel",
        "person",
        ["state", ({ state }) => STATES[state]],
        "linkedAt",
      ],
      addresses,
    );
    if (pairings.length === 0) return;
    io.out("\n");
    printRows(
      io,
      [
        "code",
        "channel",
        "person",
        "name",
        "requestedAt",
        "expiresAt",
        ["state", renderPairing],
        "id",
      ],
      pairings,
    );
  },
});

const VERDICTS = ["approve", "deny", "revoke", "unlink"] as const;

const peopleDecide = asking({
  usage: "decide <person> <verdict>",
  about:
    "decide about a person. approve and deny take the code of someone who waits: the agent answers their direct messages, or it does not. revoke and unlink take an id, or <channel>:<id of the person>: revoke removes that decision, so that the person is a stranger again; unlink separates all channels of a linked person, or that one",
  examples: [
    "rouse people decide HK7X3PTW approve",
    "rouse people decide HK7X3PTW deny",
    "rouse people decide par_… revoke",
    "rouse people decide ann-hk7x3ptw unlink",
  ],
  async ask({ api }, _, person, word) {
    const verdict = VERDICTS.find((known) => known === word);
    if (!verdict) throw usage(`"${word}": write ${VERDICTS.join(", ")}`);
    const id = withId(person);
    if (verdict === "unlink") return read(api.people[":id"].$delete(id));
    const one = api.pairings[":id"];
    const answer =
      verdict === "revoke"
        ? await read(one.$delete(id))
        : await read(one.$post({ ...id, json: { verdict } }));
    return { ...answer, verdict };
  },
  print(answer, io) {
    if ("unlinked" in answer) {
      for (const { channel, person } of answer.unlinked)
        io.out(`${cell(channel)}:${cell(person)}  unlinked: a conversation of its own again\n`);
      return;
    }
    const { channel, person, state } = answer.pairing;
    const isRevoked = answer.verdict === "revoke";
    const what = isRevoked ? "revoked: this person is a stranger again" : state;
    io.out(`${cell(channel)}:${cell(person)}  ${what}\n`);
    if (!io.live && !isRevoked)
      io.out("no gateway runs just now: the person gets the message with the next `rouse start`\n");
  },
});

export const peopleCommand: Noun = {
  list: peopleList,
  commands: [peopleDecide],
  help: `
A person links two channels with a code: /link in a direct message on the one, then /link CODE on the other.
From then on the direct messages of both share one session, channel:person:<ID>.
CONFIG is the id of the entry in \`people\` of the config. An entry alone links nothing: each channel needs a code.
`,
};

/** The agents of a channel, as `desk in C0123 for U1, main`. */
function renderAgents(agents: ChannelView["agents"]): string | null {
  const parts = agents.map(({ agent, room, person }) =>
    [
      agent,
      ...(room === null ? [] : [`in ${room}`]),
      ...(person === null ? [] : [`for ${person}`]),
    ].join(" "),
  );
  return parts.join(", ") || null;
}

const channelsList = listing({
  about: "channels that are known, and those that are configured",
  examples: ["rouse channels"],
  ask: ({ api }) => read(api.channels.$get()),
  rows: ({ channels: all }) => all,
  columns: [
    "name",
    ["state", ({ name, id, loaded }) => (name !== id ? `= ${id}` : loaded ? "configured" : null)],
    ["receives", ({ mayWrite }) => mayWrite && `from ${mayWrite}`],
    "defaultTo",
    "limit",
    ["last resort", ({ fallback }) => fallback],
    ["agents", ({ receives, agents }) => (receives ? renderAgents(agents) : null)],
  ],
});

const channelsStatus = listing({
  about: "whether each can be reached, and whether it receives messages; exit code 1 if one cannot",
  examples: ["rouse channels --status"],
  ask: ({ api }) => read(api.channels.status.$get()),
  isFailure: ({ channels: all }) =>
    all.some(
      ({ reach, receive, away }) => away !== null || reach?.ok === false || receive?.ok === false,
    ),
  rows: ({ channels: all }) => all,
  none: "no channels are configured; `rouse init` adds one",
  columns: [
    "id",
    [
      "sending",
      ({ away, reach }) =>
        away === null
          ? (reach?.message ?? "cannot tell")
          : `sends fail, ${plural(away.waiting, "delivery waits", "deliveries wait")}`,
    ],
    [
      "receiving",
      ({ nobody, receive }) =>
        nobody ? "rejects all: allowFrom is empty" : (receive?.message ?? null),
    ],
  ],
  isWhole: true,
  after(_, io) {
    if (!io.live) io.err("no gateway runs: nothing is received\n");
  },
});

const channelsTest = asking({
  usage: "",
  about: "send a message on this channel immediately, bypassing the outbox",
  examples: ["rouse channels --test console --to me"],
  options: {
    "--test <channel>": "send a message on this channel immediately, bypassing the outbox",
    "--to <recipient>": "of the message (default: the channel's defaultTo)",
    "--text <text>": "the message (default: a line that says it is a test)",
  },
  ask: ({ api }, { test = "", to, text }) =>
    read(api.channels[":id"].test.$post({ ...withId(test), json: { to, text } })),
  isFailure: ({ result }) => result.status !== "sent",
  print({ channel, to, result }, io) {
    if (result.status === "sent")
      io.out(
        `${["sent to", to, "on", channel, "", ...(result.messageIds ?? [])].join(" ").trim()}\n`,
      );
    else io.err(`not sent to ${to} on ${channel}: ${printable(result.reason)}\n`);
  },
});

export const channelsCommand: Noun = {
  list: channelsList,
  views: { "--status": channelsStatus, "--test <channel>": channelsTest },
};

const words = (text: string): string[] => text.split(/[,\s]+/).filter((word) => word !== "");

/** `60/1m`: so many requests within a time. */
function parseRate(text: string): { requests: number; per: string } {
  const found = /^(\d+)\/(\S+)$/.exec(text);
  if (!found) throw usage(`--rate ${text}: write <requests>/<time>, for example 60/1m`);
  return { requests: Number(found[1]), per: found[2] as string };
}

const renderLimit = ({ rateLimit }: KeyView): string | null =>
  rateLimit && `${rateLimit.requests}/${rateLimit.perSeconds}s`;

const keysCreate = asking({
  usage: "create <id>",
  about: "make a key for the API and print it; it cannot be printed again",
  examples: ["rouse keys create web", "rouse keys create shop --agents sales,support --rate 60/1m"],
  options: {
    "--tenant <id>": "whose documents its turns see (default: default)",
    "--agents <ids>": "the agents it may use, with commas between (default: all)",
    "--scopes <scopes>": `what it may do: ${SCOPES.join(", ")} (default: chat,agents:read)`,
    "--rate <n/time>": "so many requests within a time, for example 60/1m",
    "--user-as-session": "take the field `user` for the session's id",
    "--clean <what>":
      "what is disarmed in answers: images, or none for programs that show no answer to a person (default: images)",
  },
  ask({ api }, { tenant, agents, scopes, rate, userAsSession, clean }, id) {
    const json = {
      id,
      tenant,
      agents: agents === undefined ? undefined : words(agents),
      // The gateway says which scopes and which `clean` there are.
      scopes: scopes === undefined ? undefined : (words(scopes) as KeyView["scopes"]),
      rateLimit: rate === undefined ? undefined : parseRate(rate),
      userAsSession,
      clean: clean as KeyView["clean"] | undefined,
    };
    return read(api.keys.$post({ json }));
  },
  print({ key, secret }, io) {
    printDetail(io, { ...key, agents: key.agents ?? "all", rateLimit: renderLimit(key) });
    io.out(`\n${secret}\n\nThis is the only time it is shown: only its hash is kept.\n`);
  },
});

const keysList = listing({
  about: "keys for the API and what each may do; the keys themselves are not stored",
  examples: ["rouse keys"],
  ask: ({ api }) => read(api.keys.$get()),
  rows: ({ keys: all }) => all,
  none: "no keys; `rouse keys create <id>` makes one",
  columns: [
    "id",
    "tenant",
    ["agents", ({ agents }) => agents ?? "all"],
    ["rate", renderLimit],
    "createdAt",
    "source",
    "scopes",
  ],
});

const keysRevoke = asking({
  usage: "revoke <id>",
  about: "revoke a key: requests with it are rejected from now on",
  examples: ["rouse keys revoke web"],
  async ask({ api }, _, id) {
    await api.keys[":id"].$delete(withId(id));
    return { revoked: id };
  },
  print: ({ revoked }, io) =>
    io.out(`${cell(revoked)}  revoked; requests with it are rejected from now on\n`),
});

export const keysCommand: Noun = { list: keysList, commands: [keysCreate, keysRevoke] };
