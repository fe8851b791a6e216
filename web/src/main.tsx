import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./App";
import "@xyflow/react/dist/base.css";
import "./style/base.css";
import "./style/header.css";
import "./style/frame.css";
import "./style/answer.css";
import "./style/text.css";
import "./style/lanes.css";
import "./style/cells.css";
import "./style/threads.css";
import "./style/details.css";
import "./style/graph.css";
import "./style/facets.css";
import "./style/views.css";
import "./style/states.css";

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
}
