import "./design/theme.css";
import "./design/base.css";
import "./design/components.css";
import { render } from "preact";
import { App } from "./app.tsx";

const root = document.getElementById("app");
if (root) render(<App />, root);
