/**
 * Code that channels share: `import { reconnectLoop } from "#channel-kit"` inside Rouse, `from "rouse/channel-kit"`
 * outside.
 */
export {
  renderCard,
  renderLink,
  renderMention,
  renderTree,
  toContactPart,
  toPlacePart,
  toPollPart,
  type Card,
} from "./cards.ts";
export { commandLanguages, nativeCommands, type NativeCommand } from "./heard.ts";
export { withConnection, type Connection } from "./connection.ts";
export {
  BOX_DRAWING,
  markLines,
  NARROW,
  parseMarkdown,
  PLAIN,
  renderMarkdown,
  type Dialect,
  type Mark,
} from "./dialect.ts";
export {
  ChannelError,
  classifyError,
  classifyResponse,
  ignoreGone,
  loadPackage,
  networkCode,
  probing,
  retryAfter,
  sameRule,
  sendAfter,
  sending,
} from "./errors.ts";
export type { ErrorResponse, ErrorRule, ErrorRules, FailedSend as Failure } from "./errors.ts";
export { listenToEvents } from "./connection.ts";
export { checkFileUrl, createFetchFile, openDownload } from "./files.ts";
export {
  nestParts,
  toEarlierMessage,
  toEdit,
  toIncomingMessage,
  type HeardFile,
  type HeardPart,
} from "./heard.ts";
export { escapeHtml, htmlText } from "./rewrite.ts";
export { createKeyValueStore, type KeyValueStore } from "./key-value-store.ts";
export {
  backOff,
  cutText,
  hmacSha256,
  neverConnected,
  objectsIn,
  once,
  parseDecision,
  parseObject,
  parseText,
  plural,
  readBody,
  renderVerdict,
  replaceFile,
  sameSecret,
  sleep,
  type WrittenDecision,
} from "./kit.ts";
export { clientToken, tokenVerifier } from "./oauth.ts";
export { pollSince } from "./connection.ts";
export { findNumber, normalForm, phoneNumber, recipients } from "./settings.ts";
export { checkpoint, reconnectLoop, retryMessage, watch } from "./connection.ts";
export {
  conversations,
  lookAfterCrash,
  pollUntilFound,
  retryIdempotent,
  sendOrReconcile,
  untold,
} from "./reconcile.ts";
export { createRest, type Rest } from "./errors.ts";
export { escapeMarks, rewriteMarkdown } from "./rewrite.ts";
export { channelConfig, httpUrl, secret, streamingSetting, typingSetting } from "./settings.ts";
export { followEvents, followSocket } from "./connection.ts";
export { renderStyled } from "./styled.ts";
export { sentResult, vendorChannel, type VendorChannel } from "./vendor-channel.ts";
export { parseWebhook, textResponse } from "./webhook.ts";
