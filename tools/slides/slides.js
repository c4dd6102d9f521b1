// Starts reveal.js, and makes what is a little too large for its slide smaller. What a slide holds is chosen when the
// page is written, from estimates; fonts differ from machine to machine, so the last word is said here.
(() => {
  const SMALLEST = 0.6;

  function fit(slide) {
    const room = slide && slide.querySelector(":scope > .room");
    const inner = room && room.firstElementChild;
    if (!inner || inner.dataset.fitted) return;
    const tooLarge = () =>
      inner.getBoundingClientRect().height > room.getBoundingClientRect().height + 1 ||
      room.scrollWidth > room.clientWidth + 1;
    let size = 1;
    while (tooLarge() && size > SMALLEST) {
      size -= 0.04;
      inner.style.zoom = size.toFixed(2);
    }
    inner.dataset.fitted = size.toFixed(2);
  }

  Reveal.initialize({
    width: 1280,
    height: 720,
    margin: 0,
    center: false,
    hash: true,
    transition: "none",
    slideNumber: "c/t",
    controls: false,
    // What stands in a replay answers the arrow keys itself.
    keyboardCondition: (event) => !event.target.closest || !event.target.closest(".panel"),
    plugins: [RevealNotes],
  });
  Reveal.on("ready", (event) => fit(event.currentSlide));
  Reveal.on("slidechanged", (event) => fit(event.currentSlide));
  Reveal.on("pdf-ready", () => document.querySelectorAll(".slides section section").forEach(fit));
  if (document.fonts) document.fonts.ready.then(() => fit(Reveal.getCurrentSlide()));
})();
