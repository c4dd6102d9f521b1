// In the learner's copy, what explains a run is folded: it opens when that run is over, once.
(() => {
  if (window.ddpOpensExplanations) return;
  window.ddpOpensExplanations = true;
  const isOver = (cell) =>
    /^\[\d+\]/.test(cell.querySelector(".jp-InputArea-prompt")?.textContent.trim() ?? "") &&
    !cell.querySelector(".jp-Cell-outputArea")?.textContent.includes("You have not predicted yet");
  let asked = 0;
  const look = () => {
    asked = 0;
    let over = false;
    for (const cell of document.querySelectorAll(".jp-Notebook .jp-Cell")) {
      if (cell.classList.contains("jp-CodeCell")) over = isOver(cell);
      for (const folded of over ? cell.querySelectorAll("details.ddp-explains:not([data-ddp-seen])") : []) {
        folded.dataset.ddpSeen = "";
        folded.open = true;
      }
    }
  };
  const soon = () => { asked ||= requestAnimationFrame(look); };
  new MutationObserver(soon).observe(document.body, { subtree: true, childList: true, characterData: true });
  soon();
})();
