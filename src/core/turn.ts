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
