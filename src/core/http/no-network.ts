import { RouseError } from "../errors.ts";

/**
 * A network that no request leaves by.
 * @throws RouseError always.
 */
export const NO_NETWORK: typeof fetch = () =>
  Promise.reject(new RouseError({ code: "internal", message: "no network is used here" }));
