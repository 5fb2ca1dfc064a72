/** Who works in the office and where: people with accounts, rooms with members, and the config of the gateway for them. */
import type { Random } from "../../../bench/simulate/random.ts";

export const CHANNELS = ["telegram", "slack", "mattermost"] as const;
export type ChannelId = (typeof CHANNELS)[number];
export const AGENTS = ["main", "desk", "lab"] as const;

/** An account of a person on a channel. */
export interface Account {
  channel: ChannelId;
  id: string;
  name: string;
  /** The conversation of this person alone, as its recipient is written. */
  direct: string;
  kind: "owner" | "allowed" | "stranger" | "outsider";
  /** The agent of its direct messages, and whether it may choose another. */
  agent: string;
  chooses: boolean;
}

export interface Room {
  channel: ChannelId;
  id: string;
  agent: string;
  members: Account[];
  /** In the room, and not allowed to write to the agent. */
  outsiders: Account[];
  /** Topics of a group of Telegram. */
  topics: string[];
}

export interface Office {
  accounts: Account[];
  rooms: Room[];
}

const IDS: Record<ChannelId, (n: number) => { id: string; direct: string }> = {
  telegram: (n) => ({ id: String(1000 + n), direct: String(1000 + n) }),
  slack: (n) => ({
    id: `U0P${String(n).padStart(5, "0")}`,
    direct: `D0U0P${String(n).padStart(5, "0")}`,
  }),
  mattermost: (n) => ({ id: `person${n}x`.padEnd(26, "0"), direct: `direct${n}x`.padEnd(26, "0") }),
};
const ROOM_IDS: Record<ChannelId, (n: number) => string> = {
  telegram: (n) => String(-1_001_000_000_000 - n),
  slack: (n) => `C0R${String(n).padStart(5, "0")}`,
  mattermost: (n) => `room${n}x`.padEnd(26, "0"),
};

/** Picks one. */
export const pick = <T>(list: readonly T[], random: Random): T =>
  list[random.below(list.length)] as T;

/** Person 0 is the owner, on all channels; one in three of the others has a second account, and one in ten is a stranger. */
function createAccounts(people: number, random: Random): Account[] {
  return Array.from({ length: people }, (_, n) => {
    const first = n % CHANNELS.length;
    const second = (first + 1) % CHANNELS.length;
    const on =
      n === 0
        ? CHANNELS.map((_channel, index) => index)
        : random.below(3) === 0
          ? [first, second]
          : [first];
    const kind =
      n === 0
        ? ("owner" as const)
        : n % 10 === 7
          ? ("stranger" as const)
          : n % 10 === 8
            ? ("outsider" as const)
            : ("allowed" as const);
    const isBound = kind === "allowed" && random.below(4) === 0;
    return on.map((index): Account => {
      const channel = CHANNELS[index] as ChannelId;
      const agent = isBound ? pick(AGENTS, random) : "main";
      return {
        channel,
        ...IDS[channel](n),
        name: `Person ${n}`,
        kind,
        agent,
        chooses: isBound && agent !== "desk",
      };
    });
  }).flat();
}

export function createOffice({
  people,
  rooms,
  random,
}: {
  people: number;
  rooms: number;
  random: Random;
}): Office {
  const accounts = createAccounts(people, random);
  return {
    accounts,
    rooms: Array.from({ length: rooms }, (_, n): Room => {
      const channel = CHANNELS[n % CHANNELS.length] as ChannelId;
      const here = accounts.filter((account) => account.channel === channel);
      const chosen = here
        .filter(({ kind }) => kind === "allowed" || kind === "owner")
        .filter(() => random.below(3) === 0);
      const members = [
        ...new Set([...chosen, ...here.filter(({ kind }) => kind === "allowed").slice(0, 2)]),
      ];
      return {
        channel,
        id: ROOM_IDS[channel](n),
        agent: pick(AGENTS, random),
        members,
        outsiders: here.filter(({ kind }) => kind === "outsider"),
        topics: channel === "telegram" && n % 2 === 0 ? ["7", "8"] : [],
      };
    }),
  };
}

/** What the config of the gateway says about people and rooms. `sections` has how each channel is reached. */
export function peopleConfig(
  { accounts, rooms }: Office,
  sections: Record<ChannelId, object>,
): object {
  const ids = (channel: ChannelId, kinds: Account["kind"][]): string[] =>
    accounts
      .filter((account) => account.channel === channel && kinds.includes(account.kind))
      .map(({ id }) => id);
  const bound = accounts.filter(({ agent, chooses }) => agent !== "main" || chooses);
  return {
    owner: Object.fromEntries(CHANNELS.map((channel) => [channel, ids(channel, ["owner"])])),
    channels: Object.fromEntries(
      CHANNELS.map((channel) => [
        channel,
        {
          ...sections[channel],
          dmPolicy: "pairing",
          allowFrom: ids(channel, ["owner", "allowed"]),
        },
      ]),
    ),
    // A room's binding goes first: that of a person would count in rooms, too.
    bindings: [
      ...rooms.map(({ channel, id, agent }) => ({ channel, room: id, agent })),
      ...bound.map(({ channel, id, agent, chooses }) => ({
        channel,
        person: id,
        agent,
        ...(chooses && { choices: ["desk"] }),
      })),
    ],
  };
}
