import type { Failure } from "../core/errors.ts";
import { newId } from "../core/ids.ts";
import { unknownId } from "../vocabulary/unknown-id.ts";
import { renderPhrase } from "../vocabulary/phrases.ts";
import { cutText, oneLine } from "../core/text.ts";
import type { IncomingMessage } from "../contract/channel.ts";
import { StoredList, type ListChange, type StoredListDeps } from "../store/stored-list.ts";
import type { Ms, Writes } from "../store/types.ts";
import { randomInt } from "node:crypto";
import type { Clock } from "../core/clock.ts";
import { planDelivery, writeDelivery } from "../delivery/plan.ts";
import type { Channels } from "../delivery/channels.ts";

export interface PeopleDeps extends StoredListDeps {
  clock: StoredListDeps["clock"] & Pick<Clock, "now">;
  channels(): Channels;
}

/** The place from which a person wrote, and to which the answer goes. */
export interface PersonPlace {
  channel: string;
  /** The person's id, as `IncomingMessage.from` gives it. */
  person: string;
  to: string;
  thread?: string;
  language?: string;
}

/** Writes a message to a person. It belongs to no run. */
export function writeNotice(
  tx: Writes,
  place: PersonPlace,
  text: string,
  { channels, clock }: Pick<PeopleDeps, "channels" | "clock">,
): void {
  const { channel, to, thread } = place;
  const route = { channel, to, ...(thread !== undefined && { thread }) };
  writeDelivery(
    tx,
    planDelivery({ runId: "", route, text, channels: channels(), now: clock.now() }),
  );
}

/**
 * No two of these characters look alike. No letter is a hexadecimal digit, and a code begins with a letter, so that no code of
 * a person is a code of a tool call.
 */
const LETTERS = "HJKMNPQRTVWXY";
const ALPHABET = `${LETTERS}34789`;
const LENGTH = 8;

const draw = (from: string): string => from.charAt(randomInt(from.length));

/** Creates a code for people to type: 32 random bits, and none that is taken. */
export function createPersonCode(isTaken: (code: string) => boolean = () => false): string {
  const code = draw(LETTERS) + Array.from({ length: LENGTH - 1 }, () => draw(ALPHABET)).join("");
  return isTaken(code) ? createPersonCode(isTaken) : code;
}

/** A code as a person types it: case, white space and hyphens do not matter. */
export const normalizePersonCode = (text: string): string =>
  text.toUpperCase().replace(/[\s-]/g, "");

const DECISION = new RegExp(
  `^(?:@\\S+\\s+)?[/!]?(approve|deny)(?:@\\S+)?\\s+([${LETTERS}][${ALPHABET}]{${LENGTH - 1}})[.!]?$`,
  "i",
);

/** Parses a message that decides about a person (`/approve HK7X3PTW`); undefined for any other message. */
export function parsePersonDecision(
  text: string,
): { verdict: "approve" | "deny"; code: string } | undefined {
  const [, verdict, code] = DECISION.exec(text.trim()) ?? [];
  if (verdict === undefined || code === undefined) return undefined;
  return { verdict: verdict.toLowerCase() as "approve" | "deny", code: code.toUpperCase() };
}

/** A person who has asked to write to the agent, and what was decided. */
export interface Pairing extends PersonPlace {
  id: string;
  /** The display name that the person had: outside text. */
  name?: string;
  state: "waiting" | "approved" | "denied";
  /** While the person waits. */
  code?: string;
  requestedAt: Ms;
  /** The end of the code. */
  expiresAt: Ms;
  decidedAt?: Ms;
  /** `operator` or `<channel>:<person>`. */
  by?: string;
}

/** The result of a stranger's message: the person is approved, has been sent a code, or is not answered. */
export type PairingResult = "approved" | "asked" | "waiting" | "denied" | "too_many";

type Decided = { ok: true; pairing: Pairing } | { ok: false; failure: Failure };

/** A code counts for so long, and a person gets one code in this time. */
const CODE_MS = 3_600_000;
/** So many people of one channel get a code within `CODE_MS`. */
const MAX_CODES = 20;
const MAX_NAME = 100;

const refuse = (code: Failure["code"], message: string): Decided => ({
  ok: false,
  failure: { code, message },
});
const NO_CODE = refuse(
  "not_found",
  "no person waits with this code: it is wrong, has expired, or was used; `rouse people` shows who waits",
);

/** The people who were approved on channels. All gateways on one database have the same. */
export class Pairings {
  readonly #deps: PeopleDeps;
  readonly #stored: StoredList<Pairing>;

  constructor(deps: PeopleDeps) {
    this.#deps = deps;
    this.#stored = new StoredList<Pairing>("people.pairings", deps);
  }

  /**
   * Checks whether a person was approved. A person who was not is sent a code, once an hour; of one channel, so many people an hour
   * are. Throws if the store cannot be reached.
   */
  async admit(channel: string, message: IncomingMessage): Promise<PairingResult> {
    const known = this.#check(await this.#stored.readLatest(), channel, message.from);
    // A flood of strangers writes nothing: only a person who gets a code is kept.
    if (known !== "asked") return known;
    return this.#stored.change((list) => {
      const result = this.#check(list, channel, message.from);
      return result === "asked" ? this.#ask(list, channel, message) : { result };
    });
  }

  /** Lists people: those who wait for a decision and those about whom was decided, the newest first. */
  async list(): Promise<Pairing[]> {
    return this.#current(await this.#stored.readLatest()).toReversed();
  }

  /** Decides about a person by the code or the id. `by`: `operator` or `<channel>:<person>`. */
  decide(codeOrId: string, verdict: "approve" | "deny", by: string): Promise<Decided> {
    const code = normalizePersonCode(codeOrId);
    return this.#stored.change<Decided>((stored) => {
      const list = this.#current(stored);
      const found = list.find(
        (one) => one.state === "waiting" && (one.code === code || one.id === codeOrId),
      );
      if (!found) return { result: NO_CODE };
      const { code: _used, ...person } = found;
      const state = verdict === "approve" ? ("approved" as const) : ("denied" as const);
      const pairing: Pairing = { ...person, state, decidedAt: this.#deps.clock.now(), by };
      return {
        list: list.map((one) => (one === found ? pairing : one)),
        result: { ok: true, pairing },
        ...(state === "approved" && {
          write: (tx) =>
            writeNotice(tx, pairing, renderPhrase(pairing.language, "paired"), this.#deps),
        }),
      };
    });
  }

  /** Takes a decision back, by the id or as `<channel>:<person>`: the person is a stranger again. */
  revoke(idOrPerson: string): Promise<Decided> {
    return this.#stored.change<Decided>((stored) => {
      const list = this.#current(stored);
      const pairing = list.find(
        (one) => one.id === idOrPerson || `${one.channel}:${one.person}` === idOrPerson,
      );
      return pairing
        ? { list: list.filter((one) => one !== pairing), result: { ok: true, pairing } }
        : { result: { ok: false, failure: unknownId("person", idOrPerson) } };
    });
  }

  /** The list without codes that have expired. */
  #current(list: readonly Pairing[]): Pairing[] {
    const now = this.#deps.clock.now();
    return list.filter(({ state, expiresAt }) => state !== "waiting" || expiresAt > now);
  }

  /** `asked` if the person has to be sent a code. */
  #check(stored: readonly Pairing[], channel: string, person: string): PairingResult {
    const own = this.#current(stored).filter((one) => one.channel === channel);
    const known = own.find((one) => one.person === person);
    if (known) return known.state;
    const now = this.#deps.clock.now();
    return own.filter(({ expiresAt }) => expiresAt > now).length >= MAX_CODES
      ? "too_many"
      : "asked";
  }

  #ask(
    stored: readonly Pairing[],
    channel: string,
    { from, name = "", to, thread, language }: IncomingMessage,
  ): ListChange<Pairing, PairingResult> {
    const now = this.#deps.clock.now();
    const list = this.#current(stored);
    const code = createPersonCode((drawn) => list.some((one) => one.code === drawn));
    const shown = cutText(oneLine(name), MAX_NAME).text;
    const pairing: Pairing = {
      id: newId("par", now),
      channel,
      person: from,
      ...(shown !== "" && { name: shown }),
      ...(language !== undefined && { language }),
      to,
      ...(thread !== undefined && { thread }),
      state: "waiting",
      code,
      requestedAt: now,
      expiresAt: now + CODE_MS,
    };
    return {
      list: [...list, pairing],
      result: "asked",
      write: (tx) =>
        writeNotice(tx, pairing, renderPhrase(language, "pairing", { code }), this.#deps),
    };
  }
}
