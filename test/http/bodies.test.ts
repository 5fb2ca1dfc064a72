import { createHmac } from "node:crypto";
import {
  brotliCompressSync,
  deflateRawSync,
  deflateSync,
  gzipSync,
  zstdCompressSync,
} from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { decodePayload } from "../../src/core/http/payload.ts";
import { plainText } from "../../src/core/text.ts";
import { createWorld, TOKEN, type Answer, type World } from "../e2e/world.ts";

// Bodies as senders write them. No hook may be accepted with other characters or digits than were sent.

const ID = "154284075601887489";
const NEXT_ID = "154284075601887490";

const SECRET = "a-signing-secret-0123456789";

const hook = (id: string, change: object = {}) => ({
  id,
  match: { path: id },
  messageTemplate: "{{ id }}|{{ price }}|{{ name }}",
  ...change,
});

const MAPPINGS = [
  hook("fields"),
  hook("session", { sessionKey: "hook:{{ id }}" }),
  hook("whole", { messageTemplate: "{{ payload }}" }),
  hook("once", { dedupeKey: "{{ id }}" }),
  hook("sums", {
    messageTemplate: "{{ $sum(l.p) }} {{ '' & $sum(l.p) }} {{ l[p > 2].p }} {{ l }}",
  }),
  hook("counts", {
    messageTemplate:
      "{{ $count(l) }} {{ n + 1 }} {{ l[a = 1].a }} {{ l[a = 2].(a) }} {{ (0 - z) }}",
  }),
  hook("texts", {
    messageTemplate: [
      "{{ price & ' EUR' }}|{{ $string(total) & ' EUR' }}|{{ n & '' }}|{{ $join(l.(p & ''), ', ') }}",
      "|{{ $map(o, function($o) { $o.v & '' }) }}|{{ $string(true ? price) }}",
      "|{{ $count(l) & ' of ' & n }}",
    ].join(""),
  }),
  hook("parts", {
    messageTemplate: "{{ '' & o }} {{ $string(l) }} {{ {'total': o.price} }} {{ o }}",
  }),
  hook("rounded", { messageTemplate: "{{ $round(price, 1) }} {{ price * 1 }} {{ $max(l) }}" }),
  // The expression takes longer than the gateway's own process allows, and is evaluated in a process of its own.
  hook("slow", {
    messageTemplate:
      "{{ ($count($map([1..15000], function($i) { $i * 2 })) > 0) & ' ' & price & ' ' & $string(l[0].p) & ' ' & id }}",
  }),
  hook("literal", { messageTemplate: `{{ id = ${ID} }} {{ id = ${NEXT_ID} }}` }),
  hook("larger", {
    match: { path: "larger", payload: { amount: { $gt: 100 } } },
    messageTemplate: "{{ amount }}",
  }),
  hook("strict", { validate: { type: "object", properties: { id: { type: "integer" } } } }),
  hook("json", { body: "json" }),
  hook("text", { body: "text", messageTemplate: "{{ payload }}" }),
  hook("form", { body: "form" }),
  hook("lists", {
    match: { path: "lists", query: { tag: "b" } },
    messageTemplate: "{{ query.tag }}",
  }),
  hook("names", {
    match: { path: "names", payload: { "`data[email]`": "x@y.example" } },
    messageTemplate: "{{ `data[email]` }} {{ `a.b`.c }}",
  }),
  hook("small", { maxBodyBytes: 1000 }),
  hook("header", { messageTemplate: "{{ headers.`x-name` }}" }),
  hook("query", { methods: ["GET"], dedupeKey: "{{ now }}", messageTemplate: "{{ name }}" }),
  hook("signed", {
    auth: {
      secret: SECRET,
      scheme: {
        algorithm: "hmac-sha256",
        signature: { header: "x-own" },
        id: { body: "id" },
      },
    },
  }),
];
/** Written by hand, as JavaScript cannot write such a number. */
const NUMBERS = `{ id: "numbers", mappings: [
  { match: { path: "numbers", payload: { id: ${NEXT_ID} } }, messageTemplate: "the next" },
  { match: { path: "numbers", payload: { id: ${ID} } }, messageTemplate: "the one" },
] }`;

let world: World;
beforeAll(async () => {
  world = await createWorld({
    workers: false,
    config: { hooks: { mappings: MAPPINGS, mappingsDir: "mappings" } },
    files: { "mappings/numbers.json5": NUMBERS },
  });
});
afterAll(() => world.stop());

const getInput = async (runId: string): Promise<string> =>
  plainText((await world.admin(`/admin/v1/runs/${runId}`)).body.run.input);

/** The message that a hook made for its agent. */
async function getMessage(sent: Promise<Answer>): Promise<string> {
  const { status, body } = await sent;
  expect([status, body.error]).toEqual([202, undefined]);
  return getInput(body.runId);
}
const post = (path: string, body: string | Uint8Array, type: string, encoding?: string) =>
  world.post(`/hooks/${path}`, body, {
    "content-type": type,
    ...(encoding === undefined ? {} : { "content-encoding": encoding }),
  });

const MARKS: Record<string, number[]> = {
  "utf-8": [0xef, 0xbb, 0xbf],
  "utf-16le": [0xff, 0xfe],
  "utf-16be": [0xfe, 0xff],
};
/** A name in bytes, by character set. */
const NAMES: [charset: string, name: string, bytes: number[]][] = [
  ["utf-8", "Müller 訂單", [...Buffer.from("Müller 訂單")]],
  ["iso-8859-1", "Müller", [...Buffer.from("Müller", "latin1")]],
  ["windows-1251", "Заказ", [0xc7, 0xe0, 0xea, 0xe0, 0xe7]],
  ["shift_jis", "注文", [0x92, 0x8d, 0x95, 0xb6]],
  ["gb18030", "订单", [0xb6, 0xa9, 0xb5, 0xa5]],
  ["utf-16le", "Müller 訂單", [...Buffer.from("Müller 訂單", "utf16le")]],
  ["utf-16be", "Müller 訂單", [...Buffer.from("Müller 訂單", "utf16le").swap16()]],
];
const isWide = (charset: string): boolean => charset.startsWith("utf-16");

/** Text around a name, in a character set. */
function write(charset: string, before: string, name: number[], after: string): Buffer {
  const encode = (text: string): Buffer => {
    const bytes = Buffer.from(text, isWide(charset) ? "utf16le" : "latin1");
    return charset === "utf-16be" ? bytes.swap16() : bytes;
  };
  return Buffer.concat([encode(before), Buffer.from(name), encode(after)]);
}

const ENCODINGS: Record<string, (bytes: Buffer) => Buffer> = {
  gzip: gzipSync,
  "x-gzip": gzipSync,
  deflate: deflateSync,
  Deflate: deflateRawSync,
  br: brotliCompressSync,
  zstd: zstdCompressSync,
  identity: (bytes) => bytes,
  // A mistake that programs make.
  "utf-8": (bytes) => bytes,
  "gzip, br": (bytes) => brotliCompressSync(gzipSync(bytes)),
};

describe("content type × charset × byte order mark", () => {
  const JSON_TYPES = [
    "application/json",
    "application/vnd.shop+json",
    "text/json",
    "text/plain",
    "application/x-amz-json-1.1",
    "application/octet-stream",
    "application/javascript",
    "text/html",
    "application/json,charset=utf-8",
  ];
  const cells = NAMES.flatMap(([charset, name, bytes]) =>
    JSON_TYPES.flatMap((type) =>
      [false, true]
        .filter((marked) => !marked || MARKS[charset] !== undefined)
        .map((marked) => ({ type, charset, marked, name, bytes })),
    ),
  );
  it.each(cells)("JSON as $type in $charset, marked: $marked", async (cell) => {
    const { type, charset, marked, name, bytes } = cell;
    const body = write(charset, `{"id":${ID},"price":19.90,"name":"`, bytes, '"}');
    const sent = Buffer.concat([Buffer.from((marked && MARKS[charset]) || []), body]);
    const expected = `${ID}|19.90|${name}`;
    for (const named of [charset, `"${charset.toUpperCase()}"`])
      expect(await getMessage(post("fields", sent, `${type}; charset=${named}`))).toBe(expected);
    // A charset that the bytes show need not be named.
    if (marked || charset.startsWith("utf-"))
      expect(await getMessage(post("fields", sent, type))).toBe(expected);
    if (isWide(charset))
      expect(await getMessage(post("fields", sent, `${type}; charset=utf-16`))).toBe(expected);
  });

  it.each(NAMES.filter(([charset]) => !isWide(charset)))(
    "a form in %s",
    async (charset, name, bytes) => {
      const percent = bytes.map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join("");
      const fields = `id=${ID}&price=19.90&name=`;
      const type = "application/x-www-form-urlencoded";
      const expected = `${ID}|19.90|${name}`;
      const send = (body: string | Buffer, as = type) => getMessage(post("fields", body, as));
      expect(await send(fields + percent, `${type}; charset=${charset}`)).toBe(expected);
      expect(await send(`${fields}${percent}&_charset_=${charset}`)).toBe(expected);
      expect(await send(write(charset, fields, bytes, ""), `${type};charset=${charset}`)).toBe(
        expected,
      );
    },
  );

  it.each(NAMES.filter(([charset]) => !isWide(charset)))(
    "a multipart body in %s",
    async (charset, name, bytes) => {
      const part = (field: string, type = ""): string =>
        `--b\r\nContent-Disposition: form-data; name="${field}"\r\n${type}\r\n`;
      const rest = `\r\n${part("id")}${ID}\r\n${part("price")}19.90\r\n`;
      const expected = `${ID}|19.90|${name}`;
      const own = part("name", `Content-Type: text/plain; charset=${charset}\r\n`);
      const type = "multipart/form-data; boundary=b";
      for (const [before, after] of [
        [own, rest],
        [part("name"), `${rest}${part("_charset_")}${charset}\r\n`],
        // As SendGrid's inbound mail.
        [part("name"), `${rest}${part("charsets")}{"name":"${charset}"}\r\n`],
      ] as const)
        expect(
          await getMessage(
            post("fields", write(charset, before, bytes, `${after}--b--\r\n`), type),
          ),
        ).toBe(expected);
    },
  );

  it.each([
    ["base64", Buffer.from("Müller").toString("base64")],
    ["Quoted-Printable", "M=C3=BCll=\r\ner"],
    ["8bit", "Müller"],
  ])("a multipart body whose part is %s", async (encoding, value) => {
    const head = 'Content-Disposition: form-data; name="name"\r\nContent-Transfer-Encoding: ';
    const body = `--b\r\n${head}${encoding}\r\n\r\n${value}\r\n--b--\r\n`;
    expect(await getMessage(post("fields", body, "multipart/form-data; boundary=b"))).toBe(
      "||Müller",
    );
  });

  it.each(NAMES)("XML in %s, by its declaration", async (charset, name, bytes) => {
    const start = `<?xml version="1.0" encoding="${charset}"?><order>`;
    for (const type of ["application/xml", "text/xml", "application/soap+xml"])
      expect(await getMessage(post("whole", write(charset, start, bytes, "</order>"), type))).toBe(
        `${start}${name}</order>`,
      );
  });

  it.each(["'utf-8'", 'UTF-8"'])("%s names UTF-8", async (charset) => {
    const sent = post("fields", '{"name":"Müller"}', `application/json; charset=${charset}`);
    expect(await getMessage(sent)).toBe("||Müller");
  });

  it("a header in UTF-8, or else in Latin-1", async () => {
    for (const encoding of ["utf8", "latin1"] as const) {
      const name = Buffer.from("Müller", encoding).toString("latin1");
      const headers = { authorization: `Bearer ${TOKEN}`, "x-name": name };
      const answer = await fetch(`${world.url}/hooks/header`, { method: "POST", headers });
      const { runId } = (await answer.json()) as { runId: string };
      expect(await getInput(runId)).toBe("Müller");
    }
  });

  it.each(["name=M%C3%BCller", "name=M%FCller&charset=iso-8859-1"])(
    "an address with the query %s",
    async (query) => {
      const sent = world.get(`/hooks/query?${query}`);
      expect(await getMessage(sent)).toBe("Müller");
    },
  );

  it("an address whose query is in no charset is refused", async () => {
    const { status, body } = await world.get("/hooks/query?name=M%FCller");
    expect([status, body.error.message]).toEqual([
      400,
      "the query of the address is no text in UTF-8: encode it in UTF-8, or name its charset in a parameter `charset`",
    ]);
  });

  it.each([
    ["application/json", Buffer.from('{"name":"Müller"}', "latin1"), 400],
    ["application/json; charset=utf-8", Buffer.from('{"name":"Müller"}', "latin1"), 400],
    ["application/json; charset=shift_jis", Buffer.from('{"name":"\x81"}', "latin1"), 400],
    ["application/x-www-form-urlencoded", Buffer.from("name=M%FCller"), 400],
    ["text/plain", Buffer.from("Müller", "latin1"), 400],
    ["application/json; charset=klingon", Buffer.from("{}"), 415],
    ["application/json; charset=utf-7", Buffer.from("{}"), 415],
  ])("%s that is none is refused", async (type, body, status) => {
    expect((await post("fields", body, type)).status).toBe(status);
  });
});

describe("content encoding", () => {
  const BODY = Buffer.from(`{"id":${ID},"price":19.90,"name":"Müller"}`);

  it.each(Object.entries(ENCODINGS))("%s", async (encoding, encode) => {
    const sent = post("fields", encode(BODY), "application/json", encoding);
    expect(await getMessage(sent)).toBe(`${ID}|19.90|Müller`);
    const { requestId, eventId = requestId } = (await sent).body;
    // The event is kept as it reads, so that a replay needs no header.
    const { event } = (await world.admin(`/admin/v1/events/${eventId}`)).body;
    expect(event.request.body).toBe(BODY.toString());
    const replayed = await world.admin(`/admin/v1/events/${eventId}/replay`, {
      method: "POST",
      body: "{}",
    });
    expect(replayed.body.result).toMatchObject({ outcome: "accepted" });
  });

  it("is what a sender signs, and ids are read from what comes out, to their last digit", async () => {
    const send = (body: Buffer): Promise<Answer> =>
      world.post("/hooks/signed", body, {
        authorization: "",
        "content-encoding": "gzip",
        "x-own": createHmac("sha256", SECRET).update(body).digest("hex"),
      });
    const order = (id: string, level: number): Buffer =>
      gzipSync(`{"id":${id},"price":19.90,"name":"Müller"}`, { level });
    expect(await getMessage(send(order(ID, 9)))).toBe(`${ID}|19.90|Müller`);
    expect(await getMessage(send(order(NEXT_ID, 9)))).toBe(`${NEXT_ID}|19.90|Müller`);
    // The same event in other bytes.
    expect((await send(order(ID, 1))).headers.get("idempotent-replayed")).toBe("true");
    expect((await send(BODY)).status).toBe(400);
  });

  it("ends early where more comes out than the path takes", async () => {
    const bomb = gzipSync(Buffer.alloc(64 * 2 ** 20, 0x20));
    const answer = await post("fields", bomb, "application/json", "gzip");
    expect([answer.status, answer.body.error.code]).toEqual([413, "body_too_large"]);
    const small = gzipSync(Buffer.from(JSON.stringify({ name: "x".repeat(2000) })));
    expect((await post("small", small, "application/json", "gzip")).status).toBe(413);
  });

  it("of an empty body is nothing", async () => {
    expect(await getMessage(post("fields", "", "application/json", "gzip"))).toBe("||");
  });

  it("refuses what is not what it says", async () => {
    expect((await post("fields", BODY, "application/json", "gzip")).status).toBe(400);
    const cut = gzipSync(BODY).subarray(0, -6);
    expect((await post("fields", cut, "application/json", "gzip")).status).toBe(400);
    expect((await post("fields", BODY, "application/json", "compress")).status).toBe(415);
    const often = Array.from({ length: 5 }, () => "gzip").join(", ");
    expect((await post("fields", BODY, "application/json", often)).status).toBe(415);
  });
});

describe("numbers", () => {
  const send = (path: string, body: string): Promise<Answer> =>
    post(path, body, "application/json");

  it("stay as they are written, in JSON too", async () => {
    const body = `{"id":${ID},"l":[1.0,1,2.50,1e400,-0,1E5,0.1234567890123456789,0.10000000000000001,9007199254740993]}`;
    expect(await getMessage(send("whole", body))).toBe(body);
  });

  it("tell customers, orders and conditions apart by their last digit", async () => {
    const keys = await Promise.all(
      [ID, NEXT_ID].map(async (id) => (await send("session", `{"id":${id}}`)).body.sessionKey),
    );
    expect(keys).toEqual([`hook:${ID}`, `hook:${NEXT_ID}`]);
    await getMessage(send("once", `{"id":${ID}}`));
    await getMessage(send("once", `{"id":${NEXT_ID}}`));
    expect((await send("once", `{"id":${ID}}`)).body).toMatchObject({ duplicate: true });
    expect(await getMessage(send("numbers", `{"id":${ID}}`))).toBe("the one");
    expect(await getMessage(send("numbers", `{"id":${NEXT_ID}}`))).toBe("the next");
    expect(await getMessage(send("literal", `{"id":${ID}}`))).toBe("true false");
  });

  it("are compared as numbers", async () => {
    for (const amount of ["100.0000000000000000001", "1e400", "101"])
      expect(await getMessage(send("larger", `{"amount":${amount}}`))).toBe(amount);
    for (const amount of ["99.9999999999999999999", "-1e400", "100"])
      expect((await send("larger", `{"amount":${amount}}`)).body.outcome).toBe("unmatched");
  });

  it("are numbers to a schema", async () => {
    expect(await getMessage(send("strict", `{"id":${ID}}`))).toBe(`${ID}||`);
    expect((await send("strict", `{"id":"${ID}"}`)).status).toBe(400);
  });

  it("that were computed print as people write them", async () => {
    const body = '{"l":[{"p":1.10},{"p":2.20}]}';
    expect(await getMessage(send("sums", body))).toBe('3.3 3.3 2.20 [{"p":1.10},{"p":2.20}]');
  });

  it("stay as they are written where text is made of them", async () => {
    const body = '{"price":19.90,"total":20.00,"n":20,"l":[{"p":1.10},{"p":2.00}],"o":{"v":1e3}}';
    expect(await getMessage(send("texts", body))).toBe(
      "19.90 EUR|20.00 EUR|20|1.10, 2.00|1e3|19.90|2 of 20",
    );
  });

  it("stay as they are written in the text of an object or a list", async () => {
    const body = '{"o":{"price":19.90,"n":2},"l":[1.0,{"p":2.50}]}';
    expect(await getMessage(send("parts", body))).toBe(
      '{"price":19.90,"n":2} [1.0,{"p":2.50}] {"total":19.90} {"price":19.90,"n":2}',
    );
  });

  it("that were rounded are written as they came out, whatever the body has", async () => {
    const body = '{"price":19.90,"l":[1.50,1.0]}';
    expect(await getMessage(send("rounded", body))).toBe("19.9 19.9 1.50");
  });

  it("stay so in an expression that takes long", async () => {
    const body = `{"price":19.90,"l":[{"p":1.10}],"id":${ID}}`;
    expect(await getMessage(send("slow", body))).toBe(`true 19.90 1.10 ${ID}`);
  });

  it("what is counted is not written as an equal number of the body is", async () => {
    const body = '{"version":2.00,"n":1,"l":[{"a":1.0},{"a":2.00}],"y":-0,"z":0}';
    expect(await getMessage(send("counts", body))).toBe("2 2 1 2.00 0");
  });
});

describe("keys", () => {
  const send = (path: string, body: string): Promise<Answer> =>
    post(path, body, "application/json");

  it("that are numbers keep their order", async () => {
    for (const body of [
      '{"10":1,"9":2}',
      '{"b":{"2":"x","a":[{"3":1,"1":null}],"1":true},"a":0}',
      '{"__proto__":{"7":1,"6":2},"\\u0031":"\\\\","0":"}"}',
    ])
      expect(JSON.parse(await getMessage(send("whole", body)))).toEqual(JSON.parse(body));
    expect(await getMessage(send("whole", '{"10":1,"9":2}'))).toBe('{"10":1,"9":2}');
    expect(await getMessage(send("parts", '{"o":{"price":1.50,"10":1,"9":2},"l":[]}'))).toBe(
      '{"price":1.50,"10":1,"9":2} [] {"total":1.50} {"price":1.50,"10":1,"9":2}',
    );
  });

  it("that an object has twice count with their last value, with a warning", async () => {
    const warning =
      "an object of the body has a key twice, of which the last value counts (at character";
    const answer = await send("fields", '{"id":1,"price":2,"id":3,"name":"a \\": b"}');
    expect(answer.body.warnings).toEqual([`${warning} 19)`]);
    expect(await getInput(answer.body.runId)).toBe('3|2|a ": b');
    // It is kept with the event, also where the sender hears of nothing.
    const unmatched = await send("larger", '{"amount":1,"l":[{"a":1,"a":2,"a":3}]}');
    const { event } = (await world.admin(`/admin/v1/events/${unmatched.body.eventId}`)).body;
    expect(event.warnings).toEqual([`${warning} 25, 31)`]);
    // No key stands in a text.
    expect((await send("fields", '{"id":1,"name":"\\":, \\":"}')).body.warnings).toBeUndefined();
  });
});

describe("types and forms", () => {
  it.each([
    "application/yaml",
    "application/x-ndjson",
    "application/toml",
    "message/rfc822",
    "application/vnd.unknown",
    "image/svg+xml",
  ])("%s is text", async (type) => {
    expect(await getMessage(post("whole", "id: 1\nname: Müller", type))).toBe(
      "id: 1\nname: Müller",
    );
  });

  it.each([
    ["application/octet-stream", Buffer.from([1, 2, 3])],
    ["application/pdf", Buffer.from("%PDF-1.7")],
    ["image/png", Buffer.from("text")],
  ])("%s is refused", async (type, body) => {
    expect((await post("whole", body, type)).status).toBe(415);
  });

  it("an object of JSON is JSON as any text, and a line of it is not where several may come", async () => {
    const body = '{"id":1,"price":2.50,"name":"n"}';
    for (const type of ["application/yaml", "text/csv", "*/*", "json", "application/vnd.unknown"])
      expect(await getMessage(post("fields", body, type))).toBe("1|2.50|n");
    expect(await getMessage(post("fields", body, "application/x-ndjson"))).toBe("||");
  });

  it("JSON that was encoded twice is what was encoded, and any other text of JSON is text", async () => {
    const body = '{"id":1,"price":2.50,"name":"n"}';
    const type = "application/json";
    expect(await getMessage(post("fields", JSON.stringify(body), type))).toBe("1|2.50|n");
    expect(await getMessage(post("whole", '"[ALERT] disk"', type))).toBe("[ALERT] disk");
    expect(await getMessage(post("text", '"{}"', type))).toBe('"{}"');
  });

  const FORM = "application/x-www-form-urlencoded";
  const MULTIPART = "multipart/form-data; boundary=b";
  const PART = '--b\r\nContent-Disposition: form-data; name="id"\r\n\r\n1\r\n';

  it("a field payload that is no JSON is text", async () => {
    const sent = post("whole", "payload=[ALERT] disk full", FORM);
    expect(JSON.parse(await getMessage(sent))).toEqual({ payload: "[ALERT] disk full" });
  });

  it.each([
    ["application/json", '{"id":1,}', "application/json and is not valid JSON (at character 8)"],
    ["application/json", '{"id":1', "not valid JSON (at character 7)"],
    ["application/json", '{"id":', "not valid JSON (it ends in its middle)"],
    ["application/json", '{"id":}', "not valid JSON (a value is missing, or is one that"],
    ["application/json", '{"id":NaN}', "or is one that JSON does not know, such as NaN)"],
    [FORM, '{"id":"1" "name":2}', `came as ${FORM} and is not valid JSON (at character 10)`],
    ["multipart/form-data", `${PART}--b--\r\n`, "the content type names no boundary"],
    [MULTIPART, "{}", "the boundary of the content type is not in it"],
    [MULTIPART, PART, "end it with the boundary and `--`"],
    [
      MULTIPART,
      `${PART}--b--`.replaceAll("\r", ""),
      "end lines of boundaries and headers with CR LF",
    ],
  ])("%s: %j is refused, and says why", async (type, body, message) => {
    const { status, body: answer } = await post("whole", body, type);
    expect([status, answer.error.message]).toEqual([400, expect.stringContaining(message)]);
    const { event } = (await world.admin(`/admin/v1/events/${answer.requestId}`)).body;
    expect(event).toMatchObject({ outcome: "rejected", request: { body } });
  });

  it("are read as the mapping says, whatever their sender names", async () => {
    const fields = `{"id":1,"price":2.50,"name":"n"}`;
    expect(await getMessage(post("json", fields, "image/png"))).toBe("1|2.50|n");
    expect(await getMessage(post("text", fields, "application/json"))).toBe(fields);
    expect(await getMessage(post("form", "id=1&price=2.50&name=n", "application/json"))).toBe(
      "1|2.50|n",
    );
    expect((await post("json", "id=1", "application/x-www-form-urlencoded")).status).toBe(400);
  });

  it("lists files with what they are, and says that their content is not read", async () => {
    const body = [
      '--b\r\nContent-Disposition: form-data; name="id"\r\n\r\n7\r\n',
      '--b\r\nContent-Disposition: form-data; name="scan"; filename="Bericht ü.pdf"\r\nContent-Type: application/pdf\r\n\r\n',
      "12345\r\n--b--\r\n",
    ].join("");
    const sent = post("whole", body, 'multipart/form-data; boundary="b"');
    expect(JSON.parse(await getMessage(sent))).toEqual({
      id: "7",
      scan: { filename: "Bericht ü.pdf", type: "application/pdf", bytes: 5 },
    });
    expect((await sent).body.warnings).toEqual([
      "a file of 5 bytes came with the body: agents get its name and type, and its content is not read",
    ]);
  });

  it("gives parameters that come several times as lists, to conditions too", async () => {
    expect(await getMessage(world.post("/hooks/lists?tag=a&tag=b", {}))).toBe('["a","b"]');
    expect((await world.post("/hooks/lists?tag=a&tag=c", {})).body.outcome).toBe("unmatched");
  });

  it("forms: what happens when a name comes 60,000 times", () => {
    const begun = performance.now();
    const read = decodePayload(Buffer.from("a=1&".repeat(60_000)), {
      contentType: "application/x-www-form-urlencoded",
    });
    expect(read).toMatchObject({ ok: true, payload: { a: { length: 60_000 } } });
    expect(performance.now() - begun).toBeLessThan(2_000);
  });

  it("names fields with brackets and dots in backticks", async () => {
    const form = "data%5Bemail%5D=x%40y.example";
    expect(await getMessage(post("names", form, "application/x-www-form-urlencoded"))).toBe(
      "x@y.example ",
    );
    expect(
      await getMessage(
        world.post("/hooks/names", { "data[email]": "x@y.example", "a.b": { c: 1 } }),
      ),
    ).toBe("x@y.example 1");
  });
});
