// The page of the class board. It holds what the server has told it (`room`) and draws all of it again after each change.
// Every text goes through textContent: a name such as <script> is a name.
"use strict";

const ALL = "all";
const AUTO = "";
const RETRY_MS = [300, 700, 1500, 3000];
const at = (id) => document.getElementById(id);

let key = "";
let socket = null;
let tries = 0;
let clock = 0; // server's time minus this machine's, in seconds
let drawing = false;
let held = false; // a button that is drawn anew between press and release never gets its click
let room = null;
let view = "room";
let picked = AUTO;
let latest = ""; // the lesson in which something happened last

function make(tag, name, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  return made;
}

// --- the key: from the address, once, and out of it before anybody reads it on a projector

function takeKey() {
  const given = new URLSearchParams(location.hash.slice(1)).get("key");
  if (given) {
    sessionStorage.setItem("board-key", given);
    history.replaceState(null, "", location.pathname);
  }
  key = sessionStorage.getItem("board-key") || "";
}

function ask(why) {
  room = null;
  for (const id of ["room", "learners"]) at(id).hidden = true;
  at("ask").hidden = false;
  at("present").textContent = "";
  at("wrong").textContent = why;
  at("key").focus();
}

// --- the connection

function connect() {
  const here = new URL("watch", location.href);
  here.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  here.hash = "";
  socket = new WebSocket(here);
  socket.onopen = () => socket.send(JSON.stringify({ key }));
  socket.onmessage = (message) => told(JSON.parse(message.data));
  socket.onclose = (event) => {
    if (event.code === 4403) {
      sessionStorage.removeItem("board-key");
      say("");
      ask(event.reason);
      return;
    }
    say("The board does not answer. What you see is from before.");
    setTimeout(connect, RETRY_MS[Math.min(tries++, RETRY_MS.length - 1)]);
  };
}

function say(text) {
  at("link").textContent = text;
}

function send(message) {
  if (socket && socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

function told(message) {
  clock = message.now - Date.now() / 1000;
  say(message.trouble && `The board cannot write (${message.trouble}). What learners do waits on their machines.`);
  if (message.kind === "everything") {
    tries = 0;
    at("ask").hidden = true;
    room = {
      lessons: message.lessons,
      stuck: message.stuck,
      names: new Map(Object.entries(message.names).map(([id, name]) => [Number(id), name])),
      cells: new Map(),
      questions: new Map(),
      shown: message.shown,
      lessonOf: new Map(message.lessons.flatMap((each) => each.tasks.map((task) => [task.name, each.stem]))),
    };
    fillLessons();
  }
  for (const [id, name] of Object.entries(message.kind === "changes" ? message.names : {})) {
    if (name === null) forget(Number(id));
    else room.names.set(Number(id), name);
  }
  for (const [learner, task, passed, since, count, said, misconceptions] of message.cells) {
    if (!room.cells.has(learner)) room.cells.set(learner, new Map());
    room.cells.get(learner).set(task, { passed, since, count, said, misconceptions });
    latest = room.lessonOf.get(task) || latest;
  }
  for (const question of message.questions) room.questions.set(question.id, question);
  room.shown = message.shown;
  draw();
}

function forget(learner) {
  room.names.delete(learner);
  room.cells.delete(learner);
}

// --- what is so

const now = () => Date.now() / 1000 + clock;

function stateOf(cell) {
  if (!cell) return "open";
  if (cell.passed) return "passed";
  return cell.count >= room.stuck.tries || now() - cell.since >= room.stuck.seconds ? "stuck" : "trying";
}

function shownLessons() {
  if (picked === ALL) return room.lessons.filter((lesson) => lesson.tasks.length);
  const stem = picked === AUTO ? latest || room.lessons[0].stem : picked;
  return room.lessons.filter((lesson) => lesson.stem === stem);
}

const shownTasks = () => shownLessons().flatMap((lesson) => lesson.tasks);

function ago(seconds) {
  const minutes = Math.max(0, Math.floor(seconds / 60));
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

const clockTime = (seconds) =>
  new Date((seconds - clock) * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

const people = (count) => `${count} ${count === 1 ? "learner" : "learners"}`;

// --- drawing

function draw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    if (!room || held) return;
    at("present").textContent = people(room.names.size);
    at("room").hidden = view !== "room";
    at("learners").hidden = view !== "learners";
    if (view === "room") {
      drawTasks();
      drawVote();
      drawMisconceptions();
    } else drawLearners();
  });
}

function fillLessons() {
  const list = at("lesson");
  list.replaceChildren(new Option("where the room is", AUTO), new Option("all lessons", ALL));
  for (const lesson of room.lessons) if (lesson.tasks.length) list.add(new Option(lesson.title, lesson.stem));
  list.value = picked;
}

function drawTasks() {
  const rows = [];
  for (const lesson of shownLessons()) {
    rows.push(make("h3", "", lesson.title));
    for (const task of lesson.tasks) rows.push(taskRow(task));
    if (!lesson.tasks.length) rows.push(make("p", "hint", "This lesson has no tasks."));
  }
  at("tasks").classList.toggle("many", rows.length > 8);
  at("tasks").replaceChildren(...rows);
}

function taskRow(task) {
  const count = { passed: 0, trying: 0, stuck: 0 };
  let since = Infinity;
  for (const cells of room.cells.values()) {
    const cell = cells.get(task.name);
    const state = stateOf(cell);
    if (state === "open") continue;
    count[state] += 1;
    if (state === "stuck") since = Math.min(since, cell.since);
  }
  const row = make("div", "task");
  row.dataset.task = task.name;
  row.append(make("b", "title", task.title));
  const words = make("span", "numbers");
  words.append(
    make("span", "n passed", `✓ ${count.passed}`),
    make("span", "n trying", `… ${count.trying}`),
    make("span", "n stuck", `! ${count.stuck}`),
  );
  row.append(words);
  const bar = make("div", "bar");
  bar.setAttribute("role", "img");
  bar.setAttribute("aria-label", `${count.passed} passed, ${count.trying} trying, ${count.stuck} stuck of ${room.names.size}`);
  for (const state of ["passed", "trying", "stuck"]) {
    if (!count[state]) continue;
    const part = make("i", state);
    part.style.flexGrow = count[state];
    bar.append(part);
  }
  const rest = Math.max(0, room.names.size - count.passed - count.trying - count.stuck);
  if (rest) {
    const part = make("i", "open");
    part.style.flexGrow = rest;
    bar.append(part);
  }
  row.append(bar);
  if (count.stuck) row.append(make("span", "since", `stuck since ${clockTime(since)} (${ago(now() - since)})`));
  return row;
}

function drawVote() {
  const list = at("question");
  const asked = [...room.questions.values()];
  list.hidden = asked.length < 2;
  const wanted = asked.map((question) => question.id).join();
  if (list.dataset.holds !== wanted) {
    list.dataset.holds = wanted;
    list.replaceChildren(...asked.map((question) => new Option(question.text, question.id)));
  }
  list.value = room.shown;
  const question = room.questions.get(room.shown);
  if (!question) {
    at("vote").replaceChildren(make("p", "hint", "Nobody has predicted anything yet. The question appears with the first vote."));
    return;
  }
  const parts = [make("p", "question", question.text)];
  const open = question.counts !== null;
  const answers = make("ol", `answers${open ? " revealed" : ""}`);
  const most = open ? Math.max(1, ...question.counts) : 1;
  question.answers.forEach((answer, number) => {
    const item = make("li");
    item.append(make("span", "answer", answer));
    if (open) {
      const votes = question.counts[number];
      item.append(make("span", "votes", `${votes}`));
      const bar = make("div", "bar");
      const part = make("i", "vote");
      part.style.flexBasis = `${(100 * votes) / most}%`;
      bar.append(part);
      item.append(bar);
    }
    answers.append(item);
  });
  const foot = make("p", "foot");
  foot.append(make("span", "voted", `${question.voted} of ${room.names.size} have predicted`));
  const button = make("button", "reveal", open ? "Hide the votes" : "Reveal the votes");
  button.onclick = () => send({ do: open ? "hide" : "reveal", question: question.id });
  foot.append(button);
  parts.push(answers, foot);
  const focused = at("vote").contains(document.activeElement);
  at("vote").replaceChildren(...parts);
  if (focused) button.focus();
}

function drawMisconceptions() {
  const tasks = new Map(room.lessons.flatMap((lesson) => lesson.tasks.map((task) => [task.name, task])));
  const count = new Map();
  for (const cells of room.cells.values()) {
    for (const [name, cell] of cells) {
      if (cell.passed) continue;
      for (const id of cell.misconceptions) count.set(`${name} ${id}`, (count.get(`${name} ${id}`) || 0) + 1);
    }
  }
  const common = [...count].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0])).slice(0, 4);
  const items = common.map(([which, learners]) => {
    const [name, id] = which.split(" ");
    const [sentence, taught] = tasks.get(name).misconceptions[id] || [id, ""];
    const item = make("li");
    item.append(make("b", "many-of", `${learners}`));
    const words = make("span");
    words.append(make("span", "sentence", sentence), make("span", "where", `${tasks.get(name).title}${taught ? ` · ${taught}` : ""}`));
    item.append(words);
    return item;
  });
  if (!items.length) items.push(make("li", "hint", "None at the moment."));
  at("misconceptions").replaceChildren(...items);
}

const MARKS = { passed: "✓", trying: "…", stuck: "!", open: "·" };

function drawLearners() {
  const tasks = shownTasks();
  const rows = [...room.names].map(([id, name]) => {
    const cells = room.cells.get(id) || new Map();
    let since = Infinity;
    let passed = 0;
    for (const cell of cells.values()) {
      if (cell.passed) passed += 1;
      if (stateOf(cell) === "stuck") since = Math.min(since, cell.since);
    }
    return { id, name, cells, since, passed };
  });
  rows.sort((a, b) => (a.since === b.since ? a.name.localeCompare(b.name) : a.since - b.since));
  const head = make("tr");
  head.append(make("th", "", "Learner"));
  for (const task of tasks) head.append(make("th", "", task.title));
  head.append(make("th", "", "Passed in all"), make("th", "", ""));
  const top = make("thead");
  top.append(head);
  const body = make("tbody");
  for (const row of rows) body.append(learnerRow(row, tasks));
  const focused = at("grid").contains(document.activeElement) && document.activeElement.dataset.learner;
  at("grid").replaceChildren(top, body);
  if (focused) at("grid").querySelector(`[data-learner="${Number(focused)}"]`)?.focus();
}

function learnerRow(row, tasks) {
  const line = make("tr");
  const name = make("th", "name", row.name);
  name.scope = "row";
  line.append(name);
  for (const task of tasks) {
    const cell = row.cells.get(task.name);
    const state = stateOf(cell);
    const box = make("td", state);
    box.dataset.task = task.title;
    let words = { passed: "passed", trying: "trying", stuck: "stuck", open: "not begun" }[state];
    if (state === "stuck" || state === "trying") {
      words += ` since ${clockTime(cell.since)}, ${cell.count} ${cell.count === 1 ? "try" : "tries"}`;
      if (cell.said === "deadlock") words += ", deadlock";
      box.title = cell.misconceptions.map((id) => (task.misconceptions[id] || [id])[0]).join("\n");
    }
    box.append(make("span", "mark", MARKS[state]), make("span", "words", words));
    line.append(box);
  }
  const sum = make("td", "sum", `${row.passed}`);
  sum.dataset.task = "Passed in all";
  const last = make("td", "last");
  const remove = make("button", "remove", "Remove");
  remove.dataset.learner = row.id;
  remove.setAttribute("aria-label", `Remove ${row.name}`);
  remove.onclick = () => {
    if (confirm(`Remove ${row.name} with all verdicts and votes?`)) send({ do: "remove", learner: row.id });
  };
  last.append(remove);
  line.append(sum, last);
  return line;
}

// --- what the instructor does

function show(wanted) {
  view = wanted;
  for (const each of ["room", "learners"]) {
    at(`tab-${each}`).setAttribute("aria-selected", String(each === wanted));
    at(`tab-${each}`).tabIndex = each === wanted ? 0 : -1;
  }
  draw();
}

for (const each of ["room", "learners"]) at(`tab-${each}`).onclick = () => show(each);
document.querySelector("nav").onkeydown = (event) => {
  if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
  const other = view === "room" ? "learners" : "room";
  show(other);
  at(`tab-${other}`).focus();
};
at("lesson").onchange = (event) => {
  picked = event.target.value;
  draw();
};
at("question").onchange = (event) => send({ do: "show", question: event.target.value });
at("ask").onsubmit = (event) => {
  event.preventDefault();
  key = at("key").value.trim();
  at("key").value = "";
  sessionStorage.setItem("board-key", key);
  connect();
};
addEventListener("pointerdown", () => (held = true));
for (const ends of ["pointerup", "pointercancel", "blur"])
  addEventListener(ends, () => {
    held = false;
    setTimeout(draw); // after the click
  });
setInterval(draw, 10000); // minutes go by, and who tries becomes stuck

takeKey();
if (key) connect();
else ask("");
