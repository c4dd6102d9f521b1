// Starts reveal.js, and finds the size in which everything fits on its slide. What a slide holds is chosen when the page is
// written, by lines; fonts differ from machine to machine, so how large the letters are is said here.
(() => {
  // Letters of code and outputs, in pixels, and whether long lines are wrapped, of code (1) and of outputs (2): the first
  // that fits is taken.
  const sizes = (from, to, wrapped) => Array.from({ length: from - to + 1 }, (_, n) => ({ letters: from - n, wrapped }));
  const TRIED = [...sizes(27, 20, 0), ...sizes(20, 16, 1), ...sizes(20, 16, 2)];
  // Where none does, everything on the slide becomes smaller.
  const SMALLEST = 0.6;

  function fit(slide) {
    const room = slide && slide.querySelector(":scope > .room");
    const inner = room && room.firstElementChild;
    if (!inner || inner.dataset.fitted) return;
    const fits = () =>
      inner.getBoundingClientRect().height <= room.getBoundingClientRect().height + 1 &&
      room.scrollWidth <= room.clientWidth + 1;
    TRIED.some(({ letters, wrapped }) => {
      inner.style.setProperty("--letters", `${letters}px`);
      inner.classList.toggle("wrapped-code", wrapped > 0);
      inner.classList.toggle("wrapped-outputs", wrapped > 1);
      inner.querySelectorAll(".panel").forEach((panel) => (panel.style.zoom = letters / 16));
      return fits();
    });
    let size = 1;
    while (!fits() && size > SMALLEST) {
      size -= 0.04;
      inner.style.zoom = size.toFixed(2);
    }
    inner.dataset.fitted = size.toFixed(2);
  }

  // A stepper is built up frame by frame: who goes on with the slides goes on in it, and back the same way.
  const steppers = (slide) => (slide ? [...slide.querySelectorAll("[data-ddp-stepper]")] : []);
  const places = (stepper) => stepper.querySelector("input[type=range]");
  steppers(document).forEach((stepper) => {
    for (let frame = 1; frame < Number(places(stepper).max); frame++)
      stepper.insertAdjacentHTML("beforeend", '<i class="fragment"></i>');
  });
  const build = () =>
    steppers(Reveal.getCurrentSlide()).forEach((stepper) => {
      places(stepper).value = 1 + stepper.querySelectorAll(".fragment.visible").length;
      places(stepper).dispatchEvent(new Event("input"));
    });

  Reveal.initialize({
    width: 1280,
    height: 720,
    margin: 0,
    center: false,
    hash: true,
    transition: "none",
    slideNumber: "c/t",
    controls: false,
    pdfSeparateFragments: false, // on paper a stepper is its strip
    // What stands in a replay answers the arrow keys itself.
    keyboardCondition: (event) => !event.target.closest || !event.target.closest(".panel"),
    plugins: [RevealNotes],
  });
  ["ready", "slidechanged", "fragmentshown", "fragmenthidden"].forEach((change) => Reveal.on(change, build));
  Reveal.on("ready", (event) => fit(event.currentSlide));
  Reveal.on("slidechanged", (event) => fit(event.currentSlide));
  Reveal.on("pdf-ready", () => document.querySelectorAll(".slides section section").forEach(fit));
  if (document.fonts) document.fonts.ready.then(() => fit(Reveal.getCurrentSlide()));
})();
