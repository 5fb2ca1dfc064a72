import type { CallVerdict, JudgedCall } from "../agent/types.ts";
import { getExactInput } from "../agent/tools/call-inputs.ts";
import { removeLinksTo, isAllowedHost } from "../agent/reply/links.ts";
import { isTrustedMemory, findOutside, type View, divideWords } from "../agent/provenance.ts";
import type { Config } from "../config/schema/index.ts";
import { coversTool, REMEMBER_TOOL_NAME, type ToolPatterns } from "../vocabulary/tool-names.ts";
import type { ToolCallRecord } from "../store/types.ts";
import { judgeCall } from "./policy.ts";
import { coversCall, type ApprovalRule } from "./rules.ts";

/** Hosts of links, and recipients: e-mail addresses, telephone numbers and names on a channel, in a form that can be compared. */
interface Reach {
  hosts: Set<string>;
  recipients: Set<string>;
}

/** An authority or an address that is longer is none. */
const MAX_LENGTH = 512;
const LINK_START = /(?:https?|ftps?|wss?):\/*|\/{2,}|\bwww\./gi;
const HOST = /^(?:\[[\da-f:.]+\]|[\p{L}\p{M}\p{N}._\u3002\uff61-]+)/iu;
const LOCAL = /[\p{L}\p{M}\p{N}.!#$%&'*+/=?^_`{|}~-]/u;
const NO_LOCAL = /[^\p{L}\p{M}\p{N}.!#$%&'*+/=?^_`{|}~-]/u;
const WORD = /[\p{L}\p{M}\p{N}._\u3002\uff61-]+/gu;
/** Ends of file names that are no top-level domain of IANA's root zone: `report.txt` is no host, while `setup.sh` may be one. */
const FILE_NAME =
  /\.(?:txt|pdf|json|jsonl|csv|tsv|docx?|xlsx?|pptx?|od[tsp]|rtf|xml|html?|ya?ml|toml|ini|cfg|conf|log|png|jpe?g|gif|svg|webp|bmp|tiff?|heic|mp3|mp4|wav|avi|mkv|webm|tar|gz|tgz|bz2|xz|7z|rar|exe|dll|jsx?|tsx?|css|scss|sql|db|bak|tmp|java|jar|cpp|hpp|rb|php|ics|eml|msg)$/;
const TOP_LEVEL = /\.(?:[\p{L}\p{M}]{2,}|xn--[a-z\d-]+)$/u;
const PHONE = /(?<![\p{L}\p{N}])(?:\+|00)\d[\d \t().-]{5,28}/gu;
const NUMBER = /\d[\d \t().-]{3,28}/g;
const NAME = /(?<![\p{L}\p{N}])[@#][\p{L}\p{N}][\p{L}\p{N}._-]{0,80}/gu;
/** Arguments whose whole value is a recipient. */
const RECIPIENT_KEY =
  /^(?:to|cc|bcc|recipients?|phone(?:number)?|channel(?:id)?|chat(?:id)?|user(?:id)?|number)$/;
const DIGITS_ONLY = /^\+?[\d \t().-]{5,30}$/;

/** Returns the ASCII form of a host as links have it; undefined if it is none that leads outside. */
function toHost(text: string): string | undefined {
  try {
    const host = new URL(`http://${text}`).hostname.replace(/\.+$/, "");
    return host.includes(".") || host.startsWith("[") ? host : undefined;
  } catch {
    return undefined;
  }
}

const decodeRun = (run: string): string => {
  try {
    return decodeURIComponent(run);
  } catch {
    return run;
  }
};
const decodeEntity = (
  all: string,
  hex: string | undefined,
  decimal: string | undefined,
): string => {
  const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16);
  return code <= 0x10ffff ? String.fromCodePoint(code) : all;
};
const decode = (text: string): string =>
  text
    .replace(/&#(?:x([\da-f]{1,6})|(\d{1,7}));/gi, decodeEntity)
    .replace(/(?:%[\da-f]{2})+/gi, decodeRun);

/** The readings of a text: as it is, and without one and two layers of encoding. Invisible characters are gone. */
function getReadings(text: string): Set<string> {
  const plain = text
    .replace(/\p{Cf}/gu, "")
    .normalize("NFKC")
    .replaceAll("\\", "/");
  const once = decode(plain);
  return new Set([plain, once, decode(once)]);
}

function addLinks(text: string, hosts: Set<string>): void {
  for (const { 0: start, index } of text.matchAll(LINK_START)) {
    const at = start.toLowerCase() === "www." ? index : index + start.length;
    const [authority = ""] = text.slice(at, at + MAX_LENGTH).split(/[\s/?#<>"]/, 1);
    const host = toHost(HOST.exec(authority.slice(authority.lastIndexOf("@") + 1))?.[0] ?? "");
    if (host !== undefined) hosts.add(host);
  }
}

function getLocal(text: string, at: number): string {
  let start = at;
  while (start > 0 && at - start < 64 && !NO_LOCAL.test(text[start - 1] as string)) start--;
  return text.slice(start, at).replace(/^.*[?&](?:to|cc|bcc)=/i, "");
}

/** Adds e-mail addresses. With `isGenerous` also those that begin after a mark of the text around them. */
function addMail(text: string, recipients: Set<string>, isGenerous: boolean): void {
  for (let at = text.indexOf("@"); at >= 0; at = text.indexOf("@", at + 1)) {
    const before = text[at - 1] ?? "";
    const isQuoted = before === '"';
    if (!isQuoted && !LOCAL.test(before)) continue;
    const domain = HOST.exec(text.slice(at + 1, at + 1 + MAX_LENGTH))?.[0] ?? "";
    if (!/[.\u3002\uff61[]/.test(domain)) continue;
    const host = toHost(domain.replace(/[.-]+$/, ""));
    // The domain of a version (`package@1.2.3`) reads as a number.
    if (host === undefined || (/^[\d.]+$/.test(host) && !domain.startsWith("["))) continue;
    const local = isQuoted ? '"' : getLocal(text, at).toLowerCase();
    // A text before the host of a link is no mailbox.
    if (local.includes("//")) continue;
    recipients.add(`${local.replace(/^[^\p{L}\p{N}"]+/u, "")}@${host}`);
    if (isGenerous)
      for (const { index } of local.matchAll(/[*_'`=/|{]/g))
        recipients.add(`${local.slice(index + 1)}@${host}`);
  }
}

const toDigits = (text: string): string => text.replace(/\D/g, "").replace(/^00/, "");

function addNumbers(text: string, pattern: RegExp, recipients: Set<string>): void {
  for (const [found] of text.matchAll(pattern)) {
    const digits = toDigits(found);
    if (digits.length >= 5) recipients.add(digits);
  }
}

/** Adds the names in a text with consent: everything that may be meant by it, such as a host without a scheme. */
function addNamed(text: string, { hosts, recipients }: Reach): void {
  for (const reading of getReadings(text)) {
    addLinks(reading, hosts);
    addMail(reading, recipients, true);
    addNumbers(reading, NUMBER, recipients);
    for (const [name] of reading.matchAll(NAME))
      recipients.add(name.toLowerCase().replace(/[.-]+$/, ""));
    for (const [word] of reading.matchAll(WORD)) {
      const host = word.length <= MAX_LENGTH && word.includes(".") ? toHost(word) : undefined;
      if (host !== undefined) hosts.add(host);
    }
  }
}

/**
 * Adds the recipients and hosts that a text would reach; `key` is the argument that holds it. `isSeen` says whether a
 * word stands in outside text.
 */
function addReached(
  text: string,
  { hosts, recipients }: Reach,
  { key = "", isSeen }: { key?: string; isSeen(word: string): boolean },
): void {
  const isRecipient = RECIPIENT_KEY.test(key.toLowerCase().replace(/[^a-z]/g, ""));
  for (const reading of getReadings(text)) {
    addLinks(reading, hosts);
    addMail(reading, recipients, false);
    addNumbers(reading, PHONE, recipients);
    const whole = reading.trim();
    if (isRecipient && DIGITS_ONLY.test(whole)) addNumbers(whole, NUMBER, recipients);
    if (isRecipient && whole.length <= MAX_LENGTH)
      for (const [name] of whole.matchAll(NAME))
        if (name === whole) recipients.add(name.toLowerCase());
    // A host without a scheme looks like a file or the end of a sentence: it counts if outside text has it.
    for (const { 0: word, index } of reading.matchAll(WORD)) {
      if (
        word.length > MAX_LENGTH ||
        !word.includes(".") ||
        reading[index - 1] === "@" ||
        reading[index + word.length] === "@"
      )
        continue;
      const host = toHost(word);
      if (
        host !== undefined &&
        TOP_LEVEL.test(host) &&
        !FILE_NAME.test(host) &&
        !hosts.has(host) &&
        isSeen(word.toLowerCase().replace(/[.-]+$/, ""))
      )
        hosts.add(host);
    }
  }
}

/** Adds what the arguments of a call would reach, keys included. */
function addReachedByInput(input: unknown, found: Reach, isSeen: (word: string) => boolean): void {
  const open: { value: unknown; key: string }[] = [{ value: input, key: "" }];
  for (let next = open.pop(); next; next = open.pop()) {
    const { value, key } = next;
    if (typeof value === "string" || typeof value === "number")
      addReached(String(value), found, { key, isSeen });
    else if (Array.isArray(value)) for (const item of value) open.push({ value: item, key });
    else if (typeof value === "object" && value !== null)
      for (const [name, item] of Object.entries(value))
        open.push({ value: name, key: "" }, { value: item, key: name });
  }
}

/** Returns whether a text is one address, or one link, and nothing else. */
function isLoneAddress(text: string): boolean {
  const whole = text.trim();
  if (
    whole === "" ||
    whole.length > MAX_LENGTH ||
    /\s/.test(whole.replace(/^[^<>@]{0,100}<([^<>\s]+)>$/, "$1"))
  )
    return false;
  const found: Reach = { hosts: new Set(), recipients: new Set() };
  addReached(whole, found, { key: "to", isSeen: () => false });
  return found.hosts.size + found.recipients.size === 1;
}

/** Most hosts that a warning names. */
const MAX_NAMED = 10;

const newReach = (): Reach => ({ hosts: new Set(), recipients: new Set() });

/** Collects the addresses in `texts`, and those that the operator's template shows by themselves. */
function collectNamed(view: View, texts: readonly string[]): Reach {
  const named = newReach();
  for (const text of texts) addNamed(text, named);
  const isTemplate =
    view.kind === "hook" &&
    view.input.some((part) => !part.outside && part.by !== "sender" && part.text.trim() !== "");
  if (isTemplate)
    for (const part of view.input)
      if (part.outside && isLoneAddress(part.text)) addNamed(part.text, named);
  return named;
}

/**
 * Finds links and recipients that the operator, the owner and the caller have not named, in what a turn sees. `operator` are
 * texts of the config that the model gets. A field that the operator's template shows by itself, and that is an address and
 * nothing else, counts as named by the template.
 */
export function createOutsideWords(
  view: View,
  operator: readonly string[],
  { hooks }: Pick<Config, "hooks">,
) {
  // Most turns reach nothing: then nothing of what they have seen is searched.
  let words: ReturnType<typeof divideWords> | undefined;
  const getWords = () => (words ??= divideWords(view));
  let known: Reach | undefined;
  const getNamed = (): Reach => (known ??= collectNamed(view, [...operator, ...getWords().named]));
  let seen: string | undefined;
  const isSeen = (word: string): boolean =>
    (seen ??= getWords().outside().normalize("NFKC").toLowerCase()).includes(word);
  const keepUnnamed = ({ hosts, recipients }: Reach): Reach => ({
    hosts: new Set(
      [...hosts].filter(
        (host) => !getNamed().hosts.has(host) && !isAllowedHost(host, hooks.allowedLinkHosts ?? []),
      ),
    ),
    recipients: new Set([...recipients].filter((one) => !getNamed().recipients.has(one))),
  });
  return {
    inCall(input: unknown): Reach {
      const found = newReach();
      addReachedByInput(input, found, isSeen);
      return keepUnnamed(found);
    },
    inReply(text: string): string[] {
      const found = newReach();
      addReached(text, found, { isSeen });
      return [...keepUnnamed(found).hosts];
    },
  };
}

/** Names hosts in a warning: never more of a link than its host. */
export function renderHosts(hosts: readonly string[]): string {
  const more = hosts.length - MAX_NAMED;
  return hosts.slice(0, MAX_NAMED).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/** The settings of the config and the mapping for the tools of a run. */
interface ToolSettings {
  agent: {
    id: string;
    tools: readonly string[];
    approve: readonly string[];
    instructions?: string;
  };
  config: Pick<Config, "hooks" | "tools">;
  /** Of the run's mapping. */
  mapping: { tools?: readonly string[]; approve?: readonly string[] };
  kind: View["kind"];
}

/** The tools that the operator has named for a run about what hooks sent; undefined for a run of another kind. */
const getNamed = ({ kind, mapping, config }: ToolSettings): readonly string[] | undefined =>
  kind === "hook" || kind === "heartbeat" ? (mapping.tools ?? config.hooks.tools) : undefined;

/** Returns the tools that a run may use: the agent's own; in hook runs and heartbeats only those that are named for them. */
export function getOfferedTools(settings: ToolSettings): ToolPatterns {
  const named = getNamed(settings);
  return named ? [settings.agent.tools, named] : [settings.agent.tools];
}

/**
 * Returns whether a call has a result that is text from outside. What the gateway says itself is not: about calls that
 * it did not make, and of notes.
 */
function hasOutsideAnswer({ tool, startedAt, output }: ToolCallRecord): boolean {
  if (startedAt === undefined || output === undefined) return false;
  return !output.parts.every((part) => part.type === "text" && isTrustedMemory(tool, part.text));
}

/** The facts about a turn on which its calls are judged. */
interface JudgedRun extends ToolSettings, Pick<View, "history" | "input" | "messages"> {
  /** True if a person can be asked: the run can wait. */
  canAsk: boolean;
  /** True if this is a turn of a main session: the owner's notes are not for others to write. */
  isMain: boolean;
  rules: readonly ApprovalRule[];
  /** The operator's for this turn. */
  instructions?: string;
  callerInstructions?: string;
}

export type Judge = ReturnType<typeof createJudge>;

/** Creates the judge of what a run does. */
export function createJudge(run: JudgedRun) {
  const { agent, config, mapping, kind, history, input, messages, canAsk, isMain, rules } = run;
  const named = getNamed(run) ?? [];
  const approve = [...agent.approve, ...(mapping.approve ?? [])];
  const { untrusted } = config.tools;
  const recipients = config.tools.recipients ?? untrusted ?? "ask";
  const links =
    config.tools.links ?? (config.hooks.allowedLinkHosts ? (untrusted ?? "ask") : "allow");
  const operator = [agent.instructions, run.instructions, run.callerInstructions].filter(
    (text) => text !== undefined,
  );
  const getView = ({ steps, context }: Pick<JudgedCall, "steps" | "context">): View => {
    const results = steps
      .filter(({ calls }) => calls.some(hasOutsideAnswer))
      .flatMap(({ calls }) => calls.map(({ output }) => output));
    return {
      kind,
      history,
      input,
      messages,
      context,
      results,
      countsOwnResults: untrusted !== undefined,
    };
  };
  const trusted = new Set<string>();
  return {
    /** Says whether a call is made immediately, waits for a person, or is not made. */
    judgeCall({ steps, context, ...call }: JudgedCall): CallVerdict {
      const view = getView({ steps, context });
      const outside = findOutside(view);
      if (outside === undefined) trusted.add(call.id);
      const isHarmless = outside === undefined || call.hints.readOnly;
      const found = isHarmless
        ? undefined
        : createOutsideWords(view, operator, config).inCall(call.input);
      return judgeCall(call, {
        approve,
        untrusted: untrusted ?? "ask",
        links: { policy: links, isFound: (found?.hosts.size ?? 0) > 0 },
        recipients: { policy: recipients, isFound: (found?.recipients.size ?? 0) > 0 },
        outside,
        ...(call.tool === REMEMBER_TOOL_NAME && {
          beyondPeople: isMain ? outside : findOutside(view, false),
        }),
        isNamed: coversTool(named, call.tool),
        canAsk,
        isAllowed: rules.some((rule) =>
          coversCall(rule, { agentId: agent.id, tool: call.tool, input: call.input }),
        ),
      });
    },
    /** Says of a call of `remember` that was let through whose words were in view. Of a call that was not judged it is `people`. */
    findOrigin: (callId: string): "trusted" | "people" =>
      trusted.has(callId) ? "trusted" : "people",
    /** Returns the reply as it may leave, and warnings about links and recipients that outside text alone has named. */
    reviewTurn(
      text: string,
      seen: Pick<JudgedCall, "steps" | "context">,
    ): { text: string; warnings: string[] } {
      const view = getView(seen);
      if (findOutside(view) === undefined) return { text, warnings: [] };
      const words = createOutsideWords(view, operator, config);
      const calls = seen.steps
        .flatMap((step) => step.calls)
        .filter(({ readOnly }) => readOnly !== true);
      const warnings = calls.flatMap((call) => {
        const { hosts, recipients: reached } = words.inCall(getExactInput(call));
        const what = [
          ...(reached.size > 0 ? ["a recipient"] : []),
          ...(hosts.size > 0 ? [`links to ${renderHosts([...hosts])}`] : []),
        ];
        return what.length === 0
          ? []
          : [
              `a call of ${call.tool} (${call.state}) had ${what.join(" and ")} that only text from outside has named`,
            ];
      });
      const hosts = words.inReply(text);
      if (hosts.length === 0) return { text, warnings };
      const isRemoved =
        config.tools.links !== undefined && config.tools.links !== "allow" && kind !== "api";
      const said = isRemoved ? "were removed from the reply" : "are in the reply";
      warnings.push(
        `links to hosts that only text from outside has named ${said}: ${renderHosts(hosts)}`,
      );
      return { text: isRemoved ? removeLinksTo(text, hosts) : text, warnings };
    },
  };
}
