// What the policy sees and picks. Everything comes from /v1; text is only ever put in as text.
"use strict";
const at = (id) => document.getElementById(id);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
let about, drawn, whole, told, state, asked = 0;

async function fetchJson(path, options) {
  const answer = await fetch(path, options);
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error);
  return value;
}

async function guarded(work) {
  try { at("error").textContent = ""; await work(); } catch (error) { at("error").textContent = error.message; }
}

// The state: an example, and its numbers as sliders where they are few enough to be moved by hand.

function takeExample(number) {
  state = {};
  for (const [name, rows] of Object.entries(about.examples)) state[name] = structuredClone(rows[number]);
  makeSliders();
  explain();
}

function makeSliders() {
  const sliders = at("sliders");
  sliders.replaceChildren();
  for (const [name, shape] of Object.entries(about.inputs)) {
    if (shape.length > 1 || (shape[0] ?? 1) > 64) continue;
    const values = shape.length ? state[name] : [state[name]];
    const rows = about.examples[name].map((row) => (shape.length ? row : [row]));
    values.forEach((value, place) => {
      const seen = rows.map((row) => row[place]);
      const low = Math.min(...seen), high = Math.max(...seen), pad = (high - low) / 2 || Math.max(1, Math.abs(high)) / 2;
      const isWhole = seen.every(Number.isInteger) && !shape.length;
      const input = Object.assign(document.createElement("input"), {
        type: "range", min: isWhole ? low : low - pad, max: isWhole ? high : high + pad, step: isWhole ? 1 : "any", value });
      const label = document.createElement("label");
      label.append(input, ` ${name}${shape.length ? ` ${place}` : ""}`);
      input.addEventListener("input", () => {
        if (shape.length) state[name][place] = Number(input.value); else state[name] = Number(input.value);
        explain();
      });
      sliders.append(label);
    });
  }
  at("numbers").hidden = !sliders.childElementCount;
}

// A policy of few candidates is explained by more of them: what another k would have picked.
const explained = () => Math.min(Number(about.actions), Math.max(about.k, 40));

function explain() {
  const mine = ++asked;
  return guarded(async () => {
    const observation = about.named ? state : state[Object.keys(about.inputs)[0]];
    const answer = await fetchJson("/v1/explain", { method: "POST", body: JSON.stringify({ observation, k: explained() }) });
    if (mine !== asked) return; // an answer to what is no longer shown
    told = answer.explained;
    at("k").max = told.candidates.length;
    show();
  });
}

// Candidates come in the order they were found in, so the first k of them are the candidates of a smaller k.

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

function pickOf(k) {
  const own = told.candidates.slice(0, k);
  if (k === about.k) return own.find((one) => same(one.action, told.chosen)) ?? own[0];
  return own.reduce((best, one) => (one.value > best.value ? one : best));
}

const nameOf = (one) => (one.name ? `${one.name} (${one.action})` : `${one.action}`);

function show() {
  const k = Number(at("k").value), pick = pickOf(k), all = pickOf(Infinity), nearest = told.candidates[0];
  at("k-value").textContent = `${k} of ${told.candidates.length}`;
  at("picks").textContent = `picks ${nameOf(pick)}; with all ${told.candidates.length}: ${nameOf(all)}; ` +
    `${nearest.source === "nearest" ? "the nearest" : "the first found"} alone: ${nameOf(nearest)}`;
  at("picks").dataset.pick = pick.action;
  const body = at("candidates"), values = told.candidates.map((one) => one.value);
  const spread = Math.max(...values) - Math.min(...values);
  const digits = spread > 0 ? Math.min(8, Math.max(0, 3 - Math.floor(Math.log10(spread)))) : 3; // that tell them apart
  body.replaceChildren();
  told.candidates.slice(0, Math.max(k, 20)).slice(0, 200).forEach((one, place) => {
    const row = body.insertRow();
    row.className = place >= k ? "out" : same(one.action, pick.action) ? "pick" : "";
    for (const text of [place + 1, nameOf(one), one.value.toFixed(digits), one.distance.toFixed(3), one.source]) {
      row.insertCell().textContent = text;
    }
    const last = row.insertCell();
    if (about.changeable && Number.isInteger(one.action)) {
      const button = Object.assign(document.createElement("button"), { textContent: "×", title: `remove ${one.action}` });
      button.addEventListener("click", () => change("DELETE", `/v1/actions/${one.action}`));
      last.append(button);
    }
  });
  const scroll = body.closest(".scroll"), picked = body.querySelector(".pick");
  if (picked && scroll.scrollHeight > scroll.clientHeight) scroll.scrollTop = picked.offsetTop - scroll.clientHeight / 2;
  draw();
}

function change(method, path, body) {
  return guarded(async () => {
    const headers = { Authorization: `Bearer ${at("token").value}` };
    await fetchJson(path, { method, headers, body: body && JSON.stringify(body) });
    about.actions = (await fetchJson("/v1/about")).actions;
    await Promise.all([loadMap(drawn.box), explain()]);
  });
}

// The map.

async function loadMap(box) {
  drawn = await fetchJson(box ? `/v1/map?box=${box.join(",")}` : "/v1/map");
  whole ??= drawn.box;
  at("shown").textContent = `${drawn.count.toLocaleString()} of ${Number(drawn.of).toLocaleString()} actions here`;
  draw();
}

let reloading;
function look(box) {
  drawn = { ...drawn, view: box };
  draw();
  clearTimeout(reloading);
  reloading = setTimeout(() => guarded(() => loadMap(box)), 150);
}

function zoom(factor, [x, y] = [0.5, 0.5]) {
  const [left, bottom, right, top] = drawn.view ?? drawn.box;
  const cx = left + x * (right - left), cy = bottom + y * (top - bottom);
  look([cx + (left - cx) * factor, cy + (bottom - cy) * factor, cx + (right - cx) * factor, cy + (top - cy) * factor]);
}

function move(x, y) {
  const [left, bottom, right, top] = drawn.view ?? drawn.box;
  const dx = x * (right - left), dy = y * (top - bottom);
  look([left + dx, bottom + dy, right + dx, top + dy]);
}

function draw() {
  if (!drawn) return;
  const canvas = at("map"), pen = canvas.getContext("2d"), scale = devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = width * scale;
  canvas.height = height * scale;
  pen.scale(scale, scale);
  const [left, bottom, right, top] = drawn.view ?? drawn.box;
  const place = ([x, y]) => [((x - left) / (right - left)) * width, height - ((y - bottom) / (top - bottom)) * height];
  const dot = (point, radius, fill) => {
    const [x, y] = place(point);
    pen.beginPath();
    pen.arc(x, y, radius, 0, 7);
    pen.fillStyle = fill;
    pen.fill();
  };
  pen.fillStyle = colour("--dot");
  if (drawn.density) drawDensity(pen, place);
  else drawn.points.forEach((point) => dot(point, 2, colour("--dot")));
  pen.globalAlpha = 1;
  if (told) drawCandidates(pen, place, dot);
}

function drawDensity(pen, place) {
  const [left, bottom, right, top] = drawn.box, { cells } = drawn, most = Math.log1p(Math.max(...drawn.density));
  const dx = (right - left) / cells, dy = (top - bottom) / cells;
  drawn.density.forEach((count, number) => {
    if (!count) return;
    const x = left + (number % cells) * dx, y = bottom + Math.floor(number / cells) * dy;
    const [x0, y0] = place([x, y + dy]), [x1, y1] = place([x + dx, y]);
    pen.globalAlpha = 0.08 + 0.8 * (Math.log1p(count) / most);
    pen.fillRect(x0, y0, x1 - x0 + 0.5, y1 - y0 + 0.5);
  });
}

function drawCandidates(pen, place, dot) {
  const k = Number(at("k").value), own = told.candidates.slice(0, k), values = own.map((one) => one.value);
  const low = Math.min(...values), high = Math.max(...values);
  for (const one of own) {
    const share = high > low ? (one.value - low) / (high - low) : 1;
    dot(one.position, 4, `color-mix(in oklab, ${colour("--high")} ${100 * share}%, ${colour("--low")})`);
  }
  dot(told.proto_position, 5, colour("--proto"));
  const [x, y] = place(pickOf(k).position);
  pen.beginPath();
  pen.arc(x, y, 9, 0, 7);
  pen.lineWidth = 3;
  pen.strokeStyle = colour("--pick");
  pen.stroke();
}

function listen() {
  const canvas = at("map"), fingers = new Map();
  at("k").addEventListener("input", show);
  at("example").addEventListener("change", () => takeExample(Number(at("example").value)));
  at("closer").addEventListener("click", () => zoom(0.5));
  at("farther").addEventListener("click", () => zoom(2));
  at("whole").addEventListener("click", () => look(whole));
  at("changes").addEventListener("submit", (event) => {
    event.preventDefault();
    change("POST", "/v1/actions", { vectors: [told.proto] });
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(event.deltaY < 0 ? 0.8 : 1.25, [event.offsetX / canvas.clientWidth, 1 - event.offsetY / canvas.clientHeight]);
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (e) => fingers.delete(e.pointerId));
  canvas.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId), now = [event.offsetX, event.offsetY];
    if (!before) return;
    const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
    fingers.set(event.pointerId, now);
    if (!other) return move((before[0] - now[0]) / canvas.clientWidth, (now[1] - before[1]) / canvas.clientHeight);
    const far = (point) => Math.hypot(point[0] - other[0], point[1] - other[1]) || 1;
    return zoom(far(before) / far(now), [other[0] / canvas.clientWidth, 1 - other[1] / canvas.clientHeight]);
  });
  const keys = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] };
  canvas.addEventListener("keydown", (event) => {
    if (keys[event.key]) move(...keys[event.key]);
    else if (event.key === "+") zoom(0.7);
    else if (event.key === "-") zoom(1.4);
    else if (event.key === "0") look(whole);
    else return;
    event.preventDefault();
  });
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}

// Live figures, from what Prometheus reads.

async function showFigures() {
  const text = await (await fetch("/metrics")).text();
  const sum = (name) => [...text.matchAll(new RegExp(`^wolpertinger_${name}(?:\\{route="/v[12][^}]*\\})? (\\S+)$`, "gm"))]
    .reduce((total, found) => total + Number(found[1]), 0);
  const count = sum("request_seconds_count"), latency = count ? (1000 * sum("request_seconds_sum")) / count : 0;
  at("figures").textContent = `version ${sum("policy_version")} · ${sum("actions").toLocaleString()} actions · ` +
    `${count.toLocaleString()} requests · ${latency.toFixed(1)} ms on average · recall ${sum("recall").toFixed(3)}`;
}

guarded(async () => {
  about = await fetchJson("/v1/about");
  document.title = at("name").textContent = about.name;
  at("changes").hidden = !about.changeable;
  const count = Object.values(about.examples)[0].length;
  for (let i = 0; i < count; i++) at("example").add(new Option(`example ${i + 1}`, i));
  at("k").max = at("k").value = about.k;
  listen();
  await loadMap();
  takeExample(0);
  showFigures();
  setInterval(() => document.hidden || showFigures().catch(() => {}), 3000);
});
