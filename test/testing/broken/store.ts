import type { StoreHandle } from "../../../src/store/types.ts";
import { testStore } from "../../store/suite.ts";
import { sqliteHome } from "../../store/home.ts";
import { STORE_FLAWS } from "../store-flaws.ts";

/** The object with some of its methods replaced. */
const change = <T extends object>(target: T, methods: Partial<T> = {}): T =>
  new Proxy(target, {
    get(object, name) {
      if (Object.hasOwn(methods, name)) return (methods as Record<PropertyKey, unknown>)[name];
      const value: unknown = Reflect.get(object, name, object);
      return typeof value === "function" ? (value.bind(object) as unknown) : value;
    },
  });

for (const [index, [, flaw]] of STORE_FLAWS.entries())
  testStore(`flaw ${index}`, async () => {
    const home = await sqliteHome();
    const open = async (): Promise<StoreHandle> => {
      const handle = await home.open();
      const { store, queue, cluster } = flaw(handle);
      return {
        ...handle,
        store: change(handle.store, store),
        queue: change(handle.queue, queue),
        cluster: change(handle.cluster, cluster),
      };
    };
    return { ...home, open };
  });
