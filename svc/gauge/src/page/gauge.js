// The dashboard: draws the answers of /api/v1 and /events. Names from outside are inserted as text, never as markup.

const find = (selector) => document.querySelector(selector);
const DASH = "–";
const KEPT = 600;
const STALE_AFTER = 3;

/** Control characters and bidirectional overrides. They are escaped as in terminals and logs: \u202e. */
const STEERS = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const printable = (text) => String(text).replace(STEERS, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** An element with a class, a text and children. */
function element(name, { text, children = [], ...attributes } = {}) {
  const made = name === "svg" || SVG.has(name)
    ? document.createElementNS("http://www.w3.org/2000/svg", name)
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined) made.setAttribute(key, printable(value));
  }
  if (text !== undefined) made.textContent = printable(text);
  made.append(...children);
  return made;
}
const SVG = new Set(["path", "line", "text", "rect", "title", "g"]);

const number = (value, digits = 2) => value === null || value === undefined ? DASH : value.toFixed(digits);
const whole = (value) => value === null || value === undefined ? DASH : String(Math.round(value));
const percent = (value) => value === null || value === undefined ? DASH : String(Math.round(value * 100));
const words = (value) => value === null || value === undefined || value === "" ? DASH : String(value);

/** Seconds with a unit that fits. */
function time(seconds) {
  if (seconds === null || seconds === undefined) return DASH;
  // The first bucket of a histogram has an upper bound of 0 s.
  if (seconds < 1e-9) return "0";
  for (const [unit, size] of [["s", 1], ["ms", 1e-3], ["us", 1e-6]]) {
    if (seconds >= size) return `${Number((seconds / size).toPrecision(3))} ${unit}`;
  }
  return `${Math.round(seconds * 1e9)} ns`;
}

/** Fills a table with rows, or with the reason why it has none. */
function table(section, headings, rows, none) {
  const place = find(`#${section} .wide`);
  const old = place.querySelector("table");
  if (rows.length === 0) {
    place.replaceChildren(element("p", { class: "none", text: none }));
    return;
  }
  const head = headings.map(({ text, numeric, help }) =>
    element("th", { text, scope: "col", class: numeric ? "number" : undefined, title: help }));
  const body = rows.map((row) => element("tr", {
    children: row.map((cell, index) => element(index === 0 ? "th" : "td", {
      text: cell.text ?? cell,
      scope: index === 0 ? "row" : undefined,
      class: [headings[index].numeric && "number", cell.class].filter(Boolean).join(" ") || undefined,
    })),
  }));
  const made = old ?? element("table", { children: [element("thead"), element("tbody")] });
  made.tHead.replaceChildren(element("tr", { children: head }));
  made.tBodies[0].replaceChildren(...body);
  if (!old) place.replaceChildren(made);
}

/** The catalogue: heading and help of each field by table and name. */
let catalogue = {};
function heading(table_name, name, numeric = true) {
  const field = (catalogue[table_name] ?? []).find((each) => each.name === name);
  return { text: field?.heading ?? name, help: field?.help, numeric };
}

const used = (cpu) => {
  const parts = [cpu.user_s, cpu.system_s];
  return parts.some((part) => part === null) ? null : parts[0] + parts[1];
};

function showHead(frame) {
  const machine = frame.machine[0] ?? {};
  find("#machine").textContent = printable(words(machine.machine));
  document.title = printable(`Millpond: ${words(machine.machine)}`);
  const figures = [
    ["CPUs", whole(machine.cpus)],
    ["processes", whole(machine.processes)],
    ["threads", whole(machine.threads)],
    ["load", [machine.load_1m, machine.load_5m, machine.load_15m].map((load) => number(load)).join(" ")],
  ];
  if (machine.scheduler) figures.push(["scheduler", machine.scheduler]);
  if (machine.watching_s !== null) figures.push(["watching", `${number(machine.watching_s * 100, 1)} % of a CPU`]);
  find("#figures").replaceChildren(...figures.map(([name, value]) =>
    element("div", { children: [element("dt", { text: name }), element("dd", { text: value })] })));
}

/** The sets with their pools, as rows of a table. */
function showSets(frame) {
  const names = ["set", "name", "mode", "cpus", "size", "min", "max", "busy_s", "runnable", "waited_s", "pressed_s"];
  const numeric = new Set(["size", "min", "max", "busy_s", "runnable", "waited_s", "pressed_s"]);
  const pools = (set) => frame.pools.filter((pool) => pool.set === set.set).map((pool) => pool.name).join(", ");
  const rows = frame.sets.map((set) => [
    ...names.slice(0, 4).map((name) => words(set[name])),
    words(pools(set)),
    whole(set.size), whole(set.min), whole(set.max),
    number(set.busy_s), whole(set.runnable), number(set.waited_s),
    percent(set.pressed_s),
  ]);
  const headings = names.map((name) => heading("sets", name, numeric.has(name)));
  headings.splice(4, 0, { text: "POOL", help: "the pools of the set" });
  table("sets", headings, rows, "The sets of this machine cannot be read.");
}

/** Points of a chart: its numbers over the time line. */
const WIDE = 600;
const HIGH = 120;
const LEFT = 34;
const TOP = 8;
const BOTTOM = 104;

function path(points, top, steps) {
  let drawn = "";
  let up = true;
  let last = null;
  for (const [x, value] of points) {
    if (value === null || value === undefined) {
      up = true;
      continue;
    }
    const y = BOTTOM - (BOTTOM - TOP) * Math.min(1, value / top);
    if (steps && !up) drawn += `H${x.toFixed(1)}V${y.toFixed(1)}`;
    else drawn += `${up ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`;
    up = false;
    last = value;
  }
  return { drawn, last };
}

const past = [];

/** A chart of a set: CPUs in use, its size, waiting threads; marks where poold moved CPUs. */
function chart(set, marks) {
  const begin = past[0].at_s;
  const end = Math.max(past[past.length - 1].at_s, begin + 1);
  const at = (seconds) => LEFT + (WIDE - LEFT - 6) * (seconds - begin) / (end - begin);
  const of = (name) => past.map((frame) => {
    const row = frame.sets.find((each) => each.set === set.set);
    return [at(frame.at_s), row ? row[name] : null];
  });
  const series = { used: of("busy_s"), size: of("size"), wait: of("waited_s") };
  const numbers = Object.values(series).flat().map(([, value]) => value ?? 0);
  const top = Math.max(1, ...numbers) * 1.05;
  const lines = Object.entries(series).map(([name, points]) => [name, path(points, top, name === "size")]);
  const label = `set ${set.set}, ${words(set.name)}: ${number(set.busy_s)} of ${whole(set.size)} CPUs in use, ${number(set.waited_s)} threads wait`;
  const svg = element("svg", {
    viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": label,
    children: [
      element("line", { class: "axis", x1: LEFT, x2: WIDE - 6, y1: BOTTOM, y2: BOTTOM }),
      element("line", { class: "axis", x1: LEFT, x2: WIDE - 6, y1: TOP, y2: TOP }),
      element("text", { x: 2, y: TOP + 8, text: number(top, 1) }),
      element("text", { x: 2, y: BOTTOM, text: "0" }),
      element("text", { x: LEFT, y: HIGH - 3, text: `-${time(end - begin)}` }),
      ...marks.filter(({ at_s }) => at_s >= begin && at_s <= end).map(({ at_s, reason }) => element("line", {
        class: "mark", x1: at(at_s), x2: at(at_s), y1: TOP, y2: BOTTOM,
        children: [element("title", { text: words(reason) })],
      })),
      ...lines.map(([name, { drawn }]) => element("path", { class: name, d: drawn })),
    ],
  });
  const told = { used: "CPUs in use", size: "CPUs", wait: "threads that wait" };
  const caption = lines.map(([name, { last }]) => element("span", {
    children: [element("span", { class: `swatch ${name}` }), `${told[name]} ${number(last)}`],
  }));
  return element("figure", {
    "data-set": set.set,
    children: [
      element("h3", { text: `${set.set} ${words(set.name)}` }), svg,
      element("figcaption", { children: caption }),
    ],
  });
}

function showTime(frame) {
  const marks = frame.decisions;
  find("#time .charts").replaceChildren(...frame.sets.map((set) => chart(set, marks)));
}

let chosen = null;
function showCpus(frame) {
  const map = find("#cpus .map");
  const held = map.contains(document.activeElement);
  const groups = frame.sets.map((set) => {
    const own = frame.cpus.filter((cpu) => cpu.set === set.set);
    return [`set ${set.set} ${words(set.name)}`, own];
  });
  const other = frame.cpus.filter((cpu) => !frame.sets.some((set) => set.set === cpu.set));
  if (other.length) groups.push(["of no known set", other]);
  if (!frame.cpus.some((cpu) => cpu.cpu === chosen)) chosen = frame.cpus[0]?.cpu ?? null;
  map.replaceChildren(...groups.filter(([, own]) => own.length).map(([name, own]) => element("div", {
    class: "group", role: "group", "aria-label": name,
    children: [element("h3", { text: name }), ...own.map(cell)],
  })));
  if (held) map.querySelector(`[data-cpu="${chosen}"]`)?.focus();
  tellCpu(frame);
}

function cell(cpu) {
  const use = used(cpu);
  const step = use === null ? "unknown" : `u${Math.min(5, Math.ceil(use * 5 - 0.05))}`;
  return element("button", {
    type: "button", class: `cell ${step} ${cpu.state === "no-intr" ? "no-intr" : ""}`,
    tabindex: cpu.cpu === chosen ? 0 : -1, "data-cpu": cpu.cpu, text: percent(use),
    "aria-label": `CPU ${cpu.cpu}: ${use === null ? "not known yet" : `${percent(use)} percent in use`}`,
  });
}

/** The details of a CPU: each field that is known. */
function tellCpu(frame) {
  const cpu = frame.cpus.find((each) => each.cpu === chosen);
  if (!cpu) return;
  const told = (catalogue.cpus ?? []).filter((field) => cpu[field.name] !== null).map((field) => {
    const value = cpu[field.name];
    if (field.kind !== "counter") return `${field.heading} ${value}`;
    return field.unit === "seconds" ? `${field.heading} ${percent(value)} %` : `${field.heading} ${whole(value)}/s`;
  });
  find("#cpu").textContent = printable(told.join("  "));
}

let latest = null;
function choose(number) {
  chosen = number;
  for (const each of document.querySelectorAll(".cell")) {
    each.tabIndex = Number(each.dataset.cpu) === number ? 0 : -1;
    if (each.tabIndex === 0) each.focus();
  }
  if (latest) tellCpu(latest);
}
find("#cpus .map").addEventListener("click", (event) => {
  const at = event.target.closest(".cell");
  if (at) choose(Number(at.dataset.cpu));
});
find("#cpus .map").addEventListener("keydown", (event) => {
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  const cells = [...document.querySelectorAll(".cell")];
  const at = cells.findIndex((each) => Number(each.dataset.cpu) === chosen);
  const ends = { Home: 0, End: cells.length - 1 };
  const to = event.key in ends ? ends[event.key] : at + (steps[event.key] ?? NaN);
  if (!(to >= 0 && to < cells.length)) return;
  event.preventDefault();
  choose(Number(cells[to].dataset.cpu));
});

function showNoise(frame) {
  const names = ["set", "cpu", "kind", "cause", "time_s", "count", "longest_s"];
  const rows = [...(frame.noise ?? [])].sort((a, b) => (b.time_s ?? 0) - (a.time_s ?? 0)).slice(0, 20);
  table("noise", names.map((name) => heading("noise", name, names.indexOf(name) > 3)), rows.map((row) => [
    words(row.set), words(row.cpu), words(row.kind), words(row.cause),
    time(row.time_s), number(row.count, 1), time(row.longest_s),
  ]), "Nothing: no CPU is in a set or fence, or the service was started without --noise.");
}

/** A histogram: a bar for each bucket between the first and the last one. */
function histogram(row) {
  const waits = row.waits_s;
  const { buckets } = waits;
  const most = Math.max(...buckets.map(([, count]) => count), 1);
  const low = Math.log2(buckets[0][0]);
  const high = Math.max(Math.log2(buckets[buckets.length - 1][0]), low + 1);
  const wide = (WIDE - LEFT - 6) / (8 * (high - low) + 1);
  const bars = buckets.map(([upper, count]) => {
    const tall = (BOTTOM - TOP) * count / most;
    const x = LEFT + (Math.log2(upper) - low) * 8 * wide;
    return element("rect", {
      class: "bar", x: x.toFixed(1), y: (BOTTOM - tall).toFixed(1), width: Math.max(1, wide - 0.5).toFixed(1), height: tall.toFixed(1),
      children: [element("title", { text: `to ${time(upper)}: ${Math.round(count)}` })],
    });
  });
  const what = `${words(row.stage)} of set ${words(row.set)}`;
  return element("figure", {
    "data-set": row.set, "data-stage": row.stage,
    children: [
      element("h3", { text: what }),
      element("svg", {
        viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img",
        "aria-label": `${what}: median ${time(waits.median_s)}, 99 percent within ${time(waits.p99_s)}, longest ${time(waits.longest_s)}`,
        children: [
          element("line", { class: "axis", x1: LEFT, x2: WIDE - 6, y1: BOTTOM, y2: BOTTOM }), ...bars,
          element("text", { x: LEFT, y: HIGH - 3, text: time(buckets[0][0]) }),
          element("text", { x: WIDE - 60, y: HIGH - 3, text: time(buckets[buckets.length - 1][0]) }),
        ],
      }),
      element("figcaption", {
        children: [
          element("span", { text: `${waits.count} waits` }), element("span", { text: `median ${time(waits.median_s)}` }),
          element("span", { text: `p99 ${time(waits.p99_s)}` }), element("span", { text: `longest ${time(waits.longest_s)}` }),
        ],
      }),
    ],
  });
}

function showLatency(frame) {
  const rows = (frame.latencies ?? []).filter((row) => row.waits_s?.buckets.length);
  const none = element("p", { class: "none", text: "No waits were measured in this interval." });
  find("#latency .charts").replaceChildren(...(rows.length ? rows.map(histogram) : [none]));
}

function showDecisions(frame) {
  const ago = (decision) => `${time(Math.max(0, frame.at_s - decision.at_s))} ago`;
  const rows = [...frame.decisions].sort((a, b) => b.at_s - a.at_s).slice(0, 20);
  table("decisions", ["at_s", "moves", "done", "reason"].map((name) => heading("decisions", name, false)),
    rows.map((row) => [ago(row), words(row.moves), words(row.done), words(row.reason)]),
    "poold has decided nothing yet.");
}

function showFences(frame) {
  const names = ["fence", "profile", "cpus", "leaks", "proof"];
  table("fences", names.map((name) => heading("fences", name, false)), frame.fences.map((row) => [
    words(row.fence), words(row.profile), words(row.cpus),
    { text: row.leaks ? row.leaks : "holds", class: row.leaks ? "leak" : "" }, words(row.proof),
  ]), "There are no fences.");
}

function showMissing(frame) {
  const why = [...new Set(frame.missing)];
  find("#missing").hidden = why.length === 0;
  find("#missing ul").replaceChildren(...why.map((text) => element("li", { text })));
}

let heard = 0;
function show(frame) {
  latest = frame;
  for (const draw of [showHead, showSets, showTime, showCpus, showNoise, showLatency, showDecisions, showFences, showMissing]) {
    draw(frame);
  }
  document.body.dataset.at = frame.at_s;
}

function say(text, stale) {
  const place = find("#state");
  if (place.textContent !== text) place.textContent = text;
  place.classList.toggle("stale", stale);
}

const moment = (frame) => new Date(frame.time * 1000).toISOString().slice(0, 19).replace("T", " ");

async function get(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).error ?? answer.statusText);
  return answer.json();
}

async function begin() {
  catalogue = await get("/api/v1/fields");
  const { interval_s } = await get("/api/v1");
  past.push(...await get("/api/v1/time-line"));
  const events = new EventSource("/events");
  events.addEventListener("frame", (event) => {
    const frame = JSON.parse(event.data);
    if (past.length && past[past.length - 1].at_s >= frame.at_s) past.pop();
    past.push(frame);
    if (past.length > KEPT) past.splice(0, past.length - KEPT);
    heard = performance.now();
    show(frame);
    say(`as of ${moment(frame)} UTC`, false);
  });
  setInterval(() => {
    const silent = (performance.now() - heard) / 1000;
    if (latest && silent > Math.max(STALE_AFTER, 3 * interval_s)) {
      say(`as of ${moment(latest)} UTC: nothing new came for ${Math.round(silent)} s`, true);
    }
  }, 1000);
}

begin().catch((error) => say(`cannot read the machine: ${error.message}`, true));
