function (name, data) {
  // Either `data.packed`: pictures, shown below the controls; or elements `data-panel` that follow, one of them in sight.
  const start = async (root) => {
    root.dataset.ddpChooser = "";
    const chosen = [...data.first];
    const form = document.createElement("div");
    form.className = "chooser";
    root.prepend(form);
    const said = document.createElement("p");
    said.className = "read-aloud";
    said.setAttribute("aria-live", "polite");
    const picture = document.createElement("div");
    if (data.packed) form.after(picture, said);
    const packed = data.packed && Uint8Array.from(atob(data.packed), (one) => one.charCodeAt(0));
    const pictures = data.packed && await new Response(
      new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))
    ).json();
    const show = () => {
      if (!pictures) {
        const key = chosen.map((place, which) => data.choices[which].options[place]).join("|");
        for (const panel of root.parentElement.querySelectorAll("[data-panel]")) panel.hidden = panel.dataset.panel !== key;
        return;
      }
      const place = chosen.reduce((sum, one, which) => sum * data.choices[which].options.length + one, 0);
      picture.innerHTML = pictures[data.index[place]];
      said.textContent = data.said[data.index[place]];
    };
    data.choices.forEach((choice, which) => {
      const label = document.createElement("label");
      const words = document.createElement("span");
      words.textContent = choice.name;
      const control = document.createElement("select");
      control.setAttribute("aria-label", choice.name);
      choice.options.forEach((option, place) => control.add(new Option(option, place)));
      control.value = chosen[which];
      control.addEventListener("change", () => { chosen[which] = Number(control.value); show(); });
      label.append(words, control);
      form.append(label);
    });
    if (pictures) root.querySelectorAll(":scope > img").forEach((image) => image.remove());
    show();
  };
  document.querySelectorAll(`[id="${name}"]:not([data-ddp-chooser])`).forEach(start);
}
