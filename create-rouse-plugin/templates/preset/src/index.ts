import { definePlugin } from "rouse/plugin";

/** Understands the webhooks of Acme. */
export default definePlugin({
  id: "acme",
  presets: [
    {
      id: "acme-orders",
      version: 1,
      description: "New orders.",
      auth: { scheme: "standard-webhooks" },
      mappings: [
        {
          id: "acme-orders.new",
          match: { path: "acme-orders", payload: { type: "order.created" } },
          name: "Order {{data.id}}",
          sessionKey: "hook:acme:{{data.customer.id}}",
          messageTemplate: "New order {{data.id}} from {{data.customer.name}}",
        },
      ],
    },
  ],
});
