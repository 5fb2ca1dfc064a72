import { didYouMean } from "../../config/suggest.ts";
import type { Config } from "../../config/schema/index.ts";
import type { Issue } from "../../core/errors.ts";
import type { Channels, LoadedChannel } from "../../delivery/channels.ts";
import type { PersonAddress } from "../../people/links.ts";
import type { Agents, Binding, Rooms } from "../types.ts";

interface RoomProblems {
  issues: Issue[];
  warnings: Issue[];
}

/** The plugin of a channel: accounts are `<plugin>:<name>`. */
const pluginId = (channel: string): string => channel.split(":")[0] ?? channel;

/** The configured channels with a name: all accounts of a plugin, or the account `<plugin>:<name>`. */
function channelsNamed(name: string, channels: Channels): LoadedChannel[] {
  const id = channels.resolve(name)?.id;
  return channels.loaded.filter((channel) =>
    name.includes(":") ? channel.id === id : pluginId(channel.id) === id,
  );
}

function unknownChannel(name: string, { names }: Channels): string {
  return `names no channel.${didYouMean(name, names)}`;
}

const NOT_CONFIGURED =
  "the channel is not configured: add it to `channels`, or take this entry out";

/** Finds the configured channels of an entry. A name of no channel is an issue; of one that is not configured, a warning. */
function findNamed(
  name: string,
  path: string,
  channels: Channels,
  { issues, warnings }: RoomProblems,
): LoadedChannel[] {
  const named = channelsNamed(name, channels);
  if (!channels.resolve(name)) issues.push({ path, message: unknownChannel(name, channels) });
  else if (named.length === 0) warnings.push({ path, message: NOT_CONFIGURED });
  return named;
}

/** The channels on which people may write to the agent. */
function listening(channels: Channels): LoadedChannel[] {
  return channels.loaded.filter(
    ({ channel }) => (channel.listen ?? channel.request) && (channel.allowFrom?.length ?? 0) > 0,
  );
}

type Owners = ReadonlyMap<string, readonly string[]>;

function namedOwners(
  owner: NonNullable<Config["owner"]>,
  channels: Channels,
  found: RoomProblems,
): Owners {
  const owners = new Map<string, string[]>();
  for (const [name, people] of Object.entries(owner)) {
    const path = `owner.${name}`;
    const named = findNamed(name, path, channels, found);
    for (const { id } of named) owners.set(id, [...(owners.get(id) ?? []), ...people]);
    const allowed = named.flatMap(({ channel }) => channel.allowFrom ?? []);
    for (const person of people) {
      if (named.length === 0 || allowed.includes(person)) continue;
      const message = `"${person}" is not in allowFrom of channels.${name}, so the owner could not write: add the id there, and write it here in the same form.`;
      found.issues.push({ path, message: `${message}${didYouMean(person, allowed)}` });
    }
  }
  return owners;
}

const NO_OWNER =
  'several people may write to the agent, and none of them is named as the owner: each has a conversation apart from the main session, and none moves `channel: "last"`. Name the owner: owner: { "<channel>": "<id>" }';

/** The owner if the config names none: the only person of each plugin's channels. */
function onlyOwners(channels: Channels, { warnings }: RoomProblems): Owners {
  const plugins = Map.groupBy(listening(channels), ({ id }) => pluginId(id));
  const people = [...plugins].map(([id, own]) => ({
    id,
    ids: [...new Set(own.flatMap(({ channel }) => channel.allowFrom ?? []))],
  }));
  if (people.some(({ ids }) => ids.length > 1)) {
    warnings.push({ path: "owner", message: NO_OWNER });
    return new Map();
  }
  if (people.length > 1) {
    const same = people.map(({ id, ids }) => `${id} "${ids[0]}"`).join(" and ");
    warnings.push({
      path: "owner",
      message: `is not set, so ${same} count as one person, who shares the main session: name the owner's ids to make sure of it`,
    });
  }
  return new Map(listening(channels).map(({ id, channel }) => [id, channel.allowFrom ?? []]));
}

const SHARED =
  '"shared" puts the direct messages of all allowed senders into one conversation, and not all of them are the owner: the model may repeat to one sender what another sender wrote';

const OPEN =
  '"open" lets everybody who finds the channel write to the agent, use its tools and spend its tokens: use "pairing" to approve people';

function resolveBinding(
  binding: Config["bindings"][number],
  at: string,
  agents: Agents,
  channels: Channels,
  found: RoomProblems,
): Binding[] {
  const { channel: given, account, room, person } = binding;
  const wrong = (field: string, message: string): void =>
    void found.issues.push({ path: `${at}.${field}`, message });
  const agent = agents.get(binding.agent);
  const ids = agents.list.map(({ id }) => id);
  if (!agent) wrong("agent", `names no agent of agents.list.${didYouMean(binding.agent, ids)}`);
  const choices = (binding.choices ?? []).flatMap((choice, index) => {
    const found = agents.get(choice);
    if (!found)
      wrong(`choices[${index}]`, `names no agent of agents.list.${didYouMean(choice, ids)}`);
    return found && found !== agent ? [found] : [];
  });
  const id = channels.resolve(given)?.id;
  const name = account === undefined ? given : `${id}:${account}`;
  const isKnown = channels.resolve(name) !== undefined;
  if (id === undefined) wrong("channel", unknownChannel(given, channels));
  else if (!isKnown) wrong("account", `channels.${id}.accounts has no such entry`);
  const named = channelsNamed(name, channels);
  if (named.length === 0 && isKnown)
    found.warnings.push({
      path: at,
      message: `the channel "${given}" is not configured: the binding has no effect`,
    });
  const rooms =
    room === undefined ? [] : named.map((channel) => channels.checkRecipient(channel.id, room));
  const unfit = rooms.find(({ ok }) => !ok);
  if (unfit?.ok === false) wrong("room", unfit.message);
  if (!agent) return [];
  const resolved: Binding = { channels: named.map(({ id }) => id), agent, choices };
  // The accounts of a plugin share the form of a room's id.
  if (rooms[0]?.ok) resolved.room = rooms[0].to;
  if (person !== undefined) resolved.person = person;
  return [resolved];
}

/** An address in `people`, and the id of the person. */
type Entry = PersonAddress & { id: string };

/** Resolves `people` against the channels. */
function resolvePeople({ people }: Config, channels: Channels, found: RoomProblems): Entry[] {
  const entries: Entry[] = [];
  const wrong = (path: string, message: string): void => void found.issues.push({ path, message });
  for (const [index, { id, ...places }] of people.entries()) {
    const at = `people[${index}]`;
    if (people.findIndex((one) => one.id === id) < index)
      wrong(`${at}.id`, `there is another person "${id}": each needs an id of its own`);
    for (const [name, ids] of Object.entries(places)) {
      const path = `${at}.${name}`;
      const named = findNamed(name, path, channels, found);
      for (const person of ids) {
        const added = named.map((channel) => ({ channel: channel.id, person, id }));
        const other = entries.find((one) =>
          added.some(({ channel }) => one.channel === channel && one.person === person),
        );
        if (other && other.id !== id)
          wrong(
            path,
            `"${person}" belongs to the person "${other.id}" already: take it out of one of them`,
          );
        entries.push(...added);
      }
    }
  }
  return entries;
}

/** Resolves `owner`, `people` and `bindings` against the channels and agents of a snapshot. `issues` are config errors. */
export function createRooms(
  config: Config,
  agents: Agents,
  channels: Channels,
): RoomProblems & { rooms: Rooms } {
  const found: RoomProblems = { issues: [], warnings: [] };
  const owners = config.owner
    ? namedOwners(config.owner, channels, found)
    : onlyOwners(channels, found);
  const bindings = config.bindings.flatMap((binding, index) =>
    resolveBinding(binding, `bindings[${index}]`, agents, channels, found),
  );
  const bindingsOn = (channel: string): Binding[] =>
    bindings.filter((binding) => binding.channels.includes(channel));
  const findBinding = (
    channel: string,
    { from, to }: { from: string; to: string },
  ): Binding | undefined =>
    bindingsOn(channel).find(({ room = to, person = from }) => room === to && person === from);
  const isOwner = (channel: string, person: string): boolean =>
    owners.get(channel)?.includes(person) ?? false;
  if (
    config.sessions.dmScope === "shared" &&
    listening(channels).some(
      ({ id, channel }) => !channel.allowFrom?.every((one) => isOwner(id, one)),
    )
  )
    found.warnings.push({ path: "sessions.dmScope", message: SHARED });
  for (const { id, channel } of channels.loaded) {
    if (channel.dmPolicy !== "open" || !(channel.listen ?? channel.request)) continue;
    found.warnings.push({ path: `channels.${id}.dmPolicy`, message: OPEN });
  }
  const entries = resolvePeople(config, channels, found);
  const rooms: Rooms = {
    isOwner,
    entries,
    findEntry: ({ channel, person }) =>
      entries.find((one) => one.channel === channel && one.person === person)?.id,
    ownerChannels: new Set([...owners].flatMap(([id, people]) => (people.length > 0 ? id : []))),
    agentFor: (channel, message) => findBinding(channel, message)?.agent ?? agents.default,
    choicesFor(channel, message) {
      const binding = findBinding(channel, message);
      return binding ? [binding.agent, ...binding.choices] : [agents.default];
    },
    bindingsOn,
  };
  return { rooms, ...found };
}
