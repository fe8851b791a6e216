// Displays the SVG from Python; a click on a column highlights its lineage and updates `selected`.

function lineageOf(links, node, column) {
  const on = new Set();
  const rows = new Set([`${node}\u001f${column}`]);
  for (const [here, hereColumn, there, thereColumn] of [
    ["target", "column", "source", "source_column"],
    ["source", "source_column", "target", "column"],
  ]) {
    const pending = [[node, column]];
    const seen = new Set([`${node}\u001f${column}`]);
    while (pending.length > 0) {
      const [at, name] = pending.pop();
      links.forEach((link, number) => {
        if (link[here] !== at || (link[hereColumn] !== null && link[hereColumn] !== name)) return;
        on.add(number);
        const end = `${link[there]}\u001f${link[thereColumn]}`;
        if (link.type !== "DIRECT" || link[thereColumn] === null || seen.has(end)) return;
        seen.add(end);
        rows.add(end);
        pending.push([link[there], link[thereColumn]]);
      });
    }
  }
  return { on, rows };
}

function render({ model, el }) {
  const mark = () => {
    const picture = el.querySelector("svg");
    const { node, column } = model.get("selected");
    picture.classList.toggle("chosen", column !== undefined);
    if (column === undefined) return;
    const { on, rows } = lineageOf(model.get("links"), node, column);
    for (const path of picture.querySelectorAll("path[data-link]"))
      path.classList.toggle("on", on.has(Number(path.dataset.link)));
    for (const row of picture.querySelectorAll(".row"))
      row.classList.toggle("on", rows.has(`${row.dataset.node}\u001f${row.dataset.column}`));
  };
  const draw = () => {
    el.innerHTML = model.get("svg");
    mark();
  };
  const choose = (event) => {
    const row = event.target.closest(".row");
    const chosen = row && { node: Number(row.dataset.node), frame: row.dataset.frame, column: row.dataset.column };
    model.set("selected", chosen || {});
    model.save_changes();
  };
  draw();
  el.style.overflowX = "auto";
  el.addEventListener("click", choose);
  model.on("change:svg", draw);
  model.on("change:selected", mark);
  return () => {
    el.removeEventListener("click", choose);
    model.off("change:svg", draw);
    model.off("change:selected", mark);
  };
}

export default { render };
