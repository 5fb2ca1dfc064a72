import { z } from "zod";
import { durationOr, optionalField, section, text, withDefault } from "./common.ts";
import { callbackSchema } from "./limits.ts";

/** The approver that holds the gateway token: the command line, the admin API and the console. */
export const OPERATOR = "operator";

/** `<server>.<tool>`, `<server>.*` or `*`; `:changing` or `:destructive` behind it takes only such tools, `!` before it takes tools out. */
export const approve = z.array(text);

export const UNTRUSTED = ["ask", "withhold", "allow"] as const;

export const toolsSchema = section("When agents have to ask before they use a tool, and whom.", {
  untrusted: optionalField(
    z.enum(UNTRUSTED),
    "If the model calls a tool that changes something while it sees text from outside: `ask` an approver, `withhold` the call, or `allow` it. Default: `ask`, and `withhold` if no approver can be asked. If it is set, results of tools called in the same turn of the API count as text from outside too.",
  ),
  recipients: optionalField(
    z.enum(UNTRUSTED),
    "The same for a call with an e-mail address, a telephone number or a name on a channel that neither the operator, the owner nor the API's caller has named; also for tools that hooks.tools or a mapping names. Default: as `untrusted`, which is `ask`.",
  ),
  links: optionalField(
    z.enum(UNTRUSTED),
    "The same for links to hosts that none of them has named and that are not in hooks.allowedLinkHosts. With `ask` or `withhold`, such links are removed from replies of hooks, channels and heartbeats. Default: as `untrusted` if hooks.allowedLinkHosts is set, otherwise `allow`, with a warning on the run.",
  ),
  approvers: withDefault(
    z.array(text).min(1, `name at least one, such as "${OPERATOR}"`),
    [OPERATOR],
    "Who may decide: `operator`, `api:<key id>`, `<channel>:<id of the person>`. Channels ask in this order.",
  ),
  approvalCallback: optionalField(
    callbackSchema,
    "Post each question to an address, besides asking on channels.",
  ),
  approvalTimeout: durationOr("24h").describe(
    "How long a call waits for a decision. After that it is denied.",
  ),
});
