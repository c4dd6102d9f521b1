function (name, data) {
  const count = data.pictures.length;
  const css = `
    [data-ddp-stepper] [data-is="live"] svg { display: block; }
    [data-ddp-stepper] [data-is="controls"], [data-ddp-stepper] [data-is="controls"] > * { display: flex; gap: 4px; align-items: center; }
    [data-ddp-stepper] [data-is="controls"] { flex-wrap: wrap; padding: 4px 8px; }
    [data-ddp-stepper] [data-is="place"] { flex: 1 1 16em; }
    [data-ddp-stepper] button { min-width: 4.4em; padding: 2px 6px; }
    [data-ddp-stepper] button[aria-disabled="true"] { opacity: 0.5; }
    [data-ddp-stepper] input { flex: 1; min-width: 8em; }
    [data-ddp-stepper] :focus-visible { outline: 3px solid #0072B2; outline-offset: 2px; }
    [data-ddp-stepper] [data-is="said"] { margin: 2px 8px 8px 8px; min-height: 2.8em; line-height: 1.4; }
    [data-ddp-stepper] > img { display: none; }
    @media (prefers-reduced-motion: no-preference) {
      [data-ddp-stepper] [data-is="live"] svg { animation: ddp-appear 0.2s ease-out; }
      @keyframes ddp-appear { from { opacity: 0.4; } }
    }
    @media print {
      [data-ddp-stepper] > img { display: inline; }
      [data-ddp-stepper] [data-is="live"] { display: none; }
    }`;
  const controls = `
    <style>${css}</style>
    <div data-is="picture" aria-hidden="true"></div>
    <div data-is="controls">
      <span>
        <button type="button" data-do="first">first</button>
        <button type="button" data-do="back">‹ step</button>
        <button type="button" data-do="play">play</button>
        <button type="button" data-do="on">step ›</button>
        <button type="button" data-do="last">last</button>
      </span>
      <span data-is="place">
        <input type="range" min="1" max="${count}" step="1" value="1" aria-label="step">
        <output style="min-width: 5em; text-align: right; font-variant-numeric: tabular-nums"></output>
      </span>
    </div>
    <p data-is="said" aria-live="polite" aria-atomic="true"></p>`;

  const start = (root) => {
    root.dataset.ddpStepper = "";
    // The same stepper may be in sight in one place and hidden in another: each has ids of its own.
    const own = `view-${document.querySelectorAll("[data-ddp-stepper]").length}-`;
    const live = document.createElement("div");
    live.dataset.is = "live";
    live.innerHTML = controls;
    root.append(live);
    const part = (what) => live.querySelector(`[data-is="${what}"]`);
    const [picture, said] = ["picture", "said"].map(part);
    const [slider, number] = [live.querySelector("input"), live.querySelector("output")];
    const button = (what) => live.querySelector(`[data-do="${what}"]`);
    let at = -1;
    let timer = 0;

    const show = (place) => {
      const next = Math.min(count - 1, Math.max(0, place));
      if (next === at) return;
      at = next;
      picture.innerHTML = data.pictures[at].replaceAll(/(\bid="|url\(#)/g, `$1${own}`);
      // The tallest picture so far keeps its room, or the buttons would move away under the pointer.
      picture.style.minHeight = `${Math.max(parseFloat(picture.style.minHeight) || 0, picture.offsetHeight)}px`;
      said.textContent = data.said[at];
      slider.value = at + 1;
      number.textContent = `${at + 1} of ${count}`;
      slider.setAttribute("aria-valuetext", number.textContent);
      // Not `disabled`: a button that is disabled loses the focus, and the keyboard its place.
      for (const what of ["first", "back"]) button(what).setAttribute("aria-disabled", String(at === 0));
      for (const what of ["on", "last"]) button(what).setAttribute("aria-disabled", String(at === count - 1));
    };
    const pause = () => {
      clearTimeout(timer);
      timer = 0;
      button("play").textContent = "play";
      said.setAttribute("aria-live", "polite");
    };
    const next = () => {
      if (!root.isConnected) return pause();
      // The last sentence is read aloud; those on the way would pile up.
      if (at + 1 >= count - 1) pause();
      else timer = setTimeout(next, data.milliseconds);
      show(at + 1);
    };
    const play = () => {
      if (at >= count - 1) show(0);
      if (count === 1) return;
      button("play").textContent = "pause";
      said.setAttribute("aria-live", "off");
      timer = setTimeout(next, data.milliseconds);
    };
    const to = (place) => { pause(); show(place); };
    const acts = {
      first: () => to(0),
      back: () => to(at - 1),
      play: () => (timer ? pause() : play()),
      on: () => to(at + 1),
      last: () => to(count - 1),
    };

    live.addEventListener("click", (event) => {
      const pressed = event.target.closest("[data-do]");
      if (pressed) acts[pressed.dataset.do]();
      else if (picture.contains(event.target)) slider.focus(); // then the arrow keys step
    });
    slider.addEventListener("input", () => to(Number(slider.value) - 1));
    live.addEventListener("keydown", (event) => {
      const cell = root.closest(".jp-Cell");
      if (cell && event.key === "Enter" && (event.shiftKey || event.ctrlKey || event.altKey || event.metaKey)) {
        // Shift+Enter goes on with the notebook: on a button, JupyterLab leaves it to the button.
        event.preventDefault();
        event.stopPropagation();
        cell.focus();
        cell.dispatchEvent(new KeyboardEvent("keydown", event));
        return;
      }
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      const act = { ArrowRight: "on", ArrowLeft: "back", Home: "first", End: "last" }[event.key];
      const space = event.key === " " && !event.target.closest("button"); // on a button it presses that button
      if (!act && !space) return;
      event.preventDefault();
      event.stopPropagation();
      acts[act || "play"]();
    });
    show(0);
  };
  // The same stepper may be shown twice in a page; each run of the script wakes what is still asleep.
  document.querySelectorAll(`[id="${name}"]:not([data-ddp-stepper])`).forEach(start);
}
