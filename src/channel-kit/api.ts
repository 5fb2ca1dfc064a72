/** What channels share: `import { reconnectLoop } from "#channel-kit"` inside Rouse, `from "rouse/channel-kit"` outside. */
export { backOff } from "../core/backoff.ts";
export { parseDecision, renderVerdict, type WrittenDecision } from "../core/decision.ts";
export { lazy as once } from "../core/lazy.ts";
export { parseMarkdown } from "../core/markdown.ts";
export {
  type Card,
  renderCard,
  renderLink,
  renderMention,
  renderTree,
  toContactPart,
  toPlacePart,
  toPollPart,
} from "./cards.ts";
export {
  commandLanguages,
  type HeardFile,
  type HeardPart,
  type NativeCommand,
  nativeCommands,
  nestParts,
  toEarlierMessage,
  toIncomingMessage,
} from "./heard.ts";
export {
  checkpoint,
  type Connection,
  followEvents,
  followSocket,
  listenToEvents,
  pollSince,
  reconnectLoop,
  retryMessage,
  watch,
  withConnection,
} from "./connection.ts";
export {
  BOX_DRAWING,
  type Dialect,
  type Mark,
  markLines,
  NARROW,
  PLAIN,
  renderMarkdown,
} from "./dialect.ts";
export {
  ChannelError,
  classifyError,
  classifyResponse,
  createRest,
  type ErrorResponse,
  type ErrorRule,
  type ErrorRules,
  type FailedSend as Failure,
  ignoreGone,
  loadPackage,
  networkCode,
  probing,
  type Rest,
  retryAfter,
  sameRule,
  sendAfter,
  sending,
} from "./errors.ts";
export { checkFileUrl, createFetchFile, openDownload } from "./files.ts";
export { escapeHtml, escapeMarks, htmlText, rewriteMarkdown } from "./rewrite.ts";
export { createKeyValueStore, type KeyValueStore } from "./key-value-store.ts";
export {
  hmacSha256,
  neverConnected,
  objectsIn,
  parseObject,
  readBody,
  sameSecret,
  sleep,
} from "./kit.ts";
export { clientToken, tokenVerifier } from "./oauth.ts";
export {
  channelConfig,
  findNumber,
  httpUrl,
  normalForm,
  phoneNumber,
  recipients,
  secret,
  streamingSetting,
  typingSetting,
} from "./settings.ts";
export {
  conversations,
  lookAfterCrash,
  pollUntilFound,
  retryIdempotent,
  sendOrReconcile,
  untold,
} from "./reconcile.ts";
export { renderStyled } from "./styled.ts";
export { sentResult, vendorChannel, type VendorChannel } from "./vendor-channel.ts";
export { parseWebhook, textResponse } from "./webhook.ts";
