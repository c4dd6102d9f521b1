// What axe finds missing in Sphinx's own markup.
addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll(".caption[role=heading]").forEach((each) => each.setAttribute("aria-level", "2"));
  document.querySelectorAll("pre:not(td pre)").forEach((each) => each.setAttribute("tabindex", "0"));
  document.querySelector("aside.sidebar-drawer")?.setAttribute("aria-label", "All pages");
});
