/**
 * Makes a part at its first use: what a gateway may never be asked for shall not make its start longer, nor its memory
 * larger. One that could not be made is tried again.
 */
export function lazy<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () =>
    (made ??= make().catch((error: unknown) => {
      made = undefined;
      throw error;
    }));
}
