import { broken, optional } from "./failure.ts";

export interface XmlHandlers {
  open?(name: string, attributes: Record<string, string>): void;
  text?(text: string): void;
  close?(name: string): void;
}

/**
 * Reads XML as events, with the names' prefixes kept. No external entity is ever fetched.
 * @throws ExtractionError `broken_document` where it is not well-formed.
 */
export async function readXml(bytes: Buffer, handlers: XmlHandlers): Promise<void> {
  const { SaxesParser } = await optional("saxes", () => import("saxes"));
  const parser = new SaxesParser();
  parser.on("opentag", ({ name, attributes }) => handlers.open?.(name, attributes));
  parser.on("text", (text) => handlers.text?.(text));
  parser.on("cdata", (text) => handlers.text?.(text));
  parser.on("closetag", ({ name }) => handlers.close?.(name));
  parser.on("error", () => {
    throw broken("the XML inside the document is not well-formed");
  });
  parser.write(new TextDecoder(bytes[0] === 0xff || bytes[0] === 0xfe ? "utf-16" : "utf-8").decode(bytes)).close();
}
