import { ask } from "../../api.ts";
import { quote, toHookTarget, type HooksAnswer } from "../../shell-line.ts";
import { copy } from "../../ui/basic.tsx";
import { toast } from "../../ui/toast.tsx";
import type { EventInFull } from "./types.ts";

/** A longer command is not for a clipboard. */
const MAX_CURL_BODY = 512 * 1024;
/** The headers that the client sets itself. */
const OWN = new Set([
  "content-length",
  "content-type",
  "host",
  "connection",
  "accept-encoding",
  "transfer-encoding",
]);

/** Each value of a query with its name. */
export const listParameters = (
  query: EventInFull["request"]["query"],
): [name: string, value: string][] =>
  Object.entries(query).flatMap(([name, value]) =>
    [value].flat().map((one): [string, string] => [name, one]),
  );

/**
 * A command that sends the request again. Credentials were never kept: the shell reads the hook token, and a sender that
 * signs its requests has to sign this one, too. `url` is the base of the hooks.
 */
function renderCurl(
  { path, credential, request }: Pick<EventInFull, "path" | "credential" | "request">,
  { url, token }: { url: string; token: string },
): string {
  const { method, headers, query, contentType, body, encoding } = request;
  const search = new URLSearchParams(listParameters(query)).toString();
  const sent = [
    ...(credential === "hooks.token" ? [`-H "authorization: Bearer ${token}"`] : []),
    ...(contentType === null ? [] : [`-H ${quote(`content-type: ${contentType}`)}`]),
    ...Object.entries(headers)
      .filter(([name]) => !OWN.has(name.toLowerCase()))
      .map(([name, value]) => `-H ${quote(`${name}: ${value}`)}`),
  ];
  const target = quote(`${url}/${path}${search === "" ? "" : `?${search}`}`);
  const start = `curl -sS -X ${method} ${target}`;
  const note =
    credential === "hooks.token"
      ? ""
      : `# add what ${credential} needs: credentials and signatures are not kept\n`;
  const isText = encoding === "utf8" && !body?.includes("\0");
  const data =
    body === null || body === "" ? [] : [isText ? `--data-raw ${quote(body)}` : "--data-binary @-"];
  const command = [start, ...sent, ...data].join(" \\\n  ");
  if (isText || body === null || body === "") return `${note}${command}`;
  const base64 =
    encoding === "base64" ? body : btoa(String.fromCharCode(...new TextEncoder().encode(body)));
  return `${note}printf %s ${quote(base64)} | base64 -d | ${command}`;
}

/** Puts a command on the clipboard that sends the request of an event again. */
export async function copyCurl(event: EventInFull): Promise<void> {
  if ((event.bodyBytes ?? 0) > MAX_CURL_BODY)
    return toast(
      `The body is too long for a command. “rouse explain ${event.id} --json” prints it.`,
      { tone: "warn" },
    );
  const [{ status }, hooks] = await Promise.all([
    ask<{ status: { url?: string } }>("/status"),
    ask<HooksAnswer>("/mappings"),
  ]);
  await copy(renderCurl(event, toHookTarget(hooks, status.url)), "the curl command");
}
