import {
  ChannelError,
  classifyResponse,
  createRest,
  PLAIN,
  renderStyled,
  sameRule,
  sentResult,
  vendorChannel,
  type ErrorRules,
  type Failure,
} from "#channel-kit";
import type { Channel, OutgoingMessage, PluginContext, SendResult, OutgoingFile } from "#plugin";

/** A file as the daemon takes it: a data URI with the name of the file. */
const toDataUri = ({ name, mediaType, data }: OutgoingFile): string =>
  `data:${mediaType};filename=${encodeURIComponent(name)};base64,${Buffer.from(data).toString("base64")}`;

/** The address of the daemon, the account that speaks, and what else is needed to receive. */
export interface Daemon extends Pick<PluginContext<unknown>, "fetch" | "log"> {
  url: string;
  /** As the daemon takes it: a number or an account id. */
  account: string;
  /** Normalised. */
  allowFrom: readonly string[];
  now(): number;
}

interface SendResponse {
  timestamp?: number;
  results?: { type?: string; token?: string; retryAfterSeconds?: number }[];
}
interface RpcAnswer {
  result?: SendResponse & { data?: unknown };
  error?: { code?: number; data?: { response?: SendResponse } | null };
}

/** The daemon's manual: the sign is shown for 15 seconds. */
const TYPING_MS = 10_000;
const STYLES = {
  heading: "BOLD",
  strong: "BOLD",
  emphasis: "ITALIC",
  delete: "STRIKETHROUGH",
  code: "MONOSPACE",
} as const;
export const NO_ACCOUNT = {
  status: "failed",
  reason: "the daemon does not have the account of channels.signal.account",
} as const;
/** Its statuses, what it says of the recipient, and its codes. -5 and -6 are not in its manual. */
export const VENDOR: ErrorRules = {
  name: "the daemon",
  errors: {
    ...sameRule(
      [301, 302, 307, 308, 400, 401, 403, 404, 405],
      "check that channels.signal.url is that of signal-cli's --http",
    ),
    challenged: {
      status: "retry",
      reason: "Signal limits the rate until `signal-cli submitRateLimitChallenge` was answered",
    },
    RATE_LIMIT_FAILURE: { status: "retry", reason: "Signal limits the rate" },
    IDENTITY_FAILURE: {
      status: "failed",
      reason: "the recipient's key has changed: check it and run `signal-cli trust`",
    },
    UNREGISTERED_FAILURE: { status: "failed", reason: "the recipient is not on Signal" },
    NETWORK_FAILURE: { status: "retry", reason: "the daemon could not reach Signal" },
    "-6": { status: "failed", reason: "Signal did not take the captcha: answer a new challenge" },
    "-1": {
      status: "failed",
      reason:
        "the daemon refused the message: is the recipient on Signal, and the account in the group?",
    },
    "-32602": NO_ACCOUNT,
    "-32601": {
      status: "failed",
      reason: "the daemon does not know how to send (-32601): update signal-cli",
    },
    "-32600": {
      status: "failed",
      reason: "the daemon does not know how to send (-32600): update signal-cli",
    },
  },
};
/** The kinds of errors by precedence: a fact about the recipient says more than a code. */
const KINDS = ["RATE_LIMIT_FAILURE", "IDENTITY_FAILURE", "UNREGISTERED_FAILURE", "NETWORK_FAILURE"];
const SAME: Readonly<Record<string, string>> = {
  "-3": "NETWORK_FAILURE",
  "-4": "IDENTITY_FAILURE",
  "-5": "RATE_LIMIT_FAILURE",
};

/** Renders markdown in Signal's way: plain text, and ranges in UTF-16 units as `start:length:STYLE`. */
export function render(markdown: string): { text: string; styles: string[] } {
  const { text, ranges } = renderStyled(markdown, STYLES, PLAIN);
  return { text, styles: ranges.map(({ start, length, style }) => `${start}:${length}:${style}`) };
}

function sortError(code: number, results: NonNullable<SendResponse["results"]>): Failure {
  const told = [SAME[code], ...results.map(({ type }) => type)];
  const kind = KINDS.find((name) => told.includes(name)) ?? String(code);
  const seconds = Math.max(0, ...results.map(({ retryAfterSeconds = 0 }) => retryAfterSeconds));
  const challenged = kind === KINDS[0] && results.some(({ token }) => token !== undefined);
  if (!Object.hasOwn(VENDOR.errors ?? {}, kind))
    return { status: "unknown", reason: `the daemon failed inside (${code})` };
  return classifyResponse(VENDOR, {
    code: challenged ? "challenged" : kind,
    afterMs: seconds * 1000,
  });
}

/** Calls of the daemon's methods. */
export function createRpc({ url, account, fetch }: Pick<Daemon, "url" | "account" | "fetch">) {
  const rest = createRest({ ...VENDOR, fetch, base: `${url}/api/v1` });
  return async (
    id: string,
    method: string,
    given: object,
    signal: AbortSignal,
  ): Promise<RpcAnswer> => {
    const answer = await rest<RpcAnswer>("rpc", signal, {
      jsonrpc: "2.0",
      id,
      method,
      params: { account, ...given },
    });
    if (answer?.result ?? answer?.error) return answer;
    throw new ChannelError({ status: "unknown", reason: "the daemon's answer was not JSON-RPC" });
  };
}

/** A conversation, as the daemon takes it. */
export function toTarget(to: string): { recipient?: string[]; groupId?: string } {
  const groupId = /^group:(.*)$/.exec(to)?.[1];
  return groupId === undefined ? { recipient: [to.replace(/^uuid:/, "")] } : { groupId };
}

/** Sends by the daemon. */
export function createChannel({ url, account, fetch }: Daemon): Channel {
  const call = createRpc({ url, account, fetch });
  const post = async (
    { to, replyTo, idempotencyKey }: Pick<OutgoingMessage, "to" | "replyTo" | "idempotencyKey">,
    content: object,
    signal: AbortSignal,
  ): Promise<SendResult> => {
    // An id that `receive` gave: the time of the message and who wrote it.
    const [, quoteTimestamp, quoteAuthor] = /^(\d+):(.+)$/.exec(replyTo ?? "") ?? [];
    const quote =
      quoteAuthor === undefined ? {} : { quoteTimestamp: Number(quoteTimestamp), quoteAuthor };
    const { result, error } = await call(
      idempotencyKey,
      "send",
      { ...toTarget(to), ...content, ...quote },
      signal,
    );
    return result
      ? sentResult(result.timestamp?.toString())
      : sortError(error?.code ?? 0, error?.data?.response?.results ?? []);
  };
  return vendorChannel({
    vendor: VENDOR,
    post(message, _, signal) {
      const { text, styles } = render(message.text);
      return post(
        message,
        { message: text, ...(styles.length > 0 && { textStyle: styles }) },
        signal,
      );
    },
    typing: {
      everyMs: TYPING_MS,
      async show({ to }, _, signal) {
        const { error } = await call("typing", "sendTyping", toTarget(to), signal);
        if (error)
          throw new ChannelError(sortError(error.code ?? 0, error.data?.response?.results ?? []));
      },
    },
    postFile: (file, _, signal) => post(file, { attachments: [toDataUri(file)] }, signal),
    async check(signal) {
      const response = await fetch(`${url}/api/v1/check`, { signal });
      await response.body?.cancel();
      if (!response.ok)
        throw new ChannelError(`the daemon's address answered ${response.status} to /api/v1/check`);
      // The cheapest method that needs the account: it asks nobody outside.
      const { error } = await call("probe", "listContacts", { recipient: [account] }, signal);
      if (error?.code === -32602) throw new ChannelError(NO_ACCOUNT);
    },
  });
}
