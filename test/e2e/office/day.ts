/** A day in the office: scenes side by side, hour after hour, and in each hour one answer that takes as long as all others together. */
import { createRandom, type Random } from "../../../bench/simulate/random.ts";
import { modelConfig } from "../provider.ts";
import { openDesks, type Desk, type Post } from "./desks.ts";
import { startTranscriber } from "./files.ts";
import { Ledger } from "./ledger.ts";
import {
  AGENTS,
  CHANNELS,
  createOffice,
  peopleConfig,
  pick,
  type ChannelId,
  type Office,
} from "./people.ts";
import { Scenes, type Stage } from "./scenes.ts";

export interface Size {
  seed: number;
  people: number;
  rooms: number;
  hours: number;
  /** Scenes of an hour. */
  scenes: number;
  dmScope?: "per-person" | "shared";
  isKilled?: boolean;
}

const SIDE_BY_SIDE = 12;
const QUIET_MS = 60;

/** One scene: what follows in one session follows in order. */
interface Plan {
  name: string;
  session: string;
  play(): Promise<void>;
}

interface Parts {
  ledger: Ledger;
  desks: Record<ChannelId, Desk>;
  transcriber: Awaited<ReturnType<typeof startTranscriber>>;
}

export class Day {
  readonly size: Size;
  readonly ledger: Ledger;
  readonly office: Office;
  readonly #desks: Record<ChannelId, Desk>;
  readonly #random: Random;
  readonly #transcriber: Parts["transcriber"];
  /** Names of all scenes that were played. */
  readonly played = new Map<string, number>();
  /** Scenes that ended while an answer was held back, by hour. */
  readonly meanwhile: number[] = [];
  pdfs = 0;
  /** The hour that is passing. */
  hour = 0;

  private constructor(size: Size, random: Random, office: Office, parts: Parts) {
    this.size = size;
    this.#random = random;
    this.office = office;
    this.ledger = parts.ledger;
    this.#desks = parts.desks;
    this.#transcriber = parts.transcriber;
  }

  static async open(size: Size, now: () => number, post: Post): Promise<Day> {
    const random = createRandom(size.seed);
    const office = createOffice({ ...size, random });
    const [ledger, transcriber, desks] = await Promise.all([
      Ledger.open(),
      startTranscriber(),
      openDesks(office, now, post),
    ]);
    ledger.arrived = () => CHANNELS.flatMap((channel) => desks[channel].arrived());
    return new Day(size, random, office, { ledger, desks, transcriber });
  }

  async close(): Promise<void> {
    await Promise.all([
      this.ledger.close(),
      ...CHANNELS.map((channel) => this.#desks[channel].close()),
    ]);
    this.#transcriber.close();
  }

  /** The config of the gateway, but for its store. */
  config(): object {
    const list = AGENTS.map((id) => ({ id, instructions: `You are the agent ${id}.` }));
    const base = modelConfig(this.ledger.provider, { list }) as {
      models: { providers: { local: object } };
    };
    const local = { ...base.models.providers.local, images: true };
    const speech = {
      type: "openai-compatible",
      baseUrl: this.#transcriber.url,
      apiKey: "canary-speech-key",
    };
    const sections = Object.fromEntries(
      CHANNELS.map((channel) => [channel, this.#desks[channel].section]),
    ) as Record<ChannelId, object>;
    return {
      ...base,
      models: { ...base.models, providers: { local, speech } },
      transcription: { provider: "speech", model: "whisper-1" },
      sessions: { quietTime: `${QUIET_MS}ms`, dmScope: this.size.dmScope ?? "per-person" },
      ...peopleConfig(this.office, sections),
    };
  }

  /** Lives through the day; `next` is called between its hours. */
  async live(approve: Stage["approve"], next: () => Promise<void>): Promise<void> {
    const { size, ledger, office } = this;
    const isShared = size.dmScope === "shared";
    const stage: Stage = {
      office,
      ledger,
      desks: this.#desks,
      random: this.#random,
      isShared,
      approve,
    };
    const scenes = new Scenes(stage);
    for (; this.hour < size.hours; this.hour++) {
      await this.#passHour(scenes);
      await next();
    }
  }

  async #passHour(scenes: Scenes): Promise<void> {
    const { size } = this;
    const slow = this.#directTarget();
    const session = scenes.sessionOf(slow);
    const plans: Plan[] = [];
    while (plans.length < size.scenes) {
      const plan = this.#draw(scenes);
      if (plan.session !== session) plans.push(plan);
    }
    // The slow answer ends when all else of the hour has been answered.
    await scenes.wait(slow, () => this.#playAll(plans));
    this.meanwhile.push(plans.length);
  }

  async #playAll(plans: Plan[]): Promise<void> {
    const busy = new Set<string>();
    const left = [...plans];
    const running = new Set<Promise<void>>();
    while (left.length > 0 || running.size > 0) {
      const index =
        running.size < SIDE_BY_SIDE ? left.findIndex(({ session }) => !busy.has(session)) : -1;
      if (index < 0) {
        await Promise.race(running);
        continue;
      }
      const [plan] = left.splice(index, 1) as [Plan];
      busy.add(plan.session);
      const play = plan.play().finally(() => {
        busy.delete(plan.session);
        running.delete(play);
      });
      running.add(play);
      this.played.set(plan.name, (this.played.get(plan.name) ?? 0) + 1);
    }
  }

  /** With a shared history of all people, only a paired person or a bound one has one apart: a room is as good. */
  #directTarget() {
    const allowed = this.office.accounts.filter(({ kind, agent }) =>
      this.size.dmScope === "shared"
        ? kind === "allowed" && agent === "lab"
        : kind === "allowed" || kind === "owner",
    );
    const [one] = this.office.accounts;
    return {
      from: allowed.length > 0 ? pick(allowed, this.#random) : (one as (typeof allowed)[number]),
    };
  }

  #draw(scenes: Scenes): Plan {
    const n = this.#random.below(100);
    if (n < 35) return this.#drawInRoom(scenes, n);
    const random = this.#random;
    const { accounts } = this.office;
    const target = {
      from: pick(
        accounts.filter(({ kind }) => kind === "allowed" || kind === "owner"),
        random,
      ),
    };
    const stranger = {
      from: pick(
        accounts.filter(({ kind }) => kind === "stranger"),
        random,
      ),
    };
    const session = scenes.sessionOf(target);
    const plan = (name: string, play: () => Promise<void>): Plan => ({ name, session, play });
    if (n < 55) return plan("talk", () => scenes.talk(target));
    if (n < 65) return plan("burst", () => scenes.burst(target));
    if (n < 74) {
      // Documents are read in a process of their own, which takes its time.
      const kind = pick(
        [
          "image",
          "voice",
          "image",
          "voice",
          ...(this.pdfs < this.size.hours ? ["pdf", "note"] : []),
        ],
        random,
      );
      if (kind === "pdf" || kind === "note") this.pdfs++;
      return plan(kind, () => scenes.sendFile(target, kind));
    }
    if (n < 79) return plan("quote", () => scenes.quote(target));
    if (n < 88) {
      const command = pick(["help", "status", "new", "agent"] as const, random);
      return plan(`/${command}`, () => scenes.command(target, command));
    }
    if (n < 91) return plan("stop", () => scenes.stop(target));
    // An edit that is made while no gateway listens is told of by no vendor but one.
    if (n < 94 && !this.size.isKilled) return plan("edit", () => scenes.edit(target));
    const chooser = accounts.filter(({ chooses }) => chooses);
    if (n < 96 && chooser.length > 0) {
      const from = pick(chooser, random);
      return {
        name: "/agent …",
        session: scenes.sessionOf({ from }),
        play: () => scenes.choose({ from }),
      };
    }
    return { name: "pair", session: scenes.sessionOf(stranger), play: () => scenes.pair(stranger) };
  }

  #drawInRoom(scenes: Scenes, n: number): Plan {
    const random = this.#random;
    const room = pick(this.office.rooms, random);
    const target = { from: pick(room.members, random), room };
    const topics = [undefined, ...room.topics];
    const thread = pick(topics, random);
    const here = { ...target, ...(thread !== undefined && { thread }) };
    const session = `${room.channel} ${room.id}`;
    const play = (name: string, run: () => Promise<void>): Plan => ({ name, session, play: run });
    if (n < 8) return play("chatter", () => scenes.chatter(here));
    if (n < 11 && room.channel === "telegram")
      return play("/new in a group", () => scenes.command(here, "new"));
    if (n < 13) return play("/status in a room", () => scenes.command(here, "status"));
    if (n < 22 && room.channel !== "telegram") return play("consult", () => scenes.consult(target));
    return play("meet", () => scenes.meet(here));
  }
}
