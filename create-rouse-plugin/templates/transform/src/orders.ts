import { defineTransform } from "rouse/transform";

/** Tells of large orders and skips all others. It runs in a process of its own, without network and files. */
export default defineTransform(({ payload }) => {
  const order = payload?.order;
  if (typeof order?.total !== "number" || order.total < 1000) return null;
  return {
    message: `Large order ${order.id}: ${order.total}`,
    sessionKey: `hook:acme:${order.id}`,
  };
});
