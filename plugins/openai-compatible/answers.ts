type Json = Record<string, unknown>;

const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const toObjects = (value: unknown): Json[] =>
  (Array.isArray(value) ? value : isObject(value) ? [value] : []).filter(isObject);
/** A text that says something. */
const getText = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined;

/** Removes members of another type than named: the client library refuses an answer for them. */
function keepTyped(json: Json, type: string, ...names: readonly string[]): void {
  for (const name of names) if (typeof json[name] !== type) delete json[name];
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** The arguments of a call as text. Some servers send an object. */
const toArguments = (input: unknown): string =>
  typeof input === "string" ? input : JSON.stringify(input ?? "").replace(/^""$/, "");

/** The name of a tool without what some servers leave of the model's template: `functions.look:0`, `look<|channel|>commentary`. */
const toToolName = (name: unknown): unknown =>
  typeof name === "string"
    ? name
        .replace(/<\|.*$/s, "")
        .trim()
        .replace(/^functions\./, "")
        .replace(/:\d+$/, "")
    : name;

/** Content as the client library reads it: a text, or parts of a type. */
function toContent(content: unknown): unknown {
  if (typeof content === "number") return String(content);
  if (!Array.isArray(content)) return isObject(content) ? toContent([content]) : content;
  return content.map((part) => {
    if (!isObject(part)) return { type: "text", text: String(part ?? "") };
    return part["type"] === "output_text" ? { ...part, type: "text" } : { type: "text", ...part };
  });
}

/** Finish reasons that servers have beside those of the API: of answers that broke off, reached a limit, or were withheld. */
const BROKEN = /error|abort|insufficient_system_resource/i;
const LIMIT = /length|max_tokens|context_window/i;
const WITHHELD = /filter|safety|sensitive/i;
const toFinish = (reason = ""): string | undefined =>
  LIMIT.test(reason) ? "length" : WITHHELD.test(reason) ? "content_filter" : getText(reason);

/** The error that an answer, or a piece of one, has in place of its rest. */
function findError(json: Json): Json | undefined {
  const { error, object } = json;
  if (isObject(error)) return { ...error, message: getText(error["message"]) ?? "" };
  if (getText(error) !== undefined) return { ...json, message: error };
  if (object === "error") return { ...json, message: getText(json["message"]) ?? "" };
  for (const { error: inside, finish_reason: finish } of toObjects(json["choices"])) {
    if (isObject(inside)) return findError({ error: inside });
    if (BROKEN.test(getText(finish) ?? "")) return { message: "", code: finish };
  }
  return undefined;
}

/**
 * Returns counts of tokens; none if the server has not counted both, which the client library would take for 0. Some leave a
 * model's thoughts out of the answer, and have them in the total.
 */
function readUsage(usage: unknown): Json | undefined {
  if (!isObject(usage)) return undefined;
  keepTyped(usage, "number", "prompt_tokens", "completion_tokens", "total_tokens");
  keepTyped(usage, "object", "prompt_tokens_details", "completion_tokens_details");
  const {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: total = 0,
  } = usage as Record<string, number | undefined>;
  if (input === undefined || output === undefined) return undefined;
  return { ...usage, completion_tokens: Math.max(output, total - input) };
}

/** One answer of a server, whole or as it comes. */
class Answer {
  #hasCalls = false;
  /** The call at each place, with its arguments as far as they came. */
  #written = new Map<unknown, { id: unknown; text: string }>();
  #hasDelta = false;
  isFinished = false;

  #readMessage({ tool_calls: given, role: _role, content, ...rest }: Json): Json {
    keepTyped(rest, "string", "reasoning", "reasoning_content", "refusal");
    const ids = new Set<unknown>();
    const calls = toObjects(given).flatMap(({ id, function: called, ...call }) => {
      const { arguments: input, name, ...named } = isObject(called) ? called : {};
      const isOwn = !ids.has(id);
      ids.add(id);
      keepTyped(call, "number", "index");
      const text = toArguments(input);
      if (this.#isRepeated(call["index"], id, text)) return [];
      return {
        ...call,
        ...(isOwn && { id: typeof id === "number" ? String(id) : id }),
        function: { ...named, name: toToolName(name), arguments: text },
      };
    });
    this.#hasCalls ||= calls.length > 0;
    return { ...rest, content: toContent(content), ...(calls.length > 0 && { tool_calls: calls }) };
  }

  /** Some servers end a stream with calls that they have sent before: the library would make each of them twice. */
  #isRepeated(place: unknown, id: unknown, text: string): boolean {
    if (place === undefined) return false;
    const before = this.#written.get(place);
    const isSame = before !== undefined && (!id || before.id === id);
    if (isSame && id && before.text === text && isObject(parse(text))) return true;
    this.#written.set(place, isSame ? { ...before, text: before.text + text } : { id, text });
    return false;
  }

  get finishReason(): string {
    return this.#hasCalls ? "tool_calls" : "stop";
  }

  #readChoice({ delta, message, finish_reason: finish, ...choice }: Json, isStream: boolean): Json {
    // A server that ends its stream with the whole message has sent it before.
    const streamed = isObject(delta) || this.#hasDelta ? delta : message;
    this.#hasDelta ||= isObject(delta);
    const said = isStream ? streamed : (message ?? delta);
    const read = isObject(said) ? this.#readMessage(said) : isStream ? null : {};
    const reason = toFinish(getText(finish)) ?? (isStream ? undefined : this.finishReason);
    this.isFinished ||= reason !== undefined;
    return {
      ...choice,
      [isStream ? "delta" : "message"]: read,
      ...(reason !== undefined && { finish_reason: reason }),
    };
  }

  /** Returns an answer, or a piece of one, in the form that the client library reads. */
  read(json: unknown, isStream: boolean): unknown {
    if (!isObject(json)) return json;
    const { error: _error, choices, usage, ...rest } = json;
    const error = findError(json);
    this.isFinished ||= error !== undefined;
    if (error) return { error };
    if (!isStream && !Array.isArray(choices)) return json;
    keepTyped(rest, "string", "id", "model");
    keepTyped(rest, "number", "created");
    const counted = readUsage(usage);
    return {
      ...rest,
      choices: toObjects(choices).map((choice) => this.#readChoice(choice, isStream)),
      ...(counted && { usage: counted }),
    };
  }
}

/**
 * Reads the lines of an event stream. One that ends with `[DONE]` and had no finish reason gets one: to the client library it
 * was cut. Lines without JSON pass as they are.
 */
function readLines(): TransformStream<string, string> {
  const answer = new Answer();
  let tail = "";
  const readLine = (line: string): string | undefined => {
    const data = /^data:(.*)$/s.exec(line)?.[1]?.trim();
    if (data === "[DONE]") {
      const choices = [{ index: 0, delta: {}, finish_reason: answer.finishReason }];
      return `${answer.isFinished ? "" : `data: ${JSON.stringify({ choices })}\n\n`}data: [DONE]`;
    }
    const json = data === undefined ? undefined : parse(data);
    return json === undefined ? undefined : `data: ${JSON.stringify(answer.read(json, true))}`;
  };
  return new TransformStream({
    transform(text, controller) {
      const lines = (tail + text).split("\n");
      tail = lines.pop() ?? "";
      controller.enqueue(lines.map((line) => `${readLine(line) ?? line}\n`).join(""));
    },
    flush(controller) {
      // A line that was cut must not end: it is no event then.
      const line = readLine(tail);
      controller.enqueue(line === undefined ? tail : `${line}\n\n`);
    },
  });
}

/** Reads a whole body, and passes it on as `render` returns it. A body that is no JSON passes as it is. */
function readWhole(
  render: (json: unknown, text: string) => string,
): TransformStream<string, string> {
  let text = "";
  return new TransformStream({
    transform(piece) {
      text += piece;
    },
    flush(controller) {
      const json = parse(text);
      controller.enqueue(json === undefined ? text : render(json, text));
    },
  });
}

function readAnswer(json: unknown, text: string): string {
  const read = new Answer().read(json, false);
  return read === json ? text : JSON.stringify(read);
}

const toEvents = (json: unknown): string => `data: ${JSON.stringify(json)}\n\ndata: [DONE]\n\n`;

/** `stream` is the first member of what this plugin sends. */
const isStreamWanted = (body: unknown): boolean =>
  typeof body === "string" && body.startsWith('{"stream":true');

/**
 * A `fetch` that reads the answers of servers that speak OpenAI's chat completions in their own way, and gives them the form
 * that the client library accepts.
 */
export function readAnswers(fetch: typeof globalThis.fetch): typeof globalThis.fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    const { body, status, statusText, headers } = response;
    const type = headers.get("content-type") ?? "";
    if (!body || !response.ok) return response;
    const text = body.pipeThrough(new TextDecoderStream());
    const isWhole = type.includes("json");
    const read =
      isWhole && !isStreamWanted(init?.body)
        ? text.pipeThrough(readWhole(readAnswer))
        : // Some servers do not stream, have an error in place of the stream, or send it under another type.
          (isWhole ? text.pipeThrough(readWhole(toEvents)) : text).pipeThrough(readLines());
    return new Response(read.pipeThrough(new TextEncoderStream()), { status, statusText, headers });
  };
}
