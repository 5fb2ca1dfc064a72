import type { Extract } from "rouse/plugin";

/** Reads a document of lines: the first is the title, and those that begin with `=` are headings. It runs in a process of its own. */
const extract: Extract = async ({ bytes }) => {
  const [title = "", ...lines] = new TextDecoder("utf-8", { fatal: true })
    .decode(bytes)
    .split("\n");
  if (title.trim() === "") throw new Error("the document has no title");
  const blocks = lines
    .filter((line) => line.trim() !== "")
    .map((line) =>
      line.startsWith("= ") ? { text: line.slice(2), heading: true } : { text: line },
    );
  return { title: title.trim(), blocks };
};

export default extract;
