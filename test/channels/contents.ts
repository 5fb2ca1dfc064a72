import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, onTestFinished } from "vitest";
import type { Clock } from "../../src/core/clock.ts";
import { createProvider, modelConfig, type Provider } from "../e2e/provider.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { png } from "../platform/images.ts";
import { json, serve } from "./wire.ts";
import { type FarSide, type SentFile, type Vendor } from "./vendors.ts";

const PDF = readFileSync(resolve(import.meta.dirname, "../fixtures/knowledge/libreoffice.pdf"));
export const PICTURE = png(64, 48);
export const SPEECH = Buffer.from("OggS-a-recording-of-words");
export const IMAGE: SentFile = {
  kind: "image",
  name: "photo.png",
  mime: "image/png",
  bytes: PICTURE,
};
export const VOICE: SentFile = {
  kind: "voice",
  name: "voice.ogg",
  mime: "audio/ogg",
  bytes: SPEECH,
};
export const REPORT: SentFile = {
  kind: "document",
  name: "report.pdf",
  mime: "application/pdf",
  bytes: PDF,
};

/** An endpoint that says how many bytes it was given to transcribe. */
async function startTranscriber() {
  const forms: { authorization: string | undefined; form: FormData }[] = [];
  const busy = { times: 0 };
  const { url, close } = await serve(({ headers, form }) => {
    if (busy.times > 0) {
      busy.times--;
      return { status: 503 };
    }
    if (form) forms.push({ authorization: headers.authorization, form });
    return json(200, { text: "please water the orchids" });
  });
  onTestFinished(close);
  return { url: `${url}/v1`, forms, busy };
}

/** Says what the last message of a request holds: the model reports what it was given. */
export function report(provider: Provider): void {
  provider.answer = ({ body }) => {
    const { content } = body.messages.at(-1) ?? { content: "" };
    const parts =
      typeof content === "string"
        ? [{ type: "text", text: content }]
        : (content as { type: string; text?: string }[]);
    const text = parts.map((part) => part.text ?? "").join("\n");
    const seen = [
      parts.some(({ type }) => type === "image_url") && "an image",
      text.includes("please water the orchids") && "spoken words",
      /the meeting is moved to noon/.test(text) && "a quote",
      /opens at seven in the morning/.test(text.replace(/\s+/g, " ")) && "a document",
    ];
    return `I was given: ${seen.filter(Boolean).join(", ") || "text alone"}`;
  };
}

interface OpenOptions {
  images?: boolean;
  /** For the section of the channel, and for the rest of the config. */
  more?: object;
  config?: object;
  /** The folder of a gateway, to be started again, and its far side. */
  dir?: string;
  again?: FarSide;
  clock?: Clock;
}

/** Opens a gateway with one channel, a model that reports what it was given, and what transcribes. */
export async function openWorld(
  { id, section, start }: Vendor,
  top: { transcription?: undefined; attachments?: object; threads?: object } = {},
  { images = true, more = {}, config = {}, dir, again, clock }: OpenOptions = {},
) {
  const far = again ?? (await start());
  if (!again) onTestFinished(async () => far.close());
  const provider = await createProvider();
  onTestFinished(provider.close);
  report(provider);
  const voice = await startTranscriber();
  const base = modelConfig(provider) as { models: { providers: { local: object } } };
  const local = { ...base.models.providers.local, images };
  const speech = { type: "openai-compatible", baseUrl: voice.url, apiKey: "canary-speech-key" };
  const world = await createWorld({
    ...(dir !== undefined && { dir }),
    ...(clock && { clock }),
    config: {
      ...base,
      models: { ...base.models, providers: { local, speech } },
      transcription: { provider: "speech", model: "whisper-1" },
      ...top,
      ...config,
      channels: { [id]: { ...section(far.url), ...more } },
    },
  });
  onTestFinished(() => world.stop());
  await whenListening(world, id);
  return { far, provider, world, voice };
}

/** Waits until the channel receives. */
export async function whenListening(world: World, id: string): Promise<void> {
  type Service = { id: string; ok: boolean; message: string };
  await world.until(async () =>
    ((await world.admin("/admin/v1/status")).body.status.services as Service[]).some(
      (one) => one.id === id && one.ok && one.message !== "starting",
    ),
  );
}

/** Passes on what a vendor posts, if it posts anything. */
export async function pass(world: World, request: Request | undefined): Promise<void> {
  if (!request) return;
  const { method, headers } = request;
  const url = request.url.replace(/^https?:\/\/[^/]+/, "http://127.0.0.1");
  const response = await world.gateway.fetch(
    new Request(url, { method, headers, body: await request.arrayBuffer() }),
  );
  expect(response.status).toBeLessThan(300);
}

/** Sends something, and gives the reply that arrives. */
export async function ask(
  { far, world }: { far: FarSide; world: World },
  said: Promise<Request | undefined>,
): Promise<string> {
  const before = far.arrived().length;
  await pass(world, await said);
  const reply = await world.until(async () => far.arrived()[before]);
  return reply.text;
}

/** The user's last message, as the model got it. */
export const lastText = (provider: Provider): string => {
  const { content } = provider.requests.at(-1)?.body.messages.at(-1) ?? { content: "" };
  return typeof content === "string"
    ? content
    : (content as { text?: string }[]).map(({ text = "" }) => text).join("");
};

/** Has the model call `send_file`, and then say something. */
export const callOnce =
  (input: object, reply: string): Provider["answer"] =>
  ({ body }) =>
    body.messages.at(-1)?.role === "tool"
      ? reply
      : { calls: [{ id: "call_1", name: "send_file", arguments: JSON.stringify(input) }] };
