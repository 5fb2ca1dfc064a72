/** What happens in the office: each scene is about one conversation, and ends once the gateway has answered all of it. */
import type { Random } from "../../../bench/simulate/random.ts";
import type { Desk, Words, Written } from "./desks.ts";
import { FILES } from "./files.ts";
import { NOTICES, type Fate, type Ledger } from "./ledger.ts";
import { pick, type Account, type ChannelId, type Office, type Room } from "./people.ts";

/** What a scene has around it. */
export interface Stage {
  office: Office;
  ledger: Ledger;
  desks: Record<ChannelId, Desk>;
  random: Random;
  isShared: boolean;
  /** Approves a person by the code. */
  approve(code: string): Promise<void>;
}

interface Target {
  from: Account;
  room?: Room;
  thread?: string;
}

export class Scenes {
  readonly #stage: Stage;
  /** How often a conversation was begun anew, the agents that were chosen, and strangers who were approved. */
  readonly #begun = new Map<string, number>();
  readonly #chosen = new Map<string, string>();
  readonly #known = new Set<string>();
  /** Topics of forums in which the agent has answered. */
  readonly #followed = new Set<string>();

  constructor(stage: Stage) {
    this.#stage = stage;
  }

  /** The history that a message joins, but for its agent: scenes of one follow each other. */
  sessionOf({ from, room, thread }: Target): string {
    if (room) return [room.channel, room.id, thread ?? ""].join(" ");
    const agent = this.agentOf({ from });
    const isMain =
      from.kind === "owner" ||
      (this.#stage.isShared && from.kind === "allowed" && agent === "main");
    return isMain ? "main" : [from.channel, from.direct].join(" ");
  }

  agentOf({ from, room }: Target): string {
    return room?.agent ?? this.#chosen.get(from.channel + from.id) ?? from.agent;
  }

  /** Writes a message with a mark of its own. `more` is made with the fate of what belongs to the message. */
  async #say(
    target: Target,
    fate: Fate,
    more: Partial<Words> = {},
    mark = this.#mark(target, fate),
  ): Promise<Written & { mark: string }> {
    const { from, room, thread } = target;
    const words = {
      from,
      to: room?.id ?? from.direct,
      text: `What about ${mark}?`,
      ...(thread !== undefined && { thread }),
      ...more,
    };
    const written = await this.#stage.desks[from.channel].write(words);
    return { ...written, mark };
  }

  #mark(target: Target, fate: Fate): string {
    const { ledger } = this.#stage;
    const session = this.sessionOf(target);
    const agent = this.agentOf(target);
    const key = `${session} of ${agent}`;
    return ledger.write({
      conversation: `${key}, ${this.#begun.get(key) ?? 0}`,
      place: this.#placeOf(target),
      agent,
      fate,
    });
  }

  #placeOf({ from, room, thread }: Target): string {
    return [
      from.channel,
      room?.id ?? from.direct,
      ...(room && thread !== undefined ? [thread] : []),
    ].join(" ");
  }

  /** A message to the agent in a room; on Slack and Mattermost it begins a thread, where the answer arrives. */
  async #call(target: Target, more: Partial<Words> = {}): Promise<Target> {
    const { ledger } = this.#stage;
    const said = await this.#say(target, "answered", { mention: true, ...more });
    const inThread = this.#joinThread(target, said);
    await ledger.answered(said.mark);
    return inThread;
  }

  /** A message without a thread, which has begun one: its mark belongs there. */
  #joinThread(target: Target, { mark, id }: Written & { mark: string }): Target {
    if (!target.room || target.room.channel === "telegram" || target.thread !== undefined)
      return target;
    const inThread = { ...target, thread: id };
    const known = this.#stage.ledger.marks.get(mark);
    if (known)
      Object.assign(known, {
        conversation: `${this.sessionOf(inThread)} of ${known.agent}, 0`,
        place: this.#placeOf(inThread),
      });
    return inThread;
  }

  async talk(target: Target): Promise<void> {
    const said = await this.#say(target, "answered");
    await this.#stage.ledger.answered(said.mark);
  }

  /** Several quick messages, which are answered together or one after the other, each once. */
  async burst(target: Target): Promise<void> {
    const marks: string[] = [];
    for (let left = 3 + this.#stage.random.below(3); left > 0; left--)
      marks.push((await this.#say(target, "answered")).mark);
    await this.#stage.ledger.answered(...marks);
  }

  async sendFile(target: Target, kind: string): Promise<void> {
    const file = FILES[kind]?.(this.#mark(target, "given"));
    const said = await this.#say(target, "answered", { ...(file && { file }) });
    await this.#stage.ledger.answered(said.mark);
  }

  async quote(target: Target): Promise<void> {
    const text = `Somebody said ${this.#mark(target, "given")}.`;
    const said = await this.#say(target, "answered", { quote: { author: "Vera", text } });
    await this.#stage.ledger.answered(said.mark);
  }

  /** The agent is called into a room, and the others of the room go on. */
  async meet(target: Target & { room: Room }): Promise<void> {
    const { random, ledger } = this.#stage;
    const thread = await this.#call(target);
    if (target.room.topics.length > 0) this.#followed.add(this.#placeOf(target));
    else if (thread.thread === undefined) return;
    for (let left = random.below(3); left > 0; left--) {
      const said = await this.#say(
        { ...thread, from: pick(target.room.members, random) },
        "answered",
      );
      await ledger.answered(said.mark);
    }
  }

  /** People talk among themselves in a thread, and then call the agent. */
  async consult(target: Target & { room: Room }): Promise<void> {
    const { random } = this.#stage;
    const { room } = target;
    const root = await this.#say(target, "given");
    const thread = this.#joinThread(target, root);
    if (thread.thread === undefined) return;
    for (const from of [
      pick(room.members, random),
      pick([...room.outsiders, ...room.members], random),
    ])
      await this.#say({ ...thread, from }, "given");
    await this.#call(thread);
  }

  /** Nothing of it is for the agent, which does not follow the thread. */
  async chatter(target: Target & { room: Room }): Promise<void> {
    const { room } = target;
    if (!this.#followed.has(this.#placeOf(target))) await this.#say(target, "unread");
    await this.#say(target, "unread", { byBot: true, mention: true });
    for (const from of room.outsiders.slice(0, 1))
      await this.#say({ ...target, from }, "unread", { mention: true });
  }

  async command(target: Target, command: "help" | "status" | "new" | "agent"): Promise<void> {
    const { ledger, desks } = this.#stage;
    const { from, room, thread } = target;
    const sign = from.channel === "mattermost" ? "!" : "/";
    const where = {
      from,
      to: room?.id ?? from.direct,
      mention: true,
      ...(thread !== undefined && { thread }),
    };
    const { place } = await desks[from.channel].write({ ...where, text: `${sign}${command}` });
    await ledger.noticed(place, command);
    const key = `${this.sessionOf(target)} of ${this.agentOf(target)}`;
    if (command === "new") this.#begun.set(key, (this.#begun.get(key) ?? 0) + 1);
  }

  /** Has the other agent answer, and talks to it. */
  async choose(target: Target): Promise<void> {
    const { from } = target;
    const { ledger, desks } = this.#stage;
    const agent = this.agentOf(target) === "desk" ? from.agent : "desk";
    const { place } = await desks[from.channel].write({
      from,
      to: from.direct,
      text: `!agent ${agent}`,
    });
    await ledger.noticed(place, "chosen");
    this.#chosen.set(from.channel + from.id, agent);
    await this.talk(target);
  }

  /** An answer that takes until `until`, and what comes meanwhile. */
  async wait(target: Target, until: () => Promise<unknown>): Promise<void> {
    const { ledger } = this.#stage;
    const first = this.#mark(target, "answered");
    const release = ledger.hold(first);
    await this.#say(target, "answered", {}, first);
    await ledger.until(`a question about ${first}`, () => ledger.isAsked(first));
    const second = await this.#say(target, "answered");
    await until();
    release();
    await ledger.answered(first, second.mark);
  }

  /** A message is changed before its turn begins, and another one after it was answered. */
  async edit(target: Target): Promise<void> {
    const { ledger } = this.#stage;
    const first = this.#mark(target, "answered");
    const release = ledger.hold(first);
    await this.#say(target, "answered", {}, first);
    await ledger.until(`a question about ${first}`, () => ledger.isAsked(first));
    const second = await this.#say(target, "unread");
    const changed = this.#mark(target, "answered");
    await second.edit(`No, what about ${changed}?`);
    // Messages are taken in order: what came before this has been.
    await this.command(target, "status");
    release();
    await ledger.answered(first, changed);
    await second.edit(`Or about ${this.#mark(target, "unread")}?`);
  }

  async stop(target: Target): Promise<void> {
    const { ledger, desks } = this.#stage;
    const { from } = target;
    const mark = this.#mark(target, "stopped");
    const release = ledger.hold(mark);
    await this.#say(target, "stopped", {}, mark);
    await ledger.until(`a question about ${mark}`, () => ledger.isAsked(mark));
    const { place } = await desks[from.channel].write({ from, to: from.direct, text: "!stop" });
    await ledger.noticed(place, "stop");
    release();
  }

  /** A stranger writes, is approved, and writes again. */
  async pair(target: Target): Promise<void> {
    const { ledger, approve } = this.#stage;
    const { channel, id } = target.from;
    if (!this.#known.has(channel + id)) {
      const said = await this.#say(target, "unread");
      const notice = await ledger.noticed(said.place, "code");
      await approve(NOTICES.code.exec(notice)?.[1] ?? "");
      await ledger.noticed(said.place, "paired");
      this.#known.add(channel + id);
    }
    await this.talk(target);
  }
}
