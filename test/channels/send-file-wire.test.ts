import { expect, it, onTestFinished } from "vitest";
import type { FileSendResult, OutgoingFile } from "../../src/plugin/api.ts";
import { png } from "../platform/images.ts";
import { load, userFolder } from "../plugin/support.ts";
import { serve, type Answer, type Call } from "./wire.ts";

const PICTURE = png(4, 3);
const FILE: Omit<OutgoingFile, "to"> = {
  name: "report.txt",
  mediaType: "text/plain",
  data: new Uint8Array(Buffer.from("all is well")),
  idempotencyKey: "dlv_1.1",
};
const IMAGE = { ...FILE, name: "plan.png", mediaType: "image/png", data: new Uint8Array(PICTURE) };
const CHANNEL = "a".repeat(26);

interface VendorWire {
  id: string;
  section(url: string): object;
  to: string;
  answer(call: Call, url: string): unknown;
  file?: Omit<OutgoingFile, "to">;
  expects(calls: readonly Call[]): Promise<void> | void;
}

const readForm = async (
  form: FormData | undefined,
  name: string,
): Promise<{ name: string; type: string; text: string }> => {
  const file = form?.get(name) as File;
  return { name: file.name, type: file.type.split(";")[0] ?? "", text: await file.text() };
};
const WHOLE = { name: "report.txt", type: "text/plain", text: "all is well" };
const find = (calls: readonly Call[], path: RegExp): Call =>
  calls.find((call) => path.test(call.path)) as Call;

const VENDORS: VendorWire[] = [
  {
    id: "discord",
    section: (url) => ({ token: "a.b.c", apiUrl: url }),
    to: "1099999999999999999",
    answer: () => ({ id: "1" }),
    async expects(calls) {
      const { form } = find(calls, /messages$/);
      expect(await readForm(form, "files[0]")).toEqual(WHOLE);
      expect(JSON.parse(form?.get("payload_json") as string)).toMatchObject({
        enforce_nonce: true,
        allowed_mentions: { parse: [] },
      });
    },
  },
  {
    id: "slack",
    section: (url) => ({ botToken: "xoxb-1", apiUrl: `${url}/api/` }),
    to: "C0123ABC",
    answer: ({ path }, url) =>
      path.endsWith("getUploadURLExternal")
        ? { ok: true, upload_url: `${url}/upload/v1/A`, file_id: "F123" }
        : { ok: true, files: [{ id: "F123" }] },
    expects(calls) {
      const asked = new URLSearchParams(find(calls, /getUploadURLExternal/).bytes.toString());
      expect([asked.get("filename"), asked.get("length")]).toEqual(["report.txt", "11"]);
      const uploaded = find(calls, /upload\/v1/);
      expect([uploaded.bytes.toString(), uploaded.headers.authorization]).toEqual([
        "all is well",
        undefined,
      ]);
      const shared = new URLSearchParams(find(calls, /completeUploadExternal/).bytes.toString());
      expect([shared.get("channel_id"), JSON.parse(shared.get("files") ?? "")]).toEqual([
        "C0123ABC",
        [{ id: "F123", title: "report.txt" }],
      ]);
    },
  },
  {
    id: "mattermost",
    section: (url) => ({ url, token: "t" }),
    to: CHANNEL,
    answer: ({ path }) => (path.endsWith("/files") ? { file_infos: [{ id: "f1" }] } : { id: "p1" }),
    async expects(calls) {
      const { form } = find(calls, /\/files$/);
      expect(await readForm(form, "files")).toEqual(WHOLE);
      expect(form?.get("channel_id")).toBe(CHANNEL);
      expect(find(calls, /\/posts$/).body).toMatchObject({
        file_ids: ["f1"],
        pending_post_id: "rouse:dlv_1.1",
      });
    },
  },
  {
    id: "signal",
    section: (url) => ({ url, account: "+15550001111" }),
    to: "+15551234567",
    answer: () => ({ jsonrpc: "2.0", id: "dlv_1.1", result: { timestamp: 1 } }),
    expects(calls) {
      const params = find(calls, /rpc$/).body["params"] as { attachments: string[] };
      expect(params.attachments).toEqual([
        `data:text/plain;filename=report.txt;base64,${Buffer.from("all is well").toString("base64")}`,
      ]);
    },
  },
  {
    id: "imessage",
    section: (url) => ({ url, password: "p" }),
    to: "chat:iMessage;+;chat123456",
    answer: () => ({ status: 200, data: { guid: "g1" } }),
    async expects(calls) {
      const { form } = find(calls, /message\/attachment$/);
      expect(await readForm(form, "attachment")).toEqual(WHOLE);
      expect(["chatGuid", "tempGuid", "name", "method"].map((name) => form?.get(name))).toEqual([
        "iMessage;+;chat123456",
        "dlv_1.1",
        "report.txt",
        "apple-script",
      ]);
    },
  },
  {
    id: "whatsapp",
    section: (url) => ({
      phoneNumberId: "123",
      accessToken: "t",
      appSecret: "0".repeat(32),
      verifyToken: "verify-token",
      apiUrl: url,
    }),
    to: "+15557654321",
    answer: ({ path }) =>
      path.endsWith("/media") ? { id: "m1" } : { messages: [{ id: "wamid.1" }] },
    async expects(calls) {
      const { form } = find(calls, /\/media$/);
      expect(await readForm(form, "file")).toEqual(WHOLE);
      expect([form?.get("messaging_product"), form?.get("type")]).toEqual([
        "whatsapp",
        "text/plain",
      ]);
      const document = {
        type: "document",
        document: { id: "m1", filename: "report.txt" },
        biz_opaque_callback_data: "dlv_1.1",
      };
      expect(find(calls, /\/messages$/).body).toMatchObject(document);
    },
  },
  {
    id: "msteams",
    section: (url) => ({
      appId: "11111111-2222-4333-8444-555555555555",
      appSecret: "s",
      tenantId: "11111111-2222-4333-8444-555555555556",
      serviceUrl: url,
      loginUrl: url,
    }),
    to: "19:abc@thread.tacv2",
    file: IMAGE,
    answer: ({ path }) =>
      path.endsWith("/token")
        ? { access_token: "t", token_type: "Bearer", expires_in: 3600 }
        : { id: "1" },
    expects(calls) {
      const [attachment] = find(calls, /activities$/).body["attachments"] as object[];
      const contentUrl = `data:image/png;base64,${PICTURE.toString("base64")}`;
      expect(attachment).toEqual({ contentType: "image/png", contentUrl, name: "plan.png" });
    },
  },
];

async function send(
  { id, section, to, answer, file = FILE }: VendorWire,
  fails: number,
): Promise<{ result: FileSendResult | undefined; calls: Call[] }> {
  const calls: Call[] = [];
  const { url, close } = await serve((call): Answer => {
    calls.push(call);
    if (fails > 0 && !call.path.endsWith("token")) return { status: fails, json: {} };
    return { status: 200, json: answer(call, url) };
  });
  onTestFinished(close);
  const { channels, issues } = await load(userFolder({}).dir, { channels: { [id]: section(url) } });
  const channel = channels.get(id)?.channel;
  if (!channel) throw new Error(JSON.stringify(issues));
  return { result: await channel.sendFile?.({ ...file, to }, AbortSignal.timeout(10_000)), calls };
}

for (const vendor of VENDORS) {
  it(`${vendor.id}: uploads a file in the vendor's way`, async () => {
    const { result, calls } = await send(vendor, 0);
    expect(result?.status).toBe("sent");
    await vendor.expects(calls);
  });

  it(`${vendor.id}: an upload that is limited is tried again`, async () => {
    expect((await send(vendor, 429)).result?.status).toBe("retry");
  });
}
