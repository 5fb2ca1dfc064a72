import { newId } from "../core/ids.ts";
import type { ApprovalRecord, SessionRef } from "../store/types.ts";
import type { ChatEnd, ChatListener, ChatRequest, ChatTurn } from "./types.ts";

/** The inside of a turn: what its callers hear, and how it is stopped. */
export interface LiveTurn extends ChatTurn {
  readonly abort: AbortController;
  /** Called by the executor once it is known which session the turn is in. */
  enter(session: SessionRef): void;
  /** Called by the executor. */
  say(delta: string): void;
  think(delta: string): void;
  ask(approval: ApprovalRecord): void;
  /** Called when its models begin to fail, and when one answers again. */
  setRetrying(isRetrying: boolean): void;
  finish(end: ChatEnd): void;
  /** Resolves once all is written that the turn ends with. */
  done: Promise<void>;
}

const getSessionName = ({ session }: ChatRequest, runId: string): string | undefined => {
  switch (session.kind) {
    case "none":
      return undefined;
    case "new":
      return runId;
    case "named":
      return session.id;
    case "after":
      return undefined;
  }
};

/** The name of a session of the API in its key. */
const getName = ({ key }: SessionRef): string => key.split(":").slice(3).join(":");

/** The session that a turn is in, or would be in: its key has the caller's id, so that no caller reaches another's. */
export function getChatSession({ agent, caller, session }: ChatRequest, runId: string): SessionRef {
  if (session.kind === "after") return session.run.spec.session;
  const id = session.kind === "named" ? session.id : runId;
  return { agentId: agent.id, origin: "api", key: `api:${caller.id}:${agent.id}:${id}` };
}

/** What was said and thought so far, in its pieces: a listener that comes late gets them as well. */
class Pieces {
  readonly #pieces: { isReasoning: boolean; delta: string }[] = [];

  get isEmpty(): boolean {
    return this.#pieces.length === 0;
  }

  add(isReasoning: boolean, delta: string, listeners: Iterable<ChatListener>): void {
    if (delta === "") return;
    const piece = { isReasoning, delta };
    this.#pieces.push(piece);
    for (const listener of listeners) this.#passOn(piece, listener);
  }

  replay(listener: ChatListener): void {
    for (const piece of this.#pieces) this.#passOn(piece, listener);
  }

  #passOn(
    { isReasoning, delta }: { isReasoning: boolean; delta: string },
    listener: ChatListener,
  ): void {
    if (isReasoning) listener.onReasoning?.(delta);
    else listener.onText(delta);
  }
}

/** A turn that has not begun yet. One shot is stopped when its last caller has gone; a session's turn goes on. */
export function createLiveTurn(request: ChatRequest, now: number): LiveTurn {
  const runId = newId("run", now);
  // The request itself is not held on to: it may have images, and a turn is remembered for its repeats.
  const isOneShot = request.session.kind === "none";
  const abort = new AbortController();
  const listeners = new Set<ChatListener>();
  const watching: (() => void)[] = [];
  const pieces = new Pieces();
  const asked: ApprovalRecord[] = [];
  const turn: LiveTurn & {
    end: ChatEnd | undefined;
    sessionId: string | undefined;
    isRetrying: boolean;
  } = {
    runId,
    createdAt: now,
    isOneShot,
    sessionId: getSessionName(request, runId),
    abort,
    enter(session) {
      if (!isOneShot) turn.sessionId = getName(session);
    },
    isRetrying: false,
    setRetrying: (isRetrying) => void (turn.isRetrying = isRetrying),
    end: undefined,
    done: Promise.resolve(),
    listen(listener) {
      pieces.replay(listener);
      for (const approval of asked) listener.onApproval?.(approval);
      if (turn.end) {
        listener.onEnd(turn.end);
        return () => undefined;
      }
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
        if (listeners.size === 0 && !turn.end && isOneShot) abort.abort("hangup");
      };
    },
    say: (delta) => pieces.add(false, delta, listeners),
    think: (delta) => pieces.add(true, delta, listeners),
    ask(approval) {
      asked.push(approval);
      for (const listener of listeners) listener.onApproval?.(approval);
    },
    finish(end) {
      if (turn.end) return;
      // Whoever joined a turn that does not stream hears its text all the same.
      if (end.ok && pieces.isEmpty) {
        turn.think(end.reasoning);
        turn.say(end.text);
      }
      turn.end = end;
      for (const listener of listeners) listener.onEnd(end);
      listeners.clear();
      for (const call of watching.splice(0)) call();
    },
    whenOver(call) {
      if (turn.end) call();
      else watching.push(call);
    },
  };
  return turn;
}
