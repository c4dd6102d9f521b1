function (name, data) {
  const end = data.end || 1;
  const css = `
    [data-ddp-replay] svg { display: block; }
    [data-ddp-replay] [data-is="picture"] { position: relative; }
    [data-ddp-replay] [data-is="later"], [data-ddp-replay] [data-is="now"] {
      position: absolute; top: ${data.top}%; height: ${data.height}%; pointer-events: none; }
    [data-ddp-replay] [data-is="later"] { right: 0; background: rgba(128, 128, 128, 0.35); }
    [data-ddp-replay] [data-is="now"] { width: 2px; background: #CC79A7; }
    [data-ddp-replay] [data-is="controls"], [data-ddp-replay] [data-is="controls"] > * { display: flex; gap: 4px; align-items: center; }
    [data-ddp-replay] [data-is="controls"] { flex-wrap: wrap; padding: 4px 8px; }
    [data-ddp-replay] [data-is="place"] { flex: 1 1 22em; }
    [data-ddp-replay] button { min-width: 4em; padding: 2px 6px; }
    [data-ddp-replay] input { flex: 1; min-width: 6em; }
    [data-ddp-replay] output { min-width: 6em; text-align: right; font-variant-numeric: tabular-nums; }
    [data-ddp-replay] :focus-visible { outline: 3px solid #0072B2; outline-offset: 2px; }
    /* Jupyter has styles of its own for tables, and they are more specific than most. */
    [data-ddp-replay][role] table { border: none; border-collapse: collapse; margin: 0; }
    [data-ddp-replay][role] tr:nth-child(n) { background: transparent; }
    [data-ddp-replay][role] tr:nth-child(n) > * { text-align: left; padding: 0 0.8em; border: none; background: transparent; line-height: 1.5; }
    [data-ddp-replay][role] th { white-space: nowrap; }`;
  const controls = `
    <style>${css}</style>
    <div data-is="picture"><div data-is="later"></div><div data-is="now"></div></div>
    <div data-is="controls">
      <span>
        <button type="button" data-do="home">start</button>
        <button type="button" data-do="back">‹ step</button>
        <button type="button" data-do="play">play</button>
        <button type="button" data-do="on">step ›</button>
      </span>
      <span data-is="place">
        <input type="range" data-is="time" min="0" max="1000" value="0" aria-label="time">
        <output data-is="clock"></output>
        <select data-is="speed" aria-label="speed"></select>
      </span>
    </div>
    <table><tbody data-is="words" aria-live="polite"></tbody></table>`;
  const times = [...new Set(data.lanes.flatMap((lane) => [lane.begins, lane.ends, ...lane.moments.flatMap((m) => [m[0], m[1]])]))];
  times.sort((a, b) => a - b);

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
    if (t < lane.begins) return "has not begun";
    if (t >= lane.ends) return lane.ended;
    const text = doing(lane, t);
    if (text !== data.waiting) return text || "runs other code";
    if (!data.named) return "waits for others";
    // A thread of the backend may take up a collective a moment after the main thread has begun to wait for it.
    const before = joined(lane, t);
    const mine = lane.collectives.slice(0, before).some((c) => t < c[1]) ? before : before + 1;
    const late = data.lanes.filter((other) => other !== lane && joined(other, t) < mine).map((other) => other.name);
    return late.length ? `waits for ${late.join(", ")}` : "waits: the collective is under way";
  };

  const start = (root) => {
    root.dataset.ddpReplay = "";
    const image = root.querySelector("img");
    const bytes = Uint8Array.from(atob(image.src.split(",")[1]), (letter) => letter.charCodeAt(0));
    image.insertAdjacentHTML("afterend", controls);
    const part = (what) => root.querySelector(`[data-is="${what}"]`);
    const [picture, later, now, time, clock, speed, table] =
      ["picture", "later", "now", "time", "clock", "speed", "words"].map(part);
    // The image's own element, so that what a pointer rests on says what it is; with ids of its own, as in the stepper.
    const own = `view-${document.querySelectorAll("[data-ddp-replay]").length}-`;
    const svg = new TextDecoder().decode(bytes).replaceAll(/(\bid="|url\(#)/g, `$1${own}`);
    picture.insertAdjacentHTML("afterbegin", svg);
    image.remove();
    const cells = data.lanes.map((lane) => {
      const row = table.insertRow();
      const head = document.createElement("th");
      head.scope = "row";
      head.textContent = lane.name;
      row.append(head);
      return row.insertCell();
    });
    let at = 0;
    let playing = 0;

    const show = (t) => {
      at = Math.min(end, Math.max(0, t));
      now.style.left = later.style.left = `${data.left + at * data.scale}%`;
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
    const to = (t) => { pause(); show(t); };
    const step = (way) => {
      const next = way > 0 ? times.find((t) => t > at + 1e-9) : [...times].reverse().find((t) => t < at - 1e-9);
      to(next === undefined ? (way > 0 ? end : 0) : next);
    };
    const acts = {
      home: () => to(0), last: () => to(end), back: () => step(-1), on: () => step(1),
      play: () => (playing ? pause() : play()),
    };

    root.addEventListener("click", (event) => {
      const pressed = event.target.closest("[data-do]");
      if (pressed) acts[pressed.dataset.do]();
    });
    time.addEventListener("input", () => to((time.value / 1000) * end));
    root.addEventListener("keydown", (event) => {
      const cell = root.closest(".jp-Cell");
      if (cell && event.key === "Enter" && (event.shiftKey || event.ctrlKey || event.altKey || event.metaKey)) {
        // Shift+Enter goes on with the notebook: on a button, JupyterLab leaves it to the button.
        event.preventDefault();
        event.stopPropagation();
        cell.focus();
        cell.dispatchEvent(new KeyboardEvent("keydown", event));
        return;
      }
      if (event.target === speed || event.altKey || event.ctrlKey || event.metaKey) return;
      const act = { ArrowRight: "on", ArrowLeft: "back", Home: "home", End: "last" }[event.key];
      const space = event.key === " " && event.target === time;
      if (!act && !space) return;
      event.preventDefault();
      event.stopPropagation();
      acts[act || "play"]();
    });
    show(0);
  };
  document.querySelectorAll(`[id="${name}"]:not([data-ddp-replay])`).forEach(start);
}
