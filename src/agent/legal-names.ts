import { createHash } from "node:crypto";
import type { LanguageModelMiddleware } from "ai";

type Wrap<K extends "wrapGenerate" | "wrapStream"> = NonNullable<LanguageModelMiddleware[K]>;
type Params = Parameters<Wrap<"wrapGenerate">>[0]["params"];
type StreamPart =
  Awaited<ReturnType<Wrap<"wrapStream">>>["stream"] extends ReadableStream<infer P> ? P : never;

const MAX_LENGTH = 64;
/** Names that every provider accepts: most take these characters, and some no digit at the beginning. */
const LEGAL = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/;
const HASH_LENGTH = 8;

function toLegalName(name: string): string {
  const plain = name.replaceAll(/[^A-Za-z0-9_-]/gu, "_");
  return (/^[A-Za-z_]/.test(plain) ? plain : `_${plain}`).slice(0, MAX_LENGTH);
}

function addHash(name: string): string {
  const hash = createHash("sha256").update(name).digest("hex").slice(0, HASH_LENGTH);
  return `${toLegalName(name).slice(0, MAX_LENGTH - HASH_LENGTH - 1)}_${hash}`;
}

/** Returns the names that a provider gets, by the real ones. If two would be equal, those that had to change get a hash. */
export function toLegalNames(names: readonly string[]): Map<string, string> {
  const counts = new Map<string, number>();
  for (const name of new Set(names))
    counts.set(toLegalName(name), (counts.get(toLegalName(name)) ?? 0) + 1);
  return new Map(
    names.map((name) => {
      const legal = toLegalName(name);
      return [name, legal === name || counts.get(legal) === 1 ? legal : addHash(name)];
    }),
  );
}

const hasToolName = <T extends object>(part: T): part is T & { toolName: string } =>
  "toolName" in part && typeof part.toolName === "string";

/** Converts the names of a request's tools, calls and results. */
function renameRequest(
  params: Params,
  toLegal: (name: string) => string,
): Pick<Params, "prompt" | "tools" | "toolChoice"> {
  const rename = <T extends object>(part: T): T =>
    hasToolName(part) ? { ...part, toolName: toLegal(part.toolName) } : part;
  const { prompt, tools, toolChoice } = params;
  return {
    prompt: prompt.map((message) =>
      message.role === "assistant"
        ? { ...message, content: message.content.map(rename) }
        : message.role === "tool"
          ? { ...message, content: message.content.map(rename) }
          : message,
    ),
    ...(tools && {
      tools: tools.map((tool) =>
        tool.type === "function" ? { ...tool, name: toLegal(tool.name) } : tool,
      ),
    }),
    ...(toolChoice && { toolChoice: rename(toolChoice) }),
  };
}

/** The request under legal names, and the way back for the parts of its answer; undefined if all names are legal. */
function toLegalRequest(params: Params) {
  const { prompt, tools = [] } = params;
  const offered = tools.map(({ name }) => name);
  const earlier = prompt.flatMap(({ content }) =>
    typeof content === "string" ? [] : content.filter(hasToolName).map(({ toolName }) => toolName),
  );
  if ([...offered, ...earlier].every((name) => LEGAL.test(name))) return undefined;
  const legal = toLegalNames(offered);
  const real = new Map([...legal].map(([name, given]) => [given, name]));
  // A tool that is no longer offered must not pass for one that is.
  const toLegal = (name: string): string => {
    const given = legal.get(name) ?? toLegalName(name);
    return legal.has(name) || given === name || !real.has(given) ? given : addHash(name);
  };
  const restore = <T extends object>(part: T): T =>
    hasToolName(part) ? { ...part, toolName: real.get(part.toolName) ?? part.toolName } : part;
  return { params: { ...params, ...renameRequest(params, toLegal) }, restore };
}

/**
 * Offers tools to a provider under names that it accepts. On this side of the middleware all have their real names: the
 * history, the journal, approvals and the answers of `/v1`.
 */
export const legalToolNames: LanguageModelMiddleware = {
  specificationVersion: "v4",
  async wrapGenerate({ params, model, doGenerate }) {
    const legal = toLegalRequest(params);
    if (!legal) return doGenerate();
    const result = await model.doGenerate(legal.params);
    return { ...result, content: result.content.map(legal.restore) };
  },
  async wrapStream({ params, model, doStream }) {
    const legal = toLegalRequest(params);
    if (!legal) return doStream();
    const { stream, ...rest } = await model.doStream(legal.params);
    const restored = new TransformStream<StreamPart, StreamPart>({
      transform: (part, controller) => controller.enqueue(legal.restore(part)),
    });
    return { ...rest, stream: stream.pipeThrough(restored) };
  },
};
