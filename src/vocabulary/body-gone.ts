import { RouseError } from "../core/errors.ts";

/** The reason why nothing can be made of a recorded event whose body was removed. */
export const BODY_GONE = "the body of this event is no longer kept (hooks.retention)";

/** The same with what to do. */
export const BODY_GONE_ADVICE = `${BODY_GONE}: choose a newer event, or raise hooks.retention for events to come`;

/** The error of a command or a request that needs the body. */
export const bodyGone = (): RouseError =>
  new RouseError({ code: "not_found", message: BODY_GONE_ADVICE });
