/** Answers as models write them, each from its seed. */

export interface GeneratedAnswer {
  text: string;
  /** Its images outside of code. */
  images: GeneratedImage[];
}
interface GeneratedImage {
  written: string;
  /** As it may leave. */
  disarmed: string;
}

/** Numbers from 0 to 1 (mulberry32). */
function createRandom(seed: number): () => number {
  let state = seed * 0x9e37_79b9 + 1;
  return () => {
    state = (state + 0x6d2b_79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const WORDS =
  'the widget List<T> a<b x < y && z > 1 50% C# it\'s "so" **bold** _it_ 日本語 Zwölf 🙂 foo_bar f(x) [1] (see) a|b 3*4 ~/x C:\\dir \\*raw\\* &amp; & Map<K,V> std::vector<int> <T> vec![1] arr![0] wow! #1 $HOME `<div>` `![a](https://img.example/x)` [doc](https://docs.example/a) <https://docs.example> https://docs.example/b?c=d&e=f'
    .split(" ")
    .concat("``a ` b``");
const CODE = [
  "```cpp\nstd::vector<std::map<int, T>> v; // <img src=https://img.example/a>\nif (a<b && c>d) {}\n```",
  "```html\n<!doctype html>\n<img src='https://img.example/a.png'>\n\n![x](https://img.example/b.png)\n```",
  "~~~md\n# A\n![x][r]\n\n[r]: https://img.example/r.png\n~~~",
  '- Run:\n\n  ```sh\n  cat <in >out && echo "<b>"\n  ```',
  'Then:\n\n    <iframe src="https://img.example">\n    indented',
  "> ```\n> <img src=https://img.example/q>\n> ```",
];
const UNFENCED = [
  "template <typename T>\nT max(T a, T b) { return a < b ? b : a; }",
  'fn main() {\n    let v: Vec<Option<&str>> = vec![Some("a"); 3];\n    println!("{:?}", v[0]);\n}',
  'const f = <T extends object>(x: Record<string, T[]>): T => x["a"]![0]!;',
  "for (let i=0;i<n;i++) if (a[i]<b) s += a[i]; // a<b, c",
  "#include <stdio.h>\nint main(void) { return 1 <2; }",
];
const HTML = [
  '<div class="card">\n  <h2>Title &amp; more</h2>\n  <p>a &lt; b<br/>c</p>\n  <img src="images/a.png" alt=\'it is "x"\'>\n</div>',
  "<!-- a note: `x` -->\n<p>One <b>two</b> <i>three</i></p>",
  '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>T</title>\n<style>\nbody { background: url(images/b.png); color: #333 }\na::before { content: "\\201C" }\n</style>\n</head>\n<body onload="go()">\n<script>\nfor (let i=0;i<n;i++) if (a<b && c) go(`x${i}`);\n</script>\n<a href="https://docs.example">d</a>\n<svg><path d="M0 0L10 10" fill="url(#g)"/></svg>\n</body>\n</html>',
  "<details>\n<summary>More</summary>\n\nText with `<img src=https://img.example/a>`.\n\n</details>",
  '<table><tr><td style="color:red">1</td><td>2</td></tr></table>',
];
const JSONS = [
  '{"html":"<p>Hello</p>","list":["a<b","![x](y)"],"n":1.50,"s":"\\u003cb\\u003e"}',
  '[{"id":1,"tags":["<a>","[b]: c"]},{"id":2,"ok":true,"text":"`x` < `y`"}]',
];
const XMLS = [
  '<?xml version="1.0" encoding="UTF-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">\n  <entry id="1"><title>a &lt; b</title><file src="https://docs.example/f"/></entry>\n  <![CDATA[ <b> ]]>\n</feed>',
  "<read_file>\n<path>src/a.ts</path>\n</read_file>",
  "<replace_in_file>\n<path>a.hpp</path>\n<diff>\n<<<<<<< SEARCH\nList<int> a;\n=======\nMap<int, List<T>> a; // <!-- x -->\n>>>>>>> REPLACE\n</diff>\n</replace_in_file>",
  "<execute_command>\n<command>grep -c '<a>' < in.txt | tee >out && echo \"$(<x)\"</command>\n</execute_command>",
];

function createImage(id: string, random: number): GeneratedImage {
  const address = `https://img.example/${id}.png?d=secret`;
  if (random < 0.4) {
    const words = random < 0.1 ? "" : `chart ${id}`;
    return { written: `![${words}](${address})`, disarmed: `! [${words}](${address})` };
  }
  if (random < 0.6)
    return {
      written: `![chart ${id}][r${id}] is below.\n\n[r${id}]: ${address}`,
      disarmed: `![chart ${id}][r${id}] is below.\n\n[r${id}] : ${address}`,
    };
  const attribute = random < 0.8 ? "src" : "style";
  const value = attribute === "src" ? `"${address}"` : `"background:url(${address})"`;
  return {
    written: `<img ${attribute}=${value} alt="chart ${id}">`,
    disarmed: `<img ${attribute}-disarmed=${value} alt="chart ${id}">`,
  };
}

/** Writes the answer of a seed. Three in four have no image outside of code. */
export function generateAnswer(seed: number): GeneratedAnswer {
  const random = createRandom(seed);
  const pick = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)] as T;
  const line = (): string =>
    Array.from({ length: 2 + Math.floor(random() * 12) }, () => pick(WORDS)).join(" ");
  const images: GeneratedImage[] = [];
  const image = (): string => {
    const made = createImage(`i${seed}x${images.length}`, random());
    images.push(made);
    return made.written;
  };
  const blocks: (() => string)[] = [
    () => `Then ${line()}.`,
    () => `Then ${line()},\n${line()}.`,
    () => `## Part ${line()}`,
    () => `- One ${line()}\n- Two ${line()}\n  - Three ${line()}`,
    () => `> Quote ${line()}`,
    () => "| a | b |\n|---|---|\n| `List<A>` | 1 < 2 |",
    () => pick(CODE),
    () => pick(UNFENCED),
    () => pick(HTML),
    () => pick(JSONS),
    () => pick(XMLS),
  ];
  const hasImages = random() < 0.25;
  const parts = Array.from({ length: 1 + Math.floor(random() * 6) }, () => pick(blocks)());
  if (hasImages) parts.splice(Math.floor(random() * parts.length), 0, `See ${image()}`, image());
  return { text: parts.join("\n\n"), images };
}

/** Puts the images of an answer back in. */
export const restoreImages = (text: string, images: readonly GeneratedImage[]): string =>
  images.reduce((rest, { written, disarmed }) => rest.replace(disarmed, () => written), text);
