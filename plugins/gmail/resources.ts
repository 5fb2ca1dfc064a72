import type { GmailConfig } from "./config.ts";
import { GoogleError, type Google } from "./google.ts";
import { GmailProblem } from "./problem.ts";
import type { Names } from "./pubsub.ts";

/** Gmail publishes as this account. */
const PUBLISHER = "serviceAccount:gmail-api-push@system.gserviceaccount.com";
const ROLE = "roles/pubsub.publisher";
/** The longest that Pub/Sub waits for an acknowledgement: a large backlog is fetched first. */
const ACK_DEADLINE_SECONDS = 600;

/** Says what an account lacks, and how it gets it. */
async function allowed<T>(command: string, call: Promise<T>): Promise<T> {
  return call.catch((error: unknown) => {
    if (!(error instanceof GoogleError) || error.kind !== "forbidden") throw error;
    throw new GoogleError(
      `${error.message}. Give the account of the credentials the role roles/pubsub.admin, or run: ${command}`,
      "forbidden",
      error.status,
    );
  });
}

async function unlessThere(call: Promise<unknown>): Promise<"made" | "is there"> {
  try {
    await call;
    return "made";
  } catch (error) {
    if (error instanceof GoogleError && error.kind === "exists") return "is there";
    throw error;
  }
}

const short = (name: string): string => name.slice(name.lastIndexOf("/") + 1);

/** Makes the topic unless it is there. */
export function makeTopic(
  google: Google,
  { topic, project }: Names,
  signal: AbortSignal,
): Promise<"made" | "is there"> {
  const make = google.pubsub(topic, { method: "PUT", body: {}, what: "making the topic", signal });
  return allowed(
    `gcloud pubsub topics create ${short(topic)} --project ${project}`,
    unlessThere(make),
  );
}

interface Policy {
  version?: number;
  etag?: string;
  bindings?: { role?: string; members?: string[]; condition?: unknown }[];
}

/** Lets Gmail publish to the topic; all other permissions stay. */
export async function letGmailPublish(
  google: Google,
  { topic, project }: Names,
  signal: AbortSignal,
): Promise<string> {
  const command = `gcloud pubsub topics add-iam-policy-binding ${short(topic)} --project ${project} --member ${PUBLISHER} --role ${ROLE}`;
  const change = async (): Promise<string> => {
    const query = { "options.requestedPolicyVersion": "3" };
    const policy = await google.pubsub<Policy>(`${topic}:getIamPolicy`, {
      query,
      what: "reading the topic's permissions",
      signal,
    });
    const bindings = policy.bindings ?? [];
    const plain = bindings.find(({ role, condition }) => role === ROLE && condition === undefined);
    if (plain?.members?.includes(PUBLISHER)) return "Gmail may publish already";
    const other = bindings.filter((binding) => binding !== plain);
    const changed = {
      ...policy,
      bindings: [...other, { role: ROLE, members: [...(plain?.members ?? []), PUBLISHER] }],
    };
    await google.pubsub(`${topic}:setIamPolicy`, {
      method: "POST",
      body: { policy: changed },
      what: "letting Gmail publish",
      signal,
    });
    return "Gmail may publish now";
  };
  const explained = (error: unknown): never => {
    if (error instanceof GoogleError && error.status === 400)
      throw new GmailProblem(
        `${error.message}. An organization policy (iam.allowedPolicyMemberDomains) may forbid it: let an administrator except the project, and run: ${command}`,
      );
    throw error;
  };
  // Somebody else may change it between the two calls: then the etag does not fit.
  const conflict = (error: unknown): boolean =>
    error instanceof GoogleError && error.kind === "exists";
  return allowed(
    command,
    change().catch((error: unknown) => (conflict(error) ? change() : explained(error))),
  );
}

interface Subscription {
  topic?: string;
  pushConfig?: {
    pushEndpoint?: string;
    oidcToken?: { serviceAccountEmail?: string; audience?: string };
  };
}

/** The advice if the caller may not use the service account that signs pushes. */
const actAs = (pushAccount: string | undefined): string =>
  pushAccount === undefined
    ? ""
    : ` (whoever runs it needs the role roles/iam.serviceAccountUser on ${pushAccount})`;

/** Makes the subscription unless it is there, and has it pull or push as the config says. */
export async function makeSubscription(
  google: Google,
  names: Names,
  config: GmailConfig,
  signal: AbortSignal,
): Promise<string> {
  const { topic, subscription, project } = names;
  const { pushEndpoint, pushAccount } = config;
  const pushConfig =
    pushEndpoint === undefined
      ? {}
      : { pushEndpoint, oidcToken: { serviceAccountEmail: pushAccount, audience: pushEndpoint } };
  const push =
    pushEndpoint === undefined
      ? ""
      : ` --push-endpoint ${pushEndpoint} --push-auth-service-account ${pushAccount}`;
  const command = `gcloud pubsub subscriptions create ${short(subscription)} --project ${project} --topic ${short(topic)} --ack-deadline ${ACK_DEADLINE_SECONDS}${push}`;
  const body = {
    topic,
    ackDeadlineSeconds: ACK_DEADLINE_SECONDS,
    expirationPolicy: {},
    pushConfig,
  };
  const make = google.pubsub(subscription, {
    method: "PUT",
    body,
    what: "making the subscription",
    signal,
  });
  if ((await allowed(`${command}${actAs(pushAccount)}`, unlessThere(make))) === "made")
    return "made";
  const found = await allowed(
    command,
    google.pubsub<Subscription>(subscription, { what: "reading the subscription", signal }),
  );
  if (found.topic !== topic)
    throw new GmailProblem(
      `the subscription ${subscription} is of another topic (${found.topic}): name another with --subscription`,
    );
  const { oidcToken } = found.pushConfig ?? {};
  const same =
    (found.pushConfig?.pushEndpoint ?? "") === (pushEndpoint ?? "") &&
    (pushEndpoint === undefined ||
      (oidcToken?.serviceAccountEmail === pushAccount && oidcToken?.audience === pushEndpoint));
  if (same) return "is there";
  const what = "changing the subscription";
  await allowed(
    `gcloud pubsub subscriptions update ${short(subscription)} --project ${project}${push || " --push-endpoint="}${actAs(pushAccount)}`,
    google.pubsub(`${subscription}:modifyPushConfig`, {
      method: "POST",
      body: { pushConfig },
      what,
      signal,
    }),
  );
  return pushEndpoint === undefined ? "pulls now" : "pushes now";
}
