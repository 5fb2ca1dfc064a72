const IS_LONG = process.env["SOAK_LONG"] === "1";

/** Chooses how much a soak does: in the short form that `.ci/run` runs, and in the long form of `npm run test:soak -- --long`. */
export const scale = <T>(short: T, long: T): T => (IS_LONG ? long : short);
