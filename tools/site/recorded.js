function (name, data) {
  // The still stays until a control is moved; then the recorded answers are unpacked, once.
  const start = (root) => {
    root.dataset.ddpRecorded = "";
    const [form, shown, said] = ["form", ".shown", ".read-aloud"].map((each) => root.querySelector(each));
    const controls = [...form.querySelectorAll("fieldset, [type=range], [type=checkbox]")];
    let unpacked;
    let asked = 0;
    const unpack = async () => {
      const packed = Uint8Array.from(atob(data.packed), (one) => one.charCodeAt(0));
      const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
      return new Response(stream).json();
    };
    const place = (control) => {
      if (control.type === "checkbox") return Number(control.checked);
      if (control.type === "range") return Number(control.value);
      return [...control.querySelectorAll("input")].findIndex((one) => one.checked);
    };
    const show = async () => {
      const chosen = controls.map(place);
      controls.forEach((control, which) => {
        if (control.type !== "range") return;
        control.nextElementSibling.textContent = data.options[which][chosen[which]];
        control.setAttribute("aria-valuetext", data.options[which][chosen[which]]);
      });
      const turn = ++asked;
      const { parts, answers, index, said: titles } = await (unpacked ??= unpack());
      if (turn !== asked) return;
      const at = index[chosen.reduce((sum, one, which) => sum * data.options[which].length + one, 0)];
      shown.innerHTML = answers[at].map((part) => parts[part]).join("");
      for (const script of shown.querySelectorAll("script")) { // a script that innerHTML has made does not run
        const runs = document.createElement("script");
        runs.textContent = script.textContent;
        script.replaceWith(runs);
      }
      shown.tabIndex = shown.scrollWidth > shown.clientWidth ? 0 : -1;
      const picture = shown.querySelector("svg");
      said.textContent = picture ? `${titles[at]} ${picture.getAttribute("aria-label")}` : titles[at];
    };
    form.hidden = false;
    form.addEventListener("input", show);
    form.addEventListener("submit", (event) => event.preventDefault());
  };
  document.querySelectorAll(`[id="${name}"]:not([data-ddp-recorded])`).forEach(start);
}
