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
} from "./cards.ts";
export {
  checkpoint,
  followSocket,
  listenToEvents,
  pollSince,
  reconnectLoop,
  retryMessage,
  watch,
  withConnection,
  type Connection,
} from "./connection.ts";
export {
  BOX_DRAWING,
  escapeProducts,
  MARKED,
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
  createRest,
  ignoreGone,
  loadPackage,
  networkCode,
  retryAfter,
  sameRule,
  sendAfter,
  type ErrorRules,
  type FailedSend as Failure,
  type Rest,
} from "./errors.ts";
export { checkFileUrl, createFetchFile, openDownload } from "./files.ts";
export {
  nativeCommands,
  nestParts,
  toEarlierMessage,
  toEdit,
  toIncomingMessage,
  type HeardFile,
  type HeardPart,
} from "./heard.ts";
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
} from "./kit.ts";
export { clientToken, tokenVerifier } from "./oauth.ts";
export {
  conversations,
  lookAfterCrash,
  retryIdempotent,
  sendOrReconcile,
  untold,
} from "./reconcile.ts";
export { escapeHtml, escapeMarks, htmlText, rewriteMarkdown } from "./rewrite.ts";
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
export { renderStyled } from "./styled.ts";
export { sentResult, vendorChannel, type VendorChannel } from "./vendor-channel.ts";
export { parseWebhook, textResponse } from "./webhook.ts";
