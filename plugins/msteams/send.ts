import {
  ChannelError,
  clientToken,
  createRest,
  ignoreGone,
  renderVerdict,
  sameRule,
  sentResult,
  vendorChannel,
  type ErrorRules,
  type KeyValueStore,
  type VendorChannel,
} from "#channel-kit";
import type { ApprovalQuestion, Channel, PluginContext, OutgoingFile } from "#plugin";
import { toTeams } from "./format.ts";
import type { TeamsConfig } from "./config.ts";
import type { Reference } from "./references.ts";

const IMAGES = new Set(["image/png", "image/jpeg", "image/gif"]);
/** An activity may have about 100 kB, and the image is in it as base64. */
const MAX_IMAGE = 60_000;
/** Other files need the consent of the person, who uploads them to their own OneDrive: not in groups, and not without a click. */
const ONLY_SMALL_IMAGES = {
  status: "unsupported",
  reason: "on Teams only PNG, JPEG and GIF images of up to 60 kB can be sent",
} as const;

/** An activity with an image in it; undefined if the file is no small image. */
function toImageActivity({ name, mediaType, data, replyTo }: OutgoingFile): object | undefined {
  if (!IMAGES.has(mediaType) || data.length > MAX_IMAGE) return undefined;
  const contentUrl = `data:${mediaType};base64,${Buffer.from(data).toString("base64")}`;
  return {
    type: "message",
    attachments: [{ contentType: mediaType, contentUrl, name }],
    replyToId: replyTo,
  };
}

const BLOCKED = "the bot is not in this conversation, or is blocked: install the app there";
const UNKNOWN_CONVERSATION =
  "there is no such conversation: the id is wrong, or the app was taken out";
const TOO_LONG = "the message is too long for Teams";
/** The Connector's own messages may quote what was sent: they are not repeated. */
export const VENDOR: ErrorRules = {
  name: "Teams",
  shown: (code) => `, ${code}`,
  errors: {
    BotNotInConversationRoster: BLOCKED,
    BotDisabledByAdmin:
      "an administrator has disabled the bot: allow the app in the Teams admin center",
    ConversationBlockedByUser: "the user has blocked the bot",
    ForbiddenOperationException: BLOCKED,
    NotEnoughPermissions: "the bot may not write here: install the app there, with its permissions",
    ConversationNotFound: UNKNOWN_CONVERSATION,
    MessageSizeTooBig: TOO_LONG,
    BadSyntax: "the recipient's id is malformed",
    401: "it does not accept the bot's token: check channels.msteams.appId and tenantId, and that the bot has the Teams channel",
    403: BLOCKED,
    404: UNKNOWN_CONVERSATION,
    412: { status: "retry" },
    413: TOO_LONG,
  },
};

const SCOPE = "https://api.botframework.com/.default";
const WRONG = "check channels.msteams.appId, appSecret and tenantId; a secret may have run out";
const SIGN_IN: ErrorRules = {
  name: "Microsoft's sign-in",
  errors: sameRule([400, 401, 403, 404], WRONG),
};

/** The bytes that a text takes in an activity, once it is in Teams' dialect. */
export function countBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(toTeams(text))) - 2;
}

/** The Bot Framework has apps show a typing sign for 3 seconds, and wants no more than one in that time. */
const TYPING_MS = 3_000;
/** Teams takes 60 messages and edits of a conversation in 30 seconds, and 1,800 an hour. */
const EDIT_MS = 3_000;

interface Conversation {
  service: string;
  id: string;
}

/** An address of a service, below `v3/conversations`. */
interface Place {
  service: string;
  path: string;
}

/** Builds the address of the messages of a conversation, or of one of its threads. */
function toPlace({ service, id }: Conversation, { thread }: { thread?: string }): Place {
  return {
    service,
    path: `/${encodeURIComponent(thread === undefined ? id : `${id};messageid=${thread}`)}/activities`,
  };
}

/** Builds the address of one message of a conversation. */
function toMessage(conversation: Conversation, about: { thread?: string }, id: string): Place {
  const { service, path } = toPlace(conversation, about);
  return { service, path: `${path}/${encodeURIComponent(id)}` };
}

function toActivity({ text, replyTo }: { text: string; replyTo?: string }): object {
  return { type: "message", text: toTeams(text), textFormat: "markdown", replyToId: replyTo };
}

/** A card of buttons, below the text that it belongs to: cards show no code blocks. */
function buildCard({ code, instruction, verdicts }: ApprovalQuestion): object {
  const actions = verdicts.map(({ verdict, label }) => ({
    type: "Action.Submit",
    title: label,
    data: { rouse: renderVerdict(verdict, code) },
  }));
  const body = [{ type: "TextBlock", text: instruction, wrap: true, isSubtle: true }];
  const content = {
    $schema: "http://adaptivecards.io/schemas/adaptive-card.json",
    type: "AdaptiveCard",
    version: "1.4",
    body,
    actions,
  };
  return { attachments: [{ contentType: "application/vnd.microsoft.card.adaptive", content }] };
}

/** The bot's token for services of Teams. */
export function createTokens(context: PluginContext<TeamsConfig>): ReturnType<typeof clientToken> {
  const { tenantId, appId, appSecret, loginUrl } = context.config;
  const url = `${loginUrl}/${encodeURIComponent(tenantId)}/oauth2/v2.0/token`;
  return clientToken(context, { vendor: SIGN_IN, url, id: appId, secret: appSecret, scope: SCOPE });
}

/** Calls a service, and gives the id of what was made. */
type ServiceCall = (
  method: "POST" | "PUT" | "DELETE",
  place: Place,
  body: object | undefined,
  signal: AbortSignal,
) => Promise<string | undefined>;

/** Creates the typing sign and the text that is shown while the agent works. */
function createLive(
  request: ServiceCall,
): Pick<VendorChannel<Conversation>, "streaming" | "typing"> {
  return {
    streaming: {
      everyMs: EDIT_MS,
      edit: ({ messageId: id, ...message }, place, signal) =>
        request("PUT", toMessage(place, message, id), { ...toActivity(message), id }, signal),
      remove: ({ messageId: id, ...message }, place, signal) =>
        request("DELETE", toMessage(place, message, id), undefined, signal).catch(ignoreGone),
    },
    typing: {
      everyMs: TYPING_MS,
      show: (about, place, signal) =>
        request("POST", toPlace(place, about), { type: "typing" }, signal),
    },
  };
}

/** Sends pieces by the Bot Connector. */
export function createChannel(
  context: PluginContext<TeamsConfig>,
  references: KeyValueStore<Reference>,
  tokens: ReturnType<typeof createTokens>,
): Channel {
  const { config, fetch } = context;
  const { serviceUrl, tenantId, appId } = config;
  const read = (body: unknown) => ({ code: (body as { error?: { code?: unknown } }).error?.code });
  /** Posts to a service, or changes what is there. Gives the id of what was made. */
  const request: ServiceCall = async (method, { service, path }, body, signal) => {
    const call = createRest({ ...VENDOR, fetch, base: service, read });
    return (
      await tokens.use(
        (headers) =>
          call<{ id?: string }>(`v3/conversations${path}`, signal, body, headers, method),
        signal,
      )
    )?.id;
  };

  /** The conversation that a recipient means; one with a user is asked for, which gives the same each time. */
  const open = async (to: string, signal: AbortSignal): Promise<Conversation> => {
    const known = await references.get(to);
    if (!to.startsWith("user:")) return { service: known?.serviceUrl ?? serviceUrl, id: to };
    if (known) return { service: known.serviceUrl, id: known.conversation };
    const unreachable =
      "this user has not written yet: set channels.msteams.tenantId, so that the bot can begin";
    if (tenantId === "botframework.com")
      throw new ChannelError({ status: "failed", reason: unreachable });
    const pair = {
      isGroup: false,
      bot: { id: `28:${appId}` },
      members: [{ id: to.slice("user:".length) }],
    };
    const id = await request(
      "POST",
      { service: serviceUrl, path: "" },
      { ...pair, tenantId, channelData: { tenant: { id: tenantId } } },
      signal,
    );
    if (id === undefined)
      throw new ChannelError({
        status: "failed",
        reason: "Teams opened no conversation with this user",
      });
    await references.set([to, id], { serviceUrl, conversation: id });
    return { service: serviceUrl, id };
  };

  return vendorChannel({
    vendor: VENDOR,
    check: (signal) => tokens.ask(signal),
    find: ({ to }, signal) => open(to, signal),
    post: async (message, place, signal) =>
      sentResult(await request("POST", toPlace(place, message), toActivity(message), signal)),
    async postFile(file, place, signal) {
      const activity = toImageActivity(file);
      return activity
        ? sentResult(await request("POST", toPlace(place, file), activity, signal))
        : ONLY_SMALL_IMAGES;
    },
    async postQuestion(question, place, signal) {
      return sentResult(
        await request(
          "POST",
          toPlace(place, question),
          { ...toActivity(question), ...buildCard(question) },
          signal,
        ),
      );
    },
    ...createLive(request),
    async change(ended, place, signal) {
      const [id = ""] = ended.messageIds;
      return request("PUT", toMessage(place, ended, id), { ...toActivity(ended), id }, signal);
    },
  });
}
