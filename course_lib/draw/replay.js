function (name, data) {
  const root = document.getElementById(name);
  if (!root) return;
  const part = (what) => root.querySelector(`[data-is="${what}"]`);
  const [later, now, time, clock, speed, table] = ["later", "now", "time", "clock", "speed", "words"].map(part);
  const cells = data.lanes.map((_, place) => root.querySelector(`[data-lane="${place}"]`));
  const times = [...new Set(data.lanes.flatMap((lane) => lane.moments.flatMap((m) => [m[0], m[1]])))];
  times.sort((a, b) => a - b);
  const end = times.length ? times[times.length - 1] : 1;
  let at = 0;
  let playing = 0;

  // The last moment that has begun, by bisection: there may be thousands.
  const begun = (list, t, start) => {
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (start(list[middle]) <= t) low = middle + 1; else high = middle;
    }
    return low;
  };
  const joined = (lane, t) => begun(lane.collectives, t, (c) => c[0]);
  const doing = (lane, t) => {
    const place = begun(lane.moments, t, (m) => m[0]) - 1;
    return place >= 0 && t < lane.moments[place][1] ? lane.moments[place][2] : "";
  };
  const words = (lane, t) => {
    const text = doing(lane, t);
    if (text !== data.waiting) return text || "·";
    if (!data.named) return "waits for others";
    // A thread of the backend may take up a collective a moment after the main thread has begun to wait for it.
    const before = joined(lane, t);
    const mine = lane.collectives.slice(0, before).some((c) => t < c[1]) ? before : before + 1;
    const late = data.lanes.filter((other) => other !== lane && joined(other, t) < mine).map((other) => other.name);
    return late.length ? `waits for ${late.join(", ")}` : "waits: the collective is under way";
  };

  const show = (t) => {
    at = Math.min(end, Math.max(0, t));
    const x = data.left + at * data.scale;
    now.style.display = later.style.display = "block";
    now.style.left = later.style.left = `${x}px`;
    time.value = Math.round((1000 * at) / end);
    clock.textContent = `${at.toFixed(end < 20 ? 2 : 1)} ${data.unit}`;
    time.setAttribute("aria-valuetext", clock.textContent);
    data.lanes.forEach((lane, place) => {
      const text = words(lane, at);
      if (cells[place].textContent !== text) cells[place].textContent = text;
    });
  };

  // How much slower than it was: by default so slow that all of it takes about eight seconds.
  const factors = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000];
  const wanted = 8000 / end;
  const usual = factors.reduce((best, f) => (Math.abs(Math.log(f / wanted)) < Math.abs(Math.log(best / wanted)) ? f : best));
  for (const factor of factors) {
    const option = document.createElement("option");
    option.value = factor;
    option.textContent = factor === 1 ? "as it was" : `${factor}× slower`;
    option.selected = factor === usual;
    speed.append(option);
  }

  const button = root.querySelector('[data-do="play"]');
  const pause = () => {
    cancelAnimationFrame(playing);
    playing = 0;
    button.textContent = "play";
    table.setAttribute("aria-live", "polite");
  };
  const play = () => {
    if (at >= end) show(0);
    button.textContent = "pause";
    table.setAttribute("aria-live", "off"); // a reader who listens would hear every word of it
    let last = performance.now();
    const frame = (stamp) => {
      if (!root.isConnected) return;
      show(at + Math.max(0, stamp - last) / Number(speed.value));
      last = stamp;
      if (at >= end) pause(); else playing = requestAnimationFrame(frame);
    };
    playing = requestAnimationFrame(frame);
  };
  const step = (way) => {
    pause();
    const next = way > 0 ? times.find((t) => t > at + 1e-9) : [...times].reverse().find((t) => t < at - 1e-9);
    show(next === undefined ? (way > 0 ? end : 0) : next);
  };
  const acts = { home: () => { pause(); show(0); }, back: () => step(-1), on: () => step(1), play: () => (playing ? pause() : play()) };

  root.addEventListener("click", (event) => {
    const pressed = event.target.closest("[data-do]");
    if (pressed) acts[pressed.dataset.do]();
  });
  time.addEventListener("input", () => { pause(); show((time.value / 1000) * end); });
  root.addEventListener("keydown", (event) => {
    const act = { ArrowRight: "on", ArrowLeft: "back", Home: "home" }[event.key];
    if (act && event.target !== speed) {
      event.preventDefault();
      event.stopPropagation();
      acts[act]();
    } else if (event.key === " " && event.target === time) {
      event.preventDefault();
      acts.play();
    }
  });
  show(0);
}
