/** The most keys of one question: bounds how long its keys wait. */
const MAX_KEYS = 64;

/**
 * Collects the keys that are asked for during one turn of the event loop, and loads them together, at most 64 at a time.
 * `load` returns the answers in the order of the keys; if it fails, the question fails for each of its keys.
 */
export function createBatch<K, V>(
  load: (keys: readonly K[]) => Promise<readonly V[]>,
): (key: K) => Promise<V> {
  let asked: { key: K; resolve(answer: V): void; reject(error: unknown): void }[] = [];
  const loadSome = async (some: typeof asked): Promise<void> => {
    try {
      const answers = await load(some.map(({ key }) => key));
      for (const [n, { resolve }] of some.entries()) resolve(answers[n] as V);
    } catch (error) {
      for (const { reject } of some) reject(error);
    }
  };
  const loadAll = (): void => {
    const all = asked;
    asked = [];
    for (let from = 0; from < all.length; from += MAX_KEYS)
      void loadSome(all.slice(from, from + MAX_KEYS));
  };
  return (key) =>
    new Promise((resolve, reject) => {
      if (asked.push({ key, resolve, reject }) === 1) setImmediate(loadAll);
    });
}

/**
 * Asks a question once for all who ask it during one turn of the event loop. Who asks later gets an answer of its own, which
 * knows of all that was done before.
 * @param toName tells questions apart
 */
export function shareInTurn<Q, A>(
  ask: (question: Q) => Promise<A>,
  toName: (question: Q) => string,
): (question: Q) => Promise<A> {
  const asked = new Map<string, Promise<A>>();
  return (question) => {
    const name = toName(question);
    const known = asked.get(name);
    if (known) return known;
    const answer = new Promise((resolve) => setImmediate(resolve)).then(() => {
      asked.delete(name);
      return ask(question);
    });
    asked.set(name, answer);
    return answer;
  };
}
