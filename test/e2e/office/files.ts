import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { png } from "../../platform/images.ts";
import type { SentFile } from "../../channels/vendors.ts";

/** A document with these texts, a page each. */
export function pdf(...texts: string[]): Buffer {
  const pages = texts.flatMap((text, index) => {
    const stream = `BT /F1 18 Tf 40 700 Td (${text}) Tj ET`;
    const about = `/Contents ${2 * index + 5} 0 R /Resources << /Font << /F1 3 0 R >> >>`;
    return [
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] ${about} >>`,
      `<< /Length ${stream.length} >>\nstream\n${stream}\nendstream`,
    ];
  });
  const kids = texts.map((_, index) => `${2 * index + 4} 0 R`).join(" ");
  const objects = [
    "<< /Type /Catalog /Pages 2 0 R >>",
    `<< /Type /Pages /Kids [${kids}] /Count ${texts.length} >>`,
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ...pages,
  ];
  let body = "%PDF-1.4\n";
  const offsets = objects.map((object, index) => {
    const at = body.length;
    body += `${index + 1} 0 obj\n${object}\nendobj\n`;
    return at;
  });
  const table = offsets.map((at) => `${String(at).padStart(10, "0")} 00000 n \n`).join("");
  body += `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${table}`;
  return Buffer.from(
    `${body}trailer\n<< /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${body.length}\n%%EOF\n`,
  );
}

/** Files whose content is a mark, by kind. */
export const FILES: Record<string, (mark: string) => SentFile> = {
  image: (mark) => ({
    kind: "image",
    name: "photo.png",
    mime: "image/png",
    bytes: Buffer.concat([png(64, 48), Buffer.from(mark)]),
  }),
  voice: (mark) => ({
    kind: "voice",
    name: "voice.ogg",
    mime: "audio/ogg",
    bytes: Buffer.from(`OggS ${mark}`),
  }),
  note: (mark) => ({
    kind: "document",
    name: "note.txt",
    mime: "text/plain",
    bytes: Buffer.from(`A note: ${mark}.`),
  }),
  pdf: (mark) => ({
    kind: "document",
    name: "report.pdf",
    mime: "application/pdf",
    bytes: pdf(`The report says ${mark} today.`),
  }),
};

/** An endpoint that writes down what the recordings of this office say. */
export async function startTranscriber(): Promise<{ url: string; close(): void }> {
  const server = createServer((request, response) => {
    void (async () => {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part as Buffer);
      const [mark] = /mk\d+q/.exec(Buffer.concat(parts).toString("latin1")) ?? [];
      response
        .setHeader("content-type", "application/json")
        .end(JSON.stringify({ text: `I say ${mark}` }));
    })();
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    close: () => void server.close(),
  };
}
