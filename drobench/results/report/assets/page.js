"use strict";
(async () => {
  const one = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const made = (name, text, kind) => {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    if (kind) element.className = kind;
    return element;
  };

  // Everything that is large is stored deflated, as base64 text.
  const unpacked = async (id) => {
    const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
  };
  const complain = (text) => {
    one("#trouble").textContent = text;
    one("#trouble").hidden = false;
  };

  one("#theme").addEventListener("change", (event) => {
    if (event.target.value === "system") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.setAttribute("data-theme", event.target.value);
  });

  const links = new Map(all(".side a").map((link) => [link.getAttribute("href").slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "0px 0px -75% 0px" });
  for (const id of links.keys()) seen.observe(document.getElementById(id));

  if (!("DecompressionStream" in window)) {
    complain("This browser is too old for the figures and the details of runs; the tables are complete.");
    return;
  }
  const data = JSON.parse(await unpacked("data"));

  // ---- runs -----------------------------------------------------------------------------------------------------

  const flattened = (value, prefix = "") =>
    value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length
      ? Object.entries(value).flatMap(([name, item]) => flattened(item, prefix ? `${prefix}.${name}` : name))
      : [[prefix, value]];
  const shown = (value) => (value === null ? "–" : typeof value === "string" ? value : JSON.stringify(value));

  const group = (title, note, value) => {
    const heading = made("h4", title);
    if (note) heading.append(" ", made("small", note));
    const list = made("dl");
    for (const [name, item] of flattened(value)) {
      if (!name) continue;
      const pair = made("div");
      pair.append(made("dt", name), made("dd", shown(item)));
      list.append(pair);
    }
    return list.children.length ? [heading, list] : [];
  };
  const fill = (details) => {
    const run = data.runs[Number(details.dataset.run)];
    const body = one(".body", details);
    if (body.children.length) return;
    const part = (name) => data.parts[run.parts[name]];
    const ended = run.status.replaceAll("_", " ");
    body.append(made("p", `Started ${run.started_at}. ${run.reason ? `${ended}: ${run.reason}` : ended}`, "facts"));
    if (run.matter) body.append(made("p", run.matter, "facts matter"));
    for (const name of ["solver", "problem", "dataset"]) {
      const { name: called, config, ...rest } = part(name);
      body.append(...group(`${name}: ${called}`, "", { ...config, ...rest }));
    }
    for (const name of ["model", "budget", "trainer", "reformulation"]) body.append(...group(name, "", part(name)));
    for (const [name, point] of Object.entries(run.iterates)) if (point) body.append(...group(`${name} iterate`, "", point));
    body.append(...group("cost", "", run.cost));
    if (part("optimum")) body.append(...group("optimum", "", part("optimum")));
    body.append(...group("environment", "", part("environment")));
    const again = made("p", "Do it again and compare: ", "again");
    again.append(made("code", `drobench rerun ${run.id.slice(0, 12)}`));
    body.append(again);
  };
  const rows = all(".run");
  for (const row of rows) row.addEventListener("toggle", () => row.open && fill(row));

  const everything = () => {
    const parts = data.parts.map((part) => JSON.stringify(part));
    return data.runs.map((run, place) =>
      [rows[place].textContent, run.id, run.reason ?? "", ...Object.values(run.parts).map((part) => parts[part])].join(" ").toLowerCase());
  };
  let haystacks;
  const search = () => {
    haystacks ??= everything();
    const words = one("#search").value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    rows.forEach((row, place) => {
      row.hidden = !words.every((word) => haystacks[place].includes(word));
      count += !row.hidden;
    });
    one("#found").textContent = count === rows.length ? `${count} runs` : `${count} of ${rows.length} runs`;
    one("#nothing").hidden = count > 0;
  };
  one("#search").addEventListener("input", search);

  // ---- figures --------------------------------------------------------------------------------------------------

  // The drawing library is a script of this page, allowed by its checksum like the one that is running.
  const library = made("script", await unpacked("library"));
  document.head.append(library);

  const tooltip = one("#tooltip");
  const hint = (_handler, event, _item, value) => {
    tooltip.replaceChildren();
    tooltip.hidden = value === null || value === undefined || typeof value !== "object";
    if (tooltip.hidden) return;
    for (const [name, text] of Object.entries(value)) {
      const line = made("div");
      line.append(made("span", name), made("span", String(text)));
      tooltip.append(line);
    }
    const { innerWidth, innerHeight } = window;
    tooltip.style.left = `${Math.min(event.clientX + 14, innerWidth - tooltip.offsetWidth - 8)}px`;
    tooltip.style.top = `${Math.min(event.clientY + 14, innerHeight - tooltip.offsetHeight - 8)}px`;
  };
  const embed = (element, spec) =>
    window.vegaEmbed(element, spec, {
      // Expressions are interpreted, not compiled: the page forbids the making of code.
      mode: "vega-lite", renderer: "svg", ast: true, actions: false, defaultStyle: false, tooltip: hint,
    });

  const control = (figure, name) => one(`[data-control="${name}"]`, figure);
  const WIDE = 620;

  const convergence = (figure, board, solvers) => {
    const cost = control(figure, "cost").value;
    const measure = control(figure, "measure").value;
    const band = control(figure, "band").value;
    const scale = (name) => (control(figure, name).checked ? "log" : "linear");
    const spec = structuredClone(board.convergence);
    Object.assign(spec.encoding.x, board.costs[cost][scale("log-x")]);
    for (const layer of spec.layer) Object.assign(layer.encoding.y, board.measures[measure][scale("log-y")]);
    const curves = (board.curves[cost]?.[measure] ?? []).filter((row) => solvers.has(row.solver));
    spec.datasets = {
      curves: curves.map(({ quartiles, extremes, ...row }) => {
        const [low, high] = { quartiles, extremes, none: [row.median, row.median] }[band];
        return { ...row, low, high };
      }),
    };
    const labels = curves.map((row) => {
      const last = row.median.findLastIndex((value) => value !== null);
      return { solver: row.solver, x: row.x[last] ?? null, y: row.median[last] ?? null, end: true };
    });
    return { spec, labels, empty: !curves.length };
  };
  const tradeoff = (figure, board, solvers) => {
    const split = control(figure, "split").value;
    const points = board.tradeoffs[control(figure, "iterate").value]?.[split];
    const spec = structuredClone(board.tradeoff[split]);
    const chosen = (list) => (list ?? []).filter((row) => solvers.has(row.solver));
    spec.datasets = { runs: chosen(points?.runs), middles: chosen(points?.middles) };
    const labels = spec.datasets.middles.map((row) => ({ solver: row.solver, x: row.violation, y: row.error, end: false }));
    return { spec, labels, empty: !labels.length };
  };
  const profile = (_figure, across, solvers) => {
    const rows = across.rows.filter((row) => solvers.has(row.solver));
    const spec = { ...structuredClone(across.profile), datasets: { profiles: rows } };
    const labels = rows.map((row) => ({ solver: row.solver, x: row.ratio.at(-1), y: row.share.at(-1), end: true }));
    return { spec, labels, empty: !rows.length };
  };
  const kinds = { convergence, tradeoff, profile };
  const place = (figure) => figure.closest("section");
  const content = (figure) => ("profiles" in figure.dataset ? data.profiles : data.boards[Number(place(figure).dataset.board)]);

  // Names next to what they name; where they would overlap, they are moved apart.
  const annotate = (chart, view, labels, colours, width) => {
    const padding = view.padding();
    const left = view.origin()[0] + padding.left;
    const top = view.origin()[1] + padding.top;
    const [x, y] = [view.scale("x"), view.scale("y")];
    const height = view.height();
    const LINE = 15;
    const placed = labels
      .filter((label) => label.y !== null && Number.isFinite(y(label.y)))
      .map((label) => ({ ...label, at: Math.min(Math.max(y(label.y), 0), height) }))
      .sort((one, other) => one.at - other.at);
    placed.forEach((label, place) => {
      if (place && label.at < placed[place - 1].at + LINE) label.at = placed[place - 1].at + LINE;
    });
    placed.reverse().forEach((label, place) => {
      label.at = Math.min(label.at, place ? placed[place - 1].at - LINE : height);
    });
    for (const label of placed) {
      const tag = made("span", label.solver, "label");
      const start = left + x(label.x) + (label.end ? 8 : 12);
      // A name that does not fit to the right of its point goes to the left of it.
      const room = width - start;
      if (!label.end && room < 90) tag.style.right = `${width - left - x(label.x) + 12}px`;
      else { tag.style.left = `${start}px`; tag.style.maxWidth = `${Math.max(room, 0)}px`; }
      // Beside the end of a curve, but above a point: to its right runs the front.
      tag.style.top = `${top + label.at - (label.end ? 8 : 20)}px`;
      tag.style.color = colours[label.solver];
      chart.append(tag);
    }
  };

  const draw = async (figure) => {
    const board = content(figure);
    const chart = one(".chart", figure);
    const boxes = all("[data-solver]", place(figure));
    const solvers = new Set(boxes.length ? boxes.filter((box) => box.checked).map((box) => board.solvers[Number(box.dataset.solver)]) : board.solvers);
    const { spec, labels, empty } = kinds[figure.dataset.figure](figure, board, solvers);
    const message = one(".empty", figure);
    if (message) { message.hidden = !empty; chart.hidden = empty; }
    if (chart.hidden) return;
    const width = chart.clientWidth;
    figure.dataset.width = width;
    const direct = width >= WIDE && labels.length <= 8;
    const margin = direct && figure.dataset.figure !== "tradeoff" ? 150 : 6;
    Object.assign(spec, {
      width: width - margin,
      height: Math.round(Math.min(400, Math.max(250, width * 0.5))),
      autosize: { type: "fit", contains: "padding" },
      padding: { left: 2, top: 8, right: 8, bottom: 4 },
    });
    const stage = made("div");
    const { view } = await embed(stage, spec);
    figure.view?.finalize();
    figure.view = view;
    chart.replaceChildren(stage);
    if (direct) annotate(chart, view, labels, board.colours, width);
    figure.dataset.drawn = String(Number(figure.dataset.drawn ?? 0) + 1);
  };

  // One figure at a time, what is in sight first; the rest while the browser is idle, so that printing finds them all.
  const waiting = new Set();
  let busy = false;
  const work = async () => {
    if (busy) return;
    busy = true;
    while (waiting.size) {
      const inSight = [...waiting].find((figure) => {
        const box = figure.getBoundingClientRect();
        return box.bottom > -200 && box.top < innerHeight + 200;
      });
      const next = inSight ?? waiting.values().next().value;
      waiting.delete(next);
      try {
        await draw(next);
      } catch (error) {
        complain(`A figure could not be drawn: ${error.message}`);
        console.error(error);
      }
      await new Promise((resolve) => (inSight ? setTimeout(resolve) : (window.requestIdleCallback ?? setTimeout)(resolve)));
    }
    busy = false;
    document.documentElement.dataset.ready = "true";
  };
  const request = (figures) => {
    delete document.documentElement.dataset.ready;
    for (const figure of figures) waiting.add(figure);
    work();
  };

  const figures = all(".figure");
  for (const figure of figures) {
    const board = content(figure);
    control(figure, "measure")?.addEventListener("change", (event) => {
      control(figure, "log-y").checked = board.scales[event.target.value] === "log";
    });
    for (const input of all("[data-control]", figure)) input.addEventListener("change", () => request([figure]));
    for (const input of all("[data-solver]", figure)) input.addEventListener("change", () => request(all(".figure", place(figure))));
  }
  let pending;
  new ResizeObserver(() => {
    clearTimeout(pending);
    pending = setTimeout(() => request(figures.filter((figure) => {
      const width = one(".chart", figure).clientWidth;
      return width > 0 && figure.dataset.width !== undefined && Number(figure.dataset.width) !== width;
    })), 150);
  }).observe(one("main"));
  request(figures);
})();
