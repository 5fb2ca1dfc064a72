import { createReplyCleaner } from "../../agent/reply/disarm.ts";
import type { TurnInput } from "../../agent/types.ts";
import type { LiveEdits, SendResult } from "../../contract/channel.ts";
import { safeError } from "../../core/errors.ts";
import { newId } from "../../core/ids.ts";
import { cutFor } from "../../delivery/plan.ts";
import { sendPiece } from "../../delivery/send.ts";
import type { LiveMessage, Route } from "../../store/types.ts";
import { writeRemoval } from "../end-run.ts";
import { commitFor } from "../journal.ts";
import type { Try } from "../try.ts";

/** A text that is whole before this is sent as the answer alone. */
const START_MS = 1_000;
/** Time for one call of a channel. An answer waits for the edit under way, which could overwrite it. */
const CALL_MS = 5_000;
/**
 * The text of the message until its id is on disk: a gateway that is killed before leaves no words of the answer behind. It
 * is the end of every text that is not whole, too.
 */
const OPEN_END = "…";

/** Nothing ends a call but its time. */
const NEVER = new AbortController().signal;

/** The text of a turn's model call, shown in a message that is edited as the text grows. */
export class LiveText {
  /** The part of the turn's input by which it streams, and passes its text on. */
  readonly input: Pick<TurnInput, "onText" | "onCall">;
  readonly #current: Try;
  readonly #route: Route;
  readonly #edits: LiveEdits;
  readonly #ended = new AbortController();
  #text = "";
  #message: LiveMessage | undefined;
  #showing: Promise<void> | undefined;

  constructor(current: Try, route: Route, edits: LiveEdits) {
    this.#current = current;
    this.#route = route;
    this.#edits = edits;
    const { allowedLinkHosts } = current.kind.context.config.hooks;
    let cleaner = createReplyCleaner(allowedLinkHosts);
    this.input = {
      onCall: () => {
        cleaner = createReplyCleaner(allowedLinkHosts);
        this.#text = "";
      },
      onText: (delta) => {
        this.#text += cleaner.push(delta);
        this.#showing ??= this.#show();
      },
    };
  }

  /** Ends the edits, and waits for the one under way. Returns the message, if one was sent. */
  async end(): Promise<LiveMessage | undefined> {
    this.#ended.abort();
    await this.#showing;
    return this.#message;
  }

  async #show(): Promise<void> {
    const { deps, run } = this.#current;
    const ended = AbortSignal.any([this.#ended.signal, this.#current.signal]);
    try {
      await deps.clock.sleep(START_MS, ended);
      if (ended.aborted || !(await this.#begin())) return;
      for (
        let shown = "", waitMs = this.#edits.everyMs;
        !ended.aborted;
        await deps.clock.sleep(waitMs, ended)
      ) {
        const [text = ""] = cutFor(
          this.#route,
          `${this.#text.trim()} ${OPEN_END}`,
          this.#current.kind.context.channels,
        );
        waitMs = this.#edits.everyMs;
        if (text === shown || this.#text.trim() === "") continue;
        const result = await this.#edit(text);
        if (result.status === "sent") shown = text;
        // A vendor that names a wait has not made the edit.
        else if (result.status === "retry" && result.afterMs !== undefined)
          waitMs = Math.max(waitMs, result.afterMs);
        else return this.#giveUp(result.reason);
      }
    } catch (error) {
      deps.log.debug(
        { runId: run.id, err: safeError(error) },
        "the text of a turn could not be shown",
      );
      if (this.#message) this.#message = { ...this.#message, isUncertain: true };
    }
  }

  /** Sends the message. False if it is not to be edited: its id is on disk before it says anything. */
  async #begin(): Promise<boolean> {
    const { deps, run, kind } = this.#current;
    const { channel: id, ...place } = this.#route;
    const channel = kind.context.channels.get(id)?.channel;
    if (!channel) return false;
    const message = {
      ...place,
      text: OPEN_END,
      idempotencyKey: `${newId("dlv", deps.clock.now())}.0`,
    };
    const sent = await this.#call((signal) => channel.send(message, signal));
    const messageId = sent.status === "sent" ? sent.messageIds?.[0] : undefined;
    if (messageId === undefined) return false;
    this.#message = { messageId };
    const held = await deps.store.commit(
      (tx) => tx.runs.update(run.id, { live: { messageId } }),
      kind.job,
    );
    // Another gateway has the run, and does not know the message.
    if (!held) await this.#call((signal) => this.#edits.remove({ ...place, messageId }, signal));
    return held;
  }

  #edit(text: string): Promise<SendResult> {
    const { channel: _, replyTo: __, ...place } = this.#route;
    const messageId = this.#message?.messageId ?? "";
    return this.#call((signal) => this.#edits.edit({ ...place, messageId, text }, signal));
  }

  #call(call: (signal: AbortSignal) => Promise<SendResult>): Promise<SendResult> {
    return sendPiece(call, this.#current.deps.clock, NEVER, CALL_MS);
  }

  /** An edit that may still arrive would overwrite the answer. */
  #giveUp(reason: string): void {
    const { deps, run } = this.#current;
    if (this.#message) this.#message = { ...this.#message, isUncertain: true };
    deps.log.debug(
      { runId: run.id, channel: this.#route.channel, reason },
      "the text of a turn is not shown any more",
    );
  }
}

/** Shows the text of the turn that answers a message of a channel with `streaming: true`. */
export function createLiveText(current: Try): LiveText | undefined {
  const { run, kind } = current;
  const route = kind.getReplyRoute?.(run);
  const edits = route && kind.context.channels.get(route.channel)?.channel.streaming;
  return route && edits?.isOn ? new LiveText(current, route, edits) : undefined;
}

/** Deletes the message with the text of a turn that has no answer now: it failed, waits, or starts again. */
export async function withdrawLive(current: Try): Promise<void> {
  const { deps, run } = current;
  if (run.kind !== "channel" || !run.live) return;
  await commitFor(current, (tx) => writeRemoval(tx, run, deps.clock.now()));
  const { live: _live, ...rest } = run;
  current.run = rest;
}
