import { randomUUID } from "node:crypto";
import { Refusal, type Asked } from "./google.ts";

export interface Policy {
  version?: number;
  etag?: string;
  bindings?: { role: string; members: string[] }[];
}

interface Waiting {
  message: { data: string; messageId: string; publishTime: string };
  ackId: string;
  /** Not given again before this. */
  leasedUntil: number;
  deliveries: number;
}

export interface Subscription {
  name: string;
  topic: string;
  ackDeadlineSeconds: number;
  pushConfig: {
    pushEndpoint?: string;
    oidcToken?: { serviceAccountEmail?: string; audience?: string };
  };
  waiting: Waiting[];
}

/** A topic, as one who publishes sees it. */
export interface Publisher {
  publish(data: unknown): void;
  allows(member: string): boolean;
}

const shown = ({ waiting: _waiting, ...subscription }: Subscription): unknown => ({
  ...subscription,
  state: "ACTIVE",
});

/** Topics and subscriptions, as the REST interface of Pub/Sub shows them. */
export function createPubSub() {
  const topics = new Map<string, Policy>();
  const subscriptions = new Map<string, Subscription>();
  const arrived = new Set<() => void>();
  const pubsub = {
    /** The milliseconds that a pull waits for a message. */
    holdMs: 500,
    /** In place of the subscription's own. */
    ackDeadlineMs: undefined as number | undefined,
    /** Acknowledgements are lost. */
    loseAcks: false,
  };

  const publisher = (topic: string): Publisher | undefined => {
    const policy = topics.get(topic);
    if (!policy) return undefined;
    return {
      allows: (member) =>
        policy.bindings?.some(
          ({ role, members }) => role === "roles/pubsub.publisher" && members.includes(member),
        ) ?? false,
      publish(data) {
        const text =
          typeof data === "string" ? data : Buffer.from(JSON.stringify(data)).toString("base64");
        for (const { topic: of, waiting } of subscriptions.values()) {
          if (of !== topic) continue;
          const message = {
            data: text,
            messageId: randomUUID(),
            publishTime: new Date().toISOString(),
          };
          waiting.push({ message, ackId: randomUUID(), leasedUntil: 0, deliveries: 0 });
        }
        for (const wake of arrived) wake();
      },
    };
  };

  const take = (subscription: Subscription, most: number): Waiting[] => {
    const now = Date.now();
    const taken = subscription.waiting
      .filter(({ leasedUntil }) => leasedUntil <= now)
      .slice(0, most);
    for (const one of taken) {
      one.leasedUntil = now + (pubsub.ackDeadlineMs ?? subscription.ackDeadlineSeconds * 1000);
      one.deliveries++;
      one.ackId = randomUUID();
    }
    return taken;
  };

  const pull = async (subscription: Subscription, { body, gone }: Asked): Promise<unknown> => {
    if (subscription.pushConfig.pushEndpoint) throw new Refusal(400, "FAILED_PRECONDITION");
    const until = Date.now() + (body.returnImmediately ? 0 : pubsub.holdMs);
    for (;;) {
      if (gone.aborted) return {};
      const taken = take(subscription, body.maxMessages);
      if (taken.length > 0)
        return {
          receivedMessages: taken.map(({ ackId, message, deliveries }) => ({
            ackId,
            message,
            deliveryAttempt: deliveries,
          })),
        };
      const left = until - Date.now();
      if (left <= 0) return {};
      await new Promise<void>((done) => {
        const wake = (): void => {
          clearTimeout(timer);
          arrived.delete(wake);
          gone.removeEventListener("abort", wake);
          done();
        };
        // A lease may end before.
        const timer = setTimeout(wake, Math.min(left, 50));
        arrived.add(wake);
        gone.addEventListener("abort", wake);
      });
    }
  };

  const onTopic = (name: string, verb: string | undefined, { method, body }: Asked): unknown => {
    const policy = topics.get(name);
    if (method === "PUT") {
      if (policy) throw new Refusal(409, "ALREADY_EXISTS");
      topics.set(name, { version: 1, etag: "e0" });
      return { name };
    }
    if (!policy) throw new Refusal(404, "NOT_FOUND");
    if (verb === "getIamPolicy") return policy;
    if (verb === "setIamPolicy") {
      if (body.policy.etag !== policy.etag) throw new Refusal(409, "ABORTED");
      const etag = `e${Number(policy.etag?.slice(1)) + 1}`;
      Object.assign(policy, body.policy, { etag });
      return policy;
    }
    if (verb === "publish") {
      for (const { data } of body.messages) publisher(name)?.publish(data);
      return { messageIds: (body.messages as unknown[]).map(() => randomUUID()) };
    }
    return { name };
  };

  const onSubscription = (name: string, verb: string | undefined, asked: Asked): unknown => {
    const { method, body } = asked;
    const found = subscriptions.get(name);
    if (method === "PUT") {
      if (found) throw new Refusal(409, "ALREADY_EXISTS");
      if (!topics.has(body.topic)) throw new Refusal(404, "NOT_FOUND");
      const { topic, ackDeadlineSeconds = 10, pushConfig } = body;
      const made: Subscription = {
        name,
        topic,
        ackDeadlineSeconds,
        pushConfig: pushConfig ?? {},
        waiting: [],
      };
      subscriptions.set(name, made);
      return shown(made);
    }
    if (!found) throw new Refusal(404, "NOT_FOUND");
    if (verb === "pull") return pull(found, asked);
    if (verb === "acknowledge") {
      const ids = new Set(body.ackIds);
      if (!pubsub.loseAcks) found.waiting = found.waiting.filter(({ ackId }) => !ids.has(ackId));
      return {};
    }
    if (verb === "modifyPushConfig") {
      found.pushConfig = body.pushConfig ?? {};
      return {};
    }
    return shown(found);
  };

  return {
    topics,
    subscriptions,
    pubsub,
    publisher,
    handle(asked: Asked): unknown {
      const [, name = "", kind, verb] =
        /^\/v1\/(projects\/[^/]+\/(topics|subscriptions)\/[^/:]+)(?::(\w+))?$/.exec(asked.path) ??
        [];
      if (kind === "topics") return onTopic(name, verb, asked);
      if (kind === "subscriptions") return onSubscription(name, verb, asked);
      throw new Refusal(404, "NOT_FOUND");
    },
  };
}
