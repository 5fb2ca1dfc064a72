/** Calls `finish` with the values: immediately, or later if one of them is a promise. */
export function whenSettled<T, R>(values: readonly (T | Promise<T>)[], finish: (values: T[]) => R): R | Promise<R> {
  return values.some((value) => value instanceof Promise) ? Promise.all(values).then(finish) : finish(values as T[]);
}
