import {
  nestParts,
  objectsIn,
  parseDecision,
  renderCard,
  toContactPart,
  toPlacePart,
  type HeardPart,
} from "#channel-kit";
import { readFiles } from "./files.ts";

interface Contact {
  name?: { formatted_name?: string };
  org?: { company?: string };
  phones?: { phone?: string; wa_id?: string }[];
  emails?: { email?: string }[];
  urls?: { url?: string }[];
}

/** The content of a message. */
export interface WhatsAppContent {
  type?: unknown;
  /** Kinds of messages that the apps have and the API does not pass on. */
  unsupported?: { type?: unknown };
  text?: { body?: unknown };
  /** The message that this one answers: its id alone. And whether it was forwarded: by whom, WhatsApp does not say. */
  context?: {
    id?: unknown;
    forwarded?: unknown;
    frequently_forwarded?: unknown;
    referred_product?: { product_retailer_id?: string };
  };
  button?: { text?: unknown };
  interactive?: {
    button_reply?: { id?: unknown; title?: unknown };
    list_reply?: { title?: unknown };
    nfm_reply?: { body?: unknown; response_json?: unknown };
  };
  location?: {
    latitude?: number;
    longitude?: number;
    name?: string;
    address?: string;
    url?: string;
  };
  contacts?: Contact[];
  order?: {
    text?: unknown;
    product_items?: {
      product_retailer_id?: string;
      quantity?: number | string;
      item_price?: number | string;
      currency?: string;
    }[];
  };
  /** The advertisement from which the person has come. */
  referral?: { headline?: string; body?: string; source_url?: string };
  [media: string]: unknown;
}

const isType = (type: unknown): type is string =>
  typeof type === "string" && /^[a-z_]{1,30}$/.test(type);

/** The type of a message, also of one that the API does not pass on. */
export function getMessageType({ type, unsupported }: WhatsAppContent): string {
  return [unsupported?.type, type].find(isType) ?? "unknown";
}

/** The type of what WhatsApp sends when a person opens the conversation for the first time. */
const OPENED = "request_welcome";

/** The text that the sender wrote or chose. */
function readOwn(message: WhatsAppContent): string | undefined {
  if (message.type === OPENED) return "/start";
  const { text, button, interactive, order } = message;
  // The press of one of the gateway's own buttons; its title alone would not say which question it answers.
  const pressed = interactive?.button_reply?.id;
  if (typeof pressed === "string" && parseDecision(pressed)) return pressed;
  const { caption } = (message[getMessageType(message)] ?? {}) as { caption?: unknown };
  const form = interactive?.nfm_reply;
  const written = [
    text?.body,
    button?.text,
    interactive?.button_reply?.title,
    interactive?.list_reply?.title,
    form?.response_json,
    order?.text,
    caption,
  ];
  return written.find((part): part is string => typeof part === "string" && part.trim() !== "");
}

function readOrder({ product_items: items }: NonNullable<WhatsAppContent["order"]>): HeardPart {
  const lines = objectsIn(items).map(
    ({ product_retailer_id: product, quantity, item_price: price, currency }) =>
      `- ${quantity} × ${product}, ${price} ${currency} each`,
  );
  return { kind: "embedded", text: ["[order]", ...lines].join("\n") };
}

const readContact = ({ name, org, phones, emails, urls }: Contact): HeardPart =>
  toContactPart({
    name: name?.formatted_name,
    organization: org?.company,
    reach: [
      ...objectsIn(phones).map(({ phone, wa_id }) => phone ?? wa_id),
      ...objectsIn(emails).map(({ email }) => email),
      ...objectsIn(urls).map(({ url }) => url),
    ],
  });

/** The parts of a message; of one without any, its type in brackets. */
export function readParts(message: WhatsAppContent): HeardPart[] {
  const { context, location, contacts, order, referral } = message;
  const type = getMessageType(message);
  const product = context?.referred_product?.product_retailer_id;
  const files = readFiles(type, message[type]);
  const own = readOwn(message);
  const content: HeardPart[] = [
    ...(own === undefined ? [] : [{ kind: "own" as const, text: own }]),
    ...(location ? [toPlacePart(location)] : []),
    ...objectsIn(contacts).map(readContact),
    ...(order ? [readOrder(order)] : []),
    ...(product === undefined
      ? []
      : [{ kind: "embedded" as const, text: `[product: ${product}]` }]),
    ...(files.length > 0 ? [{ kind: "file" as const, files }] : []),
  ];
  const named = type === message.type ? type : `unsupported: ${type}`;
  const said = content.length > 0 ? content : [{ kind: "own" as const, text: `[${named}]` }];
  const isForwarded = context?.forwarded === true || context?.frequently_forwarded === true;
  const quoted = context?.id;
  return [
    ...(isForwarded ? [nestParts({ kind: "forwarded" }, said)] : said),
    {
      kind: "embedded",
      place: referral && "an advertisement",
      text:
        referral &&
        renderCard({ title: referral.headline, url: referral.source_url, text: referral.body }),
    },
    { kind: "quoted", id: typeof quoted === "string" ? quoted : undefined },
  ];
}
