/** A mail address in a text. */
export const MAIL = /[\w.+%-]{1,64}@[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,24}/gi;

/** Text of the same length and the same kinds of characters, which ends with a count. Undefined if it is too short for that. */
function shapeLike(value: string, count: number): string | undefined {
  const chars = [...value].map((char) =>
    /\p{N}/u.test(char) ? "0" : /\p{Lu}/u.test(char) ? "X" : /\p{L}/u.test(char) ? "x" : char,
  );
  let rest = count;
  for (let index = chars.length - 1; index >= 0 && rest > 0; index--) {
    const char = chars[index] as string;
    const base = char === "0" ? 10 : 26;
    if (!"0xX".includes(char)) continue;
    chars[index] =
      base === 10 ? String(rest % 10) : String.fromCharCode((char === "x" ? 97 : 65) + (rest % 26));
    rest = Math.floor(rest / base);
  }
  return rest > 0 ? undefined : chars.join("");
}

/** A number as JSON writes it. */
export const NUMBER = /^(-?)\d(\d*(?:\.\d+)?)$/;
const PREFIX =
  /^(?:gh[opsur]_|github_pat_|glpat-|xox[abposr]-|[prs]k[-_](?:live_|test_|ant-|proj-)?|whsec_|AKIA|eyJ)/;
const WHOLE_MAIL = new RegExp(`^${MAIL.source}$`, "i");

function makeStandIn(value: string, count: number): string | undefined {
  if (WHOLE_MAIL.test(value))
    return `${`user${count}`.padEnd(value.length - "@example.com".length, "x")}@example.com`;
  const [, sign, digits] = NUMBER.exec(value) ?? [];
  const prefix = digits === undefined ? (PREFIX.exec(value)?.[0] ?? "") : `${sign}9`;
  const shaped = shapeLike(digits ?? value.slice(prefix.length), count);
  return shaped === undefined ? undefined : prefix + shaped;
}

/** Makes stand-ins that are all different, and none of which is a value of the request. */
export function createStandIns(taken: ReadonlySet<string>): (value: string) => string {
  const used = new Set(taken);
  const counts = new Map<string, number>();
  return (value) => {
    // Of a short shape there are few stand-ins: then they are longer.
    for (let like = value; ; like = NUMBER.test(like) ? `0${like}` : `${like}x`) {
      const shape = makeStandIn(like, 0) ?? "";
      let count = counts.get(shape) ?? 0;
      let made: string | undefined;
      do made = makeStandIn(like, ++count);
      while (made !== undefined && used.has(made));
      counts.set(shape, count);
      if (made === undefined) continue;
      used.add(made);
      return made;
    }
  };
}
