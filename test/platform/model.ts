import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { listenOn, readText } from "../channels/wire.ts";

/** A request to the model. */
export interface Asked {
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into requests of every shape
  body: any;
  /** The same as it came. */
  raw: string;
  headers: IncomingHttpHeaders;
  /** For what `Says` cannot say: then it is undefined. */
  response: ServerResponse;
  /** Aborts when Rouse hangs up. */
  gone: AbortSignal;
  /** All that was said, joined. */
  text: string;
  /** The roles of the messages, in order. */
  roles: string[];
  /** The names of the tools that it may call. */
  tools: string[];
}

export interface Says {
  /** Pieces of text; in a stream each is an event of its own. */
  text?: readonly string[];
  /** Pieces of what it thought, before the text. */
  reasoning?: readonly string[];
  calls?: readonly { id: string; name: string; arguments: string }[];
  finish?: string;
  /** The usage in the answer; false: none. */
  usage?: false | object;
  /** Answers with this status in place of an answer, and with this error object and these headers. */
  status?: number;
  error?: object;
  headers?: Record<string, string>;
  /** Breaks the connection off after the text. */
  cut?: boolean;
  /** Awaited before each piece of a stream, and before an answer. */
  wait?: (piece: number) => Promise<void>;
}

/** A model server of the chat-completions wire format on loopback that streams as well. */
export interface Model {
  url: string;
  asked: Asked[];
  says: (asked: Asked, call: number) => Says | undefined | Promise<Says | undefined>;
  /** For the next test: forgets what it was asked, and says this, by default two pieces of text. */
  reset(says?: Model["says"]): void;
  close(): Promise<void>;
}

const USAGE = { prompt_tokens: 11, completion_tokens: 3, total_tokens: 14 };

async function answerWhole(response: ServerResponse, says: Says, model: string): Promise<void> {
  await says.wait?.(0);
  const calls = says.calls?.map(({ id, name, arguments: text }) => ({
    id,
    type: "function",
    function: { name, arguments: text },
  }));
  const message = {
    role: "assistant",
    content: says.text?.join("") ?? null,
    ...(says.reasoning && { reasoning_content: says.reasoning.join("") }),
    ...(calls ? { tool_calls: calls } : {}),
  };
  const finish = says.finish ?? (calls ? "tool_calls" : "stop");
  if (says.cut) return void response.destroy();
  response.setHeader("content-type", "application/json");
  const usage = says.usage === false ? {} : { usage: says.usage ?? USAGE };
  response.end(
    JSON.stringify({
      id: "c1",
      object: "chat.completion",
      created: 1,
      model,
      choices: [{ index: 0, finish_reason: finish, message }],
      ...usage,
    }),
  );
}

async function answerStreamed(response: ServerResponse, says: Says, model: string): Promise<void> {
  response.setHeader("content-type", "text/event-stream");
  response.flushHeaders();
  const send = (delta: object, finish: string | null = null, more: object = {}): void => {
    const chunk = {
      id: "c1",
      object: "chat.completion.chunk",
      created: 1,
      model,
      choices: [{ index: 0, delta, finish_reason: finish }],
      ...more,
    };
    response.write(`data: ${JSON.stringify(chunk)}\n\n`);
  };
  for (const reasoning of says.reasoning ?? []) send({ reasoning_content: reasoning });
  for (const [piece, text] of (says.text ?? []).entries()) {
    await says.wait?.(piece);
    if (response.destroyed) return;
    send(piece === 0 ? { role: "assistant", content: text } : { content: text });
  }
  if (says.cut) return void setTimeout(() => response.destroy(), 30);
  for (const [index, { id, name, arguments: text }] of (says.calls ?? []).entries())
    send({ tool_calls: [{ index, id, type: "function", function: { name, arguments: text } }] });
  send(
    {},
    says.finish ?? (says.calls ? "tool_calls" : "stop"),
    says.usage === false ? {} : { usage: says.usage ?? USAGE },
  );
  response.end("data: [DONE]\n\n");
}

const fine = (): Says => ({ text: ["fi", "ne"] });

export async function startModel(): Promise<Model> {
  const handle = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const raw = await readText(incoming);
    const body = JSON.parse(raw) as {
      model: string;
      stream?: boolean;
      messages: { role: string; content: unknown }[];
      tools?: { function: { name: string } }[];
    };
    const gone = new AbortController();
    response.on("close", () => (response.writableFinished ? undefined : gone.abort()));
    const text = body.messages
      .map(({ content }) => (typeof content === "string" ? content : JSON.stringify(content)))
      .join("\n");
    const roles = body.messages.map(({ role }) => role);
    const tools = (body.tools ?? []).map((tool) => tool.function.name);
    const { headers } = incoming;
    const asked: Asked = { body, raw, headers, response, gone: gone.signal, text, roles, tools };
    model.asked.push(asked);
    const says = await model.says(asked, model.asked.length - 1);
    if (says === undefined) return;
    if (says.status !== undefined)
      return void response
        .writeHead(says.status, { "content-type": "application/json", ...says.headers })
        .end(JSON.stringify({ error: says.error ?? { message: "no" } }));
    await (body.stream ? answerStreamed : answerWhole)(response, says, body.model);
  };
  const { url, close } = await listenOn(
    (incoming, response) => void handle(incoming, response).catch(() => response.destroy()),
  );
  const model: Model = {
    url: `${url}/v1`,
    asked: [],
    says: fine,
    reset(says = fine) {
      model.asked.length = 0;
      model.says = says;
    },
    close,
  };
  return model;
}

/** A promise that a test lets go when it wants to. */
export function gate(): { open(): void; passed: Promise<void> } {
  let open = (): void => undefined;
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open: () => open(), passed };
}
