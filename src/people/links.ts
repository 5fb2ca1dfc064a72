import { renderPhrase } from "../vocabulary/phrases.ts";
import { StoredList } from "../store/stored-list.ts";
import type { Ms } from "../store/types.ts";
import {
  createPersonCode,
  normalizePersonCode,
  writeNotice,
  type PeopleDeps,
  type PersonPlace,
  Pairings,
} from "./pairings.ts";
import { createAgentChoices } from "./agent-choices.ts";

/** Creates what a store keeps of the people on channels that the config does not name. All gateways on one database have the same. */
export const createPeople = (deps: PeopleDeps) => ({
  pairings: new Pairings(deps),
  agentChoices: createAgentChoices(deps),
  links: new PersonLinks(deps),
});

/** A person on one channel. */
export type PersonAddress = Pick<PersonPlace, "channel" | "person">;

/** An address of a person who has linked several. */
export interface LinkedAddress extends PersonAddress {
  kind: "linked";
  personId: string;
  linkedAt: Ms;
  /** The run of the command that linked it. */
  runId: string;
}

interface OpenCode extends PersonPlace {
  kind: "code";
  code: string;
  /** The run that has used it. */
  usedBy?: string;
  expiresAt: Ms;
}

/** The number of wrong codes from an address. */
interface WrongCodes extends PersonAddress {
  kind: "wrong";
  count: number;
  expiresAt: Ms;
}

type LinkEntry = LinkedAddress | OpenCode | WrongCodes;

/** The config's rules about who may be linked. */
export interface LinkRules {
  /** True if the person, by the id that `from` gives, is the owner. */
  isOwner(channel: string, person: string): boolean;
  /** The id of the entry of `people` that an address belongs to, if there is one. */
  findEntry(address: PersonAddress): string | undefined;
}

/**
 * The reason that a code linked nothing: it is not valid, or its address is the one that sent it; the addresses are
 * linked already, or belong to different people by the config; or there are too many wrong codes or links.
 */
type LinkProblem = "wrong" | "same" | "already" | "different" | "limited" | "full";
type LinkResult = { ok: true; channel: string } | { ok: false; problem: LinkProblem };

const CODE_MS = 600_000;
/** So many wrong codes an address may send within an hour. */
const MAX_WRONG = 5;
const WRONG_MS = 3_600_000;
/** The most open codes, and the most addresses with wrong codes, at the same time. */
const MAX_OPEN = 1000;
const MAX_LINKED = 5000;
const MAX_OF_PERSON = 20;

const isSame =
  (one: PersonAddress) =>
  (other: PersonAddress): boolean =>
    one.channel === other.channel && one.person === other.person;

const getLinked = (list: readonly LinkEntry[]): LinkedAddress[] =>
  list.filter((entry) => entry.kind === "linked");
const getCodes = (list: readonly LinkEntry[]): OpenCode[] =>
  list.filter((entry) => entry.kind === "code");
const getWrong = (list: readonly LinkEntry[]): WrongCodes[] =>
  list.filter((entry) => entry.kind === "wrong");

/** The id of a new person: that of the config's entry with an end that no other person has had, so that no history is inherited. */
function createPersonId(entry: string | undefined, linked: readonly LinkedAddress[]): string {
  const toId = (code: string): string => `${entry ?? "person"}-${code.toLowerCase()}`;
  return toId(createPersonCode((code) => linked.some(({ personId }) => personId === toId(code))));
}

/** The addresses of the person that two addresses make, or why they cannot be linked. */
function join(
  [first, second]: readonly [PersonAddress, PersonAddress & { runId: string }],
  linked: readonly LinkedAddress[],
  rules: LinkRules,
  now: Ms,
): LinkedAddress[] | LinkProblem {
  const sides = [first, second];
  const [one, other] = sides.map((side) => linked.find(isSame(side))?.personId);
  if (one !== undefined && one === other) return "already";
  const before = linked.filter(({ personId }) => personId === one || personId === other);
  const added = sides.filter((side) => !before.some(isSame(side)));
  const entries = new Set(
    [...before, ...added].flatMap((address) => rules.findEntry(address) ?? []),
  );
  if (entries.size > 1) return "different";
  if (before.length + added.length > MAX_OF_PERSON || linked.length + added.length > MAX_LINKED)
    return "full";
  const personId = one ?? other ?? createPersonId([...entries][0], linked);
  return [
    ...before.map((address) => ({ ...address, personId })),
    ...added.map(({ channel, person }) => ({
      kind: "linked" as const,
      channel,
      person,
      personId,
      linkedAt: now,
      runId: second.runId,
    })),
  ];
}

/** The people who have linked several channels. All gateways on one database have the same. */
export class PersonLinks {
  readonly #deps: PeopleDeps;
  readonly #stored: StoredList<LinkEntry>;

  constructor(deps: PeopleDeps) {
    this.#deps = deps;
    this.#stored = new StoredList<LinkEntry>("people.links", deps);
  }

  /** The id of the person that an address is linked to. */
  async find(address: PersonAddress): Promise<string | undefined> {
    return getLinked(await this.#stored.readLatest()).find(isSame(address))?.personId;
  }

  async list(): Promise<LinkedAddress[]> {
    return getLinked(await this.#stored.readLatest());
  }

  /** Creates a code for an address, in place of an earlier one. Undefined if too many codes are open. */
  createCode(place: PersonPlace): Promise<string | undefined> {
    return this.#stored.change<string | undefined>((stored) => {
      const list = this.#current(stored).filter(
        (entry) => entry.kind !== "code" || !isSame(place)(entry),
      );
      const codes = getCodes(list);
      if (codes.length >= MAX_OPEN) return { result: undefined };
      const code = createPersonCode((drawn) => codes.some((one) => one.code === drawn));
      const open: OpenCode = {
        ...place,
        kind: "code",
        code,
        expiresAt: this.#deps.clock.now() + CODE_MS,
      };
      return { list: [...list, open], result: code };
    });
  }

  /** Makes a code invalid that others may have seen. */
  async dropCode(code: string): Promise<void> {
    const dropped = normalizePersonCode(code);
    await this.#stored.remove((entry) => entry.kind === "code" && entry.code === dropped);
  }

  /**
   * Links the address of a code with the one that has sent it, and tells the person at the first one. A link that the same run has
   * made before is reported again.
   */
  redeem(
    code: string,
    by: PersonAddress & { runId: string },
    rules: LinkRules,
  ): Promise<LinkResult> {
    return this.#stored.change<LinkResult>((stored) => {
      const list = this.#current(stored);
      const linked = getLinked(list);
      const known = getCodes(list).find((entry) => entry.code === normalizePersonCode(code));
      if (known?.usedBy === by.runId) return { result: { ok: true, channel: known.channel } };
      if ((getWrong(list).find(isSame(by))?.count ?? 0) >= MAX_WRONG)
        return { result: { ok: false, problem: "limited" } };
      // The owner gets no code; a person may have become the owner since.
      if (!known || known.usedBy !== undefined || rules.isOwner(known.channel, known.person))
        return { list: this.#countWrong(list, by), result: { ok: false, problem: "wrong" } };
      if (isSame(by)(known)) return { result: { ok: false, problem: "same" } };
      const joined = join([known, by], linked, rules, this.#deps.clock.now());
      const rest = list.filter((entry) => entry !== known);
      if (typeof joined === "string") return { list: rest, result: { ok: false, problem: joined } };
      const isJoined = (entry: LinkEntry): boolean =>
        entry.kind === "linked" && joined.some(isSame(entry));
      return {
        list: [
          ...rest.filter((entry) => !isJoined(entry)),
          ...joined,
          { ...known, usedBy: by.runId },
        ],
        result: { ok: true, channel: known.channel },
        write: (tx) =>
          writeNotice(
            tx,
            known,
            renderPhrase(known.language, "links.linked", { channel: by.channel }),
            this.#deps,
          ),
      };
    });
  }

  /** Takes one address out. False if it is not linked. */
  async leave(address: PersonAddress): Promise<boolean> {
    return (await this.#remove(isSame(address))).length > 0;
  }

  /** Takes out all addresses of a person by the id, or one as `<channel>:<person>`. Returns those that were linked to the end. */
  unlink(idOrAddress: string): Promise<LinkedAddress[]> {
    return this.#remove(
      ({ channel, person, personId }) =>
        personId === idOrAddress || `${channel}:${person}` === idOrAddress,
    );
  }

  /** Takes addresses out, and with them the last one that is left of a person. */
  #remove(isMeant: (address: LinkedAddress) => boolean): Promise<LinkedAddress[]> {
    return this.#stored.change<LinkedAddress[]>((stored) => {
      const linked = getLinked(stored);
      const left = linked.filter((one) => !isMeant(one));
      const isAlone = ({ personId }: LinkedAddress): boolean =>
        left.filter((one) => one.personId === personId).length < 2;
      const removed = linked.filter((one) => isMeant(one) || isAlone(one));
      if (removed.length === 0) return { result: [] };
      return {
        list: stored.filter((entry) => entry.kind !== "linked" || !removed.includes(entry)),
        result: removed,
      };
    });
  }

  /** The list without codes and counts that have expired. */
  #current(list: readonly LinkEntry[]): LinkEntry[] {
    const now = this.#deps.clock.now();
    return list.filter((entry) => entry.kind === "linked" || entry.expiresAt > now);
  }

  #countWrong(list: readonly LinkEntry[], { channel, person }: PersonAddress): LinkEntry[] {
    const all = getWrong(list);
    const { count = 0, expiresAt = this.#deps.clock.now() + WRONG_MS } =
      all.find(isSame({ channel, person })) ?? {};
    const others = all.filter((entry) => !isSame({ channel, person })(entry)).slice(1 - MAX_OPEN);
    const rest = list.filter((entry) => entry.kind !== "wrong");
    return [...rest, ...others, { kind: "wrong", channel, person, count: count + 1, expiresAt }];
  }
}
