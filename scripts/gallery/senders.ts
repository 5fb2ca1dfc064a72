/** Bodies as senders post them: a code host, a payment provider, a shop, and monitoring. */

/** Numbers between 0 and 1 that are the same in each run. */
export function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296;
    return state / 4_294_967_296;
  };
}

export interface Hook {
  path: string;
  body: object | string;
  headers?: Record<string, string>;
}

type Pick = <T>(list: readonly T[]) => T;

const PEOPLE = ["mona-k", "jdoe", "sveta", "ravi-p", "lin.chen", "theo"] as const;
const REPOSITORIES = ["acme/storefront", "acme/billing-api", "acme/infra"] as const;
const ISSUES = [
  [
    "Checkout shows a blank page for guests",
    "Since the release of this morning, guests who choose PayPal see a blank page after **Continue**.\n\n1. Add an item to the basket\n2. Choose PayPal\n3. Press Continue",
  ],
  ["Invoices of March have the wrong tax rate", "Customers in Austria get 19 % in place of 20 %."],
  [
    "Search is slow for long product names",
    "`/search?q=` takes 4.2 s for names of more than 80 characters.",
  ],
  ["Rotate the keys of the staging cluster", "The keys expire on Friday."],
  ["Webhook retries are not idempotent", "A redelivered `order.paid` books the payment twice."],
] as const;
const PULLS = [
  ["Cache the price list for five minutes", "feature/price-cache"],
  ["Escape product names in the e-mail template", "fix/escape-names"],
  ["Upgrade PostgreSQL to 18", "chore/pg18"],
  ["Show delivery dates in the basket", "feature/delivery-dates"],
] as const;
const CUSTOMERS = [
  ["cus_Q7wT", "Anna Berger", "anna.berger@example.com"],
  ["cus_M2xL", "Priya Nair", "priya@nair.example"],
  ["cus_H9dR", "Tom Okafor", "tom.okafor@example.org"],
  ["cus_B4kZ", "Lucía Fernández", "lucia.f@example.es"],
] as const;
const PRODUCTS = [
  ["cup-blue", "Cup, blue", 14.5],
  ["teapot-2l", "Teapot, 2 l", 89],
  ["tray-oak", "Tray, oak", 42],
  ["gift-card", "Gift card", 120],
] as const;
const ALERTS = [
  ["HighErrorRate", "checkout", "5xx of checkout are 4.1 % of its answers", "page"],
  ["DiskFillsUp", "db-2", "The disk of db-2 is full in about 6 hours", "warning"],
  ["CertificateExpires", "api.acme.example", "The certificate ends in 9 days", "warning"],
  ["QueueTooLong", "mailer", "1,840 messages wait in the queue mailer", "page"],
] as const;

/** The hooks of a history: each call gives the next one of a kind. */
export function createSenders(random: () => number) {
  const pick: Pick = (list) => list[Math.floor(random() * list.length)] as never;
  let count = 1180;
  const repository = () => {
    const full_name = pick(REPOSITORIES);
    return {
      id: 700 + full_name.length,
      full_name,
      name: full_name.split("/")[1],
      private: true,
      html_url: `https://github.com/${full_name}`,
    };
  };
  const person = () => {
    const login = pick(PEOPLE);
    return {
      login,
      id: 4000 + login.length,
      type: "User",
      html_url: `https://github.com/${login}`,
    };
  };
  const github = (kind: string, body: object): Hook => ({
    path: "github",
    body,
    headers: {
      "x-github-event": kind,
      "x-github-delivery": `7f1c${(++count).toString(16)}-2b6e-11f0-9d1c-8e5a${count}`,
    },
  });
  const stripe = (type: string, object: object): Hook => ({
    path: "stripe",
    body: {
      id: `evt_3P${(++count).toString(36)}kZ`,
      object: "event",
      api_version: "2026-02-25",
      created: 1_790_000_000 + count,
      livemode: true,
      type,
      data: { object },
    },
  });
  const order = () => {
    const [, name, email] = pick(CUSTOMERS);
    const lines = Array.from({ length: 1 + Math.floor(random() * 3) }, () => pick(PRODUCTS)).map(
      ([sku, title, price]) => ({
        sku,
        title,
        price,
        quantity: 1 + Math.floor(random() * 3),
      }),
    );
    const total =
      Math.round(lines.reduce((sum, { price, quantity }) => sum + price * quantity, 0) * 100) / 100;
    return {
      id: ++count,
      number: `A-${count}`,
      currency: "EUR",
      total,
      customer: { name, email },
      lines,
      placedAt: "2026-03-02T09:14:08Z",
    };
  };
  return {
    issue() {
      const [title, body] = pick(ISSUES);
      const [repo, sender] = [repository(), person()];
      const number = 200 + Math.floor(random() * 90);
      return github("issues", {
        action: "opened",
        issue: {
          id: ++count,
          number,
          title,
          body,
          state: "open",
          labels: [{ name: "bug" }],
          user: sender,
          html_url: `${repo.html_url}/issues/${number}`,
        },
        repository: repo,
        sender,
      });
    },
    pull() {
      const [title, ref] = pick(PULLS);
      const [repo, sender] = [repository(), person()];
      const number = 300 + Math.floor(random() * 90);
      return github("pull_request", {
        action: pick(["opened", "ready_for_review", "closed"]),
        pull_request: {
          id: ++count,
          number,
          title,
          body: "Small and tested.",
          merged: false,
          user: sender,
          head: { ref },
          base: { ref: "main" },
          html_url: `${repo.html_url}/pull/${number}`,
        },
        repository: repo,
        sender,
      });
    },
    workflow() {
      const [repo, sender] = [repository(), person()];
      const id = 9_000_000 + ++count;
      return github("workflow_run", {
        action: "completed",
        workflow_run: {
          id,
          name: pick(["test", "deploy", "nightly"]),
          conclusion: "failure",
          head_branch: "main",
          actor: sender,
          head_commit: { message: "Cache the price list" },
          html_url: `${repo.html_url}/actions/runs/${id}`,
        },
        repository: repo,
        sender,
      });
    },
    star: () =>
      github("star", {
        action: "created",
        starred_at: "2026-03-02T09:00:00Z",
        repository: repository(),
        sender: person(),
      }),
    release: () =>
      github("release", {
        action: "published",
        release: {
          id: ++count,
          tag_name: `v4.${count % 40}.0`,
          body: "Fixes.",
          author: person(),
          html_url: "https://github.com/acme/storefront/releases",
        },
        repository: repository(),
        sender: person(),
      }),
    paymentFailed() {
      const [customer] = pick(CUSTOMERS);
      return stripe("payment_intent.payment_failed", {
        id: `pi_3P${(++count).toString(36)}`,
        object: "payment_intent",
        amount: 4900 + Math.floor(random() * 9000),
        currency: "eur",
        customer,
        last_payment_error: { code: "card_declined", message: "Your card has insufficient funds." },
      });
    },
    dispute: () =>
      stripe("charge.dispute.created", {
        id: `dp_1P${(++count).toString(36)}`,
        object: "dispute",
        amount: 12_900,
        currency: "eur",
        charge: `ch_3P${count.toString(36)}`,
        reason: "product_not_received",
        status: "needs_response",
      }),
    charge: () =>
      stripe("charge.succeeded", {
        id: `ch_3P${(++count).toString(36)}`,
        object: "charge",
        amount: 4900,
        currency: "eur",
      }),
    order: (): Hook => ({ path: "shop", body: { type: "order.paid", order: order() } }),
    refund: (): Hook => ({
      path: "shop",
      body: {
        type: "refund.requested",
        order: order(),
        reason: pick(["arrived broken", "ordered twice", "too late"]),
      },
    }),
    basket: (): Hook => ({
      path: "shop",
      body: { type: "basket.abandoned", basket: { id: ++count, value: 58 } },
    }),
    stock: (): Hook => ({
      path: "shop",
      body: { type: "stock.changed", sku: pick(PRODUCTS)[0], left: Math.floor(random() * 90) },
    }),
    invoice: (): Hook => ({
      path: "billing",
      body: {
        type: "invoice.created",
        invoice: { id: `in_${++count}`, amount: "49,00", customer: pick(CUSTOMERS)[1] },
      },
    }),
    newsletter: (): Hook => ({
      path: "newsletter",
      body: {
        type: "reply",
        from: pick(CUSTOMERS)[2],
        subject: "Re: Spring sale",
        text: "Please take me off this list.",
      },
    }),
    broken: (): Hook => ({ path: "shop", body: '{"type":"order.paid","order":' }),
    alert(): Hook {
      const [alertname, instance, summary, severity] = pick(ALERTS);
      const labels = { alertname, instance, severity };
      return {
        path: "alertmanager",
        body: {
          version: "4",
          groupKey: `{}:{alertname="${alertname}"}`,
          status: random() < 0.7 ? "firing" : "resolved",
          receiver: "rouse",
          groupLabels: { alertname },
          commonLabels: labels,
          commonAnnotations: { summary },
          externalURL: "https://alerts.acme.example",
          alerts: [
            {
              status: "firing",
              labels,
              annotations: { summary },
              startsAt: "2026-03-02T09:04:05Z",
              endsAt: "0001-01-01T00:00:00Z",
              generatorURL: "https://prometheus.acme.example/graph",
              fingerprint: "c41f",
            },
          ],
        },
      };
    },
  };
}
export type Senders = ReturnType<typeof createSenders>;
