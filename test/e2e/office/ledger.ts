/** What was written in the office, and what became of it: counted at the servers of the model and of the vendors alone. */
import type { ServerResponse } from "node:http";
import { createProvider, type ChatRequest, type Provider } from "../provider.ts";

/**
 * What must become of a text. `answered`: by one reply, at its place. `given`: no reply of its own, but a model has to see it, since
 * it belongs to a message that is answered. `unread`: no model may see it. `stopped`: it has no reply.
 */
export type Fate = "answered" | "given" | "unread" | "stopped";

/** A text that no other message has. */
export interface Mark {
  mark: string;
  /** Whose history it may be part of: with each `/new` and each agent another one begins. */
  conversation: string;
  /** Where it was written, as its reply must arrive. */
  place: string;
  agent: string;
  fate: Fate;
}

/** What the gateway itself says, without a model. */
export const NOTICES = {
  help: /begin a new conversation/,
  status: /Tokens today/,
  new: /^A new conversation begins/,
  // The command of a gateway that was killed is executed again, and finds nothing left to stop.
  stop: /^(?:Stopped|Nothing to stop)/,
  agent: /^The agent of this conversation is/,
  chosen: /^From now on/,
  code: /Give this code to the operator: (\w+)/,
  paired: /^You have been approved/,
} as const;
export type Notice = keyof typeof NOTICES;

/** A message that the gateway has sent, at the vendor's server. */
export interface Arrived {
  place: string;
  text: string;
}

/** A message of which the gateway says that it does not know whether it arrived. */
interface Unknown extends Arrived {
  /** In milliseconds since the epoch. */
  createdAt: number;
}

interface Asked {
  agent: string;
  /** All marks of the request, and those of its newest message. */
  all: string[];
  newest: string[];
}

const WAIT_MS = 120_000;
const marksIn = (text: string): string[] => [...new Set(text.match(/\bmk\d+q\b/g))];

/** The texts of a message for a model; images are read as what their bytes say. */
function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  return (content as { text?: string; image_url?: { url: string } }[])
    .map(
      ({ text = "", image_url: image }) =>
        text +
        (image ? Buffer.from(image.url.split(",")[1] ?? "", "base64").toString("latin1") : ""),
    )
    .join("\n");
}

export class Ledger {
  readonly marks = new Map<string, Mark>();
  readonly asked: Asked[] = [];
  readonly notices: { place: string; notice: Notice }[] = [];
  /** Answers of the model that are held back, by a mark of the newest message. */
  readonly #held = new Map<string, Promise<void>>();
  provider!: Provider;
  readonly unknown: Unknown[] = [];
  /** How many notices of a kind a place had when the wait for its last one ended, and when that was. */
  readonly #seen = new Map<string, { count: number; at: number }>();
  /** Reads all that vendors have of the gateway. */
  arrived: () => Arrived[] = () => [];
  #waiting: {
    isDone: () => boolean;
    resolve: () => void;
    reject: (error: Error) => void;
    until: number;
    what: string;
  }[] = [];
  readonly #timer = setInterval(() => this.#look(), 15);

  static async open(): Promise<Ledger> {
    const ledger = new Ledger();
    ledger.provider = await createProvider();
    ledger.provider.answer = (request, response) => ledger.#answer(request, response);
    return ledger;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.provider.close();
  }

  /** The model: says what it was asked, and holds back what is to be slow. */
  async #answer(request: ChatRequest, response: ServerResponse): Promise<string | undefined> {
    const texts = request.body.messages.map(({ content }) => textOf(content));
    const newest = marksIn(texts.at(-1) ?? "");
    const all = marksIn(texts.join("\n"));
    this.asked.push({
      agent: /You are the agent (\w+)\./.exec(texts[0] ?? "")?.[1] ?? "",
      all,
      newest,
    });
    const gone = new Promise<void>((resolve) => response.on("close", resolve));
    for (const mark of newest) await Promise.race([this.#held.get(mark), gone]);
    return `Answer to ${newest.join(" ")}. Seen before: ${all.slice(-20).join(" ")}. End.`;
  }

  write(given: Omit<Mark, "mark">): string {
    const mark = `mk${this.marks.size + 1}q`;
    this.marks.set(mark, { mark, ...given });
    return mark;
  }

  /** Has the model be slow about a mark. The function that is returned ends that. */
  hold(mark: string): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#held.set(mark, promise);
    return resolve;
  }

  isAsked = (mark: string): boolean => this.asked.some(({ newest }) => newest.includes(mark));

  /** How often a mark was answered. */
  count(mark: string): number {
    return this.answers().filter(({ marks }) => marks.includes(mark)).length;
  }

  isUnknown = (mark: string): boolean =>
    this.answers(this.unknown).some(({ marks }) => marks.includes(mark));

  /** The replies of the model as they arrived. */
  answers(arrived = this.arrived()): { place: string; marks: string[] }[] {
    return arrived.flatMap(({ place, text }) => {
      const [, answered] = /^Answer to ([^.]*)\. [^]*End\.$/.exec(text) ?? [];
      return answered === undefined ? [] : [{ place, marks: marksIn(answered) }];
    });
  }

  /** What the gateway itself has said. */
  said(arrived = this.arrived()): Arrived[] {
    return arrived.filter(({ text }) => !text.startsWith("Answer to "));
  }

  /** Waits until the gateway has answered. */
  answered(...marks: string[]): Promise<void> {
    return this.until(
      `an answer to ${marks.map((mark) => JSON.stringify(this.marks.get(mark))).join()}`,
      () => marks.every((mark) => this.count(mark) > 0 || this.isUnknown(mark)),
    );
  }

  /** Waits until one more notice of this kind is at a place, and gives it. */
  async noticed(place: string, notice: Notice): Promise<string> {
    this.notices.push({ place, notice });
    const key = `${notice} at ${place}`;
    const { count, at } = this.#seen.get(key) ?? { count: 0, at: 0 };
    const find = (arrived?: Arrived[]): Arrived[] =>
      this.said(arrived).filter((one) => one.place === place && NOTICES[notice].test(one.text));
    // An older one of unknown outcome may be one that arrived, and was waited for already.
    const findNew = (): Arrived[] => [
      ...find(this.unknown.filter(({ createdAt }) => createdAt >= at)),
      ...find().slice(count),
    ];
    await this.until(`the notice ${key}`, () => findNew().length > 0);
    const text = findNew().at(-1)?.text ?? "";
    this.#seen.set(key, { count: find().length, at: Date.now() });
    return text;
  }

  until(what: string, isDone: () => boolean, ms = WAIT_MS): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ isDone, resolve, reject, until: Date.now() + ms, what });
      this.#look();
    });
  }

  #look(): void {
    this.#waiting = this.#waiting.filter(({ isDone, resolve, reject, until, what }) => {
      const isLate = Date.now() > until;
      if (isDone()) resolve();
      else if (isLate) reject(new Error(`it did not come: ${what}`));
      else return true;
      return false;
    });
  }
}
