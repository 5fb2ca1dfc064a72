import type { Asked, Model, Says } from "../../test/platform/model.ts";
import type { HistoryClock } from "./clock.ts";

/** A plugin, as a file: a shop with a tool that reads and two that change something. */
export const SHOP = `
import { z } from "zod";
import { definePlugin } from "rouse/plugin";
const parcel = { carrier: "DHL", state: "delivered", at: "2026-02-27T15:20:00Z" };
export default definePlugin({
  id: "shop",
  config: z.strictObject({}),
  setup: () => ({
    tools: [
      {
        name: "order",
        description: "Returns an order with its payment and its parcel.",
        input: z.looseObject({}),
        readOnly: true,
        execute: (input) => ({ ...input, status: "paid", payment: { method: "card", captured: true }, parcel }),
      },
      { name: "refund", description: "Refunds an order.", input: z.looseObject({}), execute: () => "Refunded." },
      { name: "note", description: "Adds a note to an order.", input: z.looseObject({}), idempotent: true, execute: () => "Saved." },
    ],
  }),
});
`;

const call = (name: string, input: object): NonNullable<Says["calls"]> => [
  { id: `call_${name}`, name, arguments: JSON.stringify(input) },
];

/** The final answers of the agent, by a word of the request. */
const REPLIES: readonly (readonly [RegExp, string])[] = [
  [
    /PayPal|blank page/,
    "Guests who pay by PayPal get a blank page since v4.12. The redirect of the new checkout drops the session cookie. I have asked @mona-k to look at `checkout/redirect.ts`, and suggest to roll back to v4.11 until then.",
  ],
  [
    /workflow/i,
    "The job **test** failed on main: 2 of 418 tests, both in `price-cache.test.ts`. They fail since the commit “Cache the price list” and not before. It is no flake: the second try failed as well.",
  ],
  [
    /refund/i,
    "The parcel was delivered on 27 February and the customer reports it as broken. The refund of the whole amount waits for your approval.",
  ],
  [
    /payment|dispute/i,
    "The card was declined for insufficient funds, the second time this month. The next try is on Thursday. I have written a note to the customer's file.",
  ],
  [
    /firing|resolved/i,
    "5xx of checkout rose at 09:02, two minutes after the deployment of v4.12. Other services are not affected. Suggested: roll back; the runbook is in [1].",
  ],
  [
    /Pull request/i,
    "A small change with tests. One remark: the cache has no upper bound, so a bot could fill it. Otherwise fine to merge.",
  ],
];

/** Answers a request: with tool calls first if the work needs them, then with text. */
function answer({ body, text }: Asked): Says {
  const messages = body.messages as { role: string; content: unknown }[];
  const asked = messages.findLastIndex(({ role }) => role === "user");
  const done = messages.slice(asked).filter(({ role }) => role === "tool").length;
  const turn = JSON.stringify(messages[asked]?.content ?? "");
  const usage = (input: number, output: number) => ({
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: Math.floor(input * 0.6) },
  });
  const order = Number(/A-(\d+)/.exec(turn)?.[1] ?? 1204);
  const wantsRefund = turn.includes("asks for a refund");
  if ((wantsRefund || turn.includes("Check the order")) && done === 0)
    return {
      text: ["I look at the order first."],
      calls: call("shop__order", { number: `A-${order}` }),
      usage: usage(2140, 42),
    };
  if (wantsRefund && done === 1)
    return {
      text: ["The parcel arrived, and the customer reports damage. A refund is due."],
      calls: call("shop__refund", {
        order: `A-${order}`,
        amount: 89,
        currency: "EUR",
        reason: "arrived broken",
      }),
      usage: usage(2480, 61),
    };
  const reply = REPLIES.find(([words]) => words.test(turn))?.[1] ?? "Looked at it: nothing to do.";
  return {
    text: reply.split(/(?<= )/),
    usage: usage(1800 + (text.length % 2400), 90 + (reply.length % 160)),
  };
}

export interface Troubles {
  /** The provider answers nothing but 503. */
  isAway: boolean;
  /** So many of the next calls are answered 429. */
  busy: number;
  /** The next call is answered 400. */
  refused: number;
  /** The next call does not end. */
  hangs: number;
}

/** Lets the model answer as an agent would, with times that the clock of the history shows. */
export function teach(model: Model, clock: HistoryClock, random: () => number): Troubles {
  const troubles: Troubles = { isAway: false, busy: 0, refused: 0, hangs: 0 };
  model.says = (asked) => {
    const name = String(asked.body.model);
    if (name === "llama-4" && troubles.isAway)
      return { status: 503, error: { message: "the server is overloaded" } };
    if (troubles.busy > 0 && troubles.busy--)
      return {
        status: 429,
        error: { message: "Rate limit reached for requests", code: "rate_limit_exceeded" },
        headers: { "retry-after": "1" },
      };
    if (troubles.refused > 0 && troubles.refused--)
      return {
        status: 400,
        error: {
          message: "This model's maximum context length is 128000 tokens",
          code: "context_length_exceeded",
        },
      };
    if (troubles.hangs > 0 && troubles.hangs--) return { wait: () => new Promise(() => undefined) };
    const says = answer(asked);
    return {
      ...says,
      wait: (piece) =>
        piece === 0 ? Promise.resolve(clock.skip(900 + random() * 4200)) : Promise.resolve(),
    };
  };
  return troubles;
}
