/** Gives a mapping's text another id, so that a copy of a preset's mapping can stand beside it. */
export function withOwnId(text: string, id: string): string {
  return text.replace(
    /(\bid['"]?\s*:\s*)(['"])(.*?)\2/,
    (_all, before: string, quote: string) => `${before}${quote}${id}-own${quote}`,
  );
}

/** The text from which a mapping for a path is written. */
export function toNewText(path: string): string {
  const name = path === "" ? "my-hook" : path;
  return `{
  id: ${JSON.stringify(`${name.replaceAll("/", ".")}.new`)},
  match: { path: ${JSON.stringify(name)}, payload: {} },
  messageTemplate: "",
}`;
}
