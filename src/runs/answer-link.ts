import type { LinkPhrases, Phrases } from "../core/phrases/types.ts";
import type { LinkProblem } from "../people/links.ts";
import type { RunRecord } from "../store/types.ts";
import type { TurnDeps } from "./types.ts";

const ANSWERS: Record<LinkProblem, keyof Omit<LinkPhrases, "code" | "linked">> = {
  wrong: "wrongCode",
  same: "sameChannel",
  already: "alreadyLinked",
  different: "differentPeople",
  limited: "tooMany",
  full: "full",
};

/** Executes `/link` and `/unlink`: gives out a code, links the channel of a code with this one, or ends the link of this one. */
export async function answerLink(
  { id, spec }: RunRecord,
  { context, people: { links } }: TurnDeps,
  { links: phrases }: Phrases,
): Promise<string> {
  const { channel, to, incoming, argument, session, command } = spec;
  if (!incoming || to === undefined) return phrases.notDirect;
  const { from: person, direct, thread, language } = incoming;
  if (!direct) {
    // All who are in the room have seen it.
    if (argument !== undefined) await links.dropCode(argument);
    return phrases.notDirect;
  }
  if (command === "unlink")
    return (await links.leave({ channel, person })) ? phrases.unlinked : phrases.notLinked;
  // A link must not let another person into the main session.
  if (session.origin === "main") return phrases.mainSession;
  if (argument === undefined) {
    const code = await links.createCode({
      channel,
      person,
      to,
      ...(thread !== undefined && { thread }),
      ...(language !== undefined && { language }),
    });
    return code === undefined ? phrases.tooMany : phrases.code(code);
  }
  const done = await links.redeem(argument, { channel, person, runId: id }, context().rooms);
  return done.ok ? phrases.linked(done.channel) : phrases[ANSWERS[done.problem]];
}
