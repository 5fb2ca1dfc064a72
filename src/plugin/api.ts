/**
 * What a plugin may use: `import { definePlugin } from "#plugin"` inside Rouse, `from "rouse/plugin"` outside.
 * A plugin is a plain object; what it offers is returned and taken over whole or not at all.
 */
export { backOff } from "../core/backoff.ts";
export { lazy as remember } from "../core/lazy.ts";
export { parseMarkdown } from "../delivery/markdown.ts";
export type * from "./channel.ts";
export type * from "./define.ts";
export { definePlugin } from "./define.ts";
export { askSince } from "./asking.ts";
export { keepPlace, sayWhen, stayConnected, watch } from "./connection.ts";
export { DRAWN, markLines, PLAIN, renderMarkdown, type Dialect, type Mark } from "./dialect.ts";
export { conversations, lookFor, postInDoubt, postOrFind } from "./doubt.ts";
export { listenToEvents } from "./event-listener.ts";
export { alike, failureOf, loadPackage, networkCode, probing, retryAfter, sendAfter, sending, sortAnswer, Trouble } from "./failure.ts";
export type { Answered, Failure, Vendor } from "./failure.ts";
export { escapeHtml, htmlText } from "./html.ts";
export { hmacSha256, listOf, neverConnected, parseObject, pause, readBody, sameSecret } from "./kit.ts";
export { holdLink, type Link } from "./link.ts";
export { normalForm, phoneNumber, recipients } from "./recipients.ts";
export { createRest, type Rest } from "./rest.ts";
export { rewriteMarkdown } from "./rewrite.ts";
export { keepsakes, type Keepsakes } from "./keepsakes.ts";
export { clientToken, tokenVerifier } from "./oauth.ts";
export { channelConfig, httpUrl, secret } from "./settings.ts";
export { followEvents, followSocket } from "./stream.ts";
export { renderStyled } from "./styled.ts";
export { heard, sent, vendorChannel } from "./vendor-channel.ts";
export { plainAnswer, readHook } from "./webhook.ts";
