
"use strict";
(() => {
  const cards = [...document.querySelectorAll(".card")];
  const texts = new Map(cards.map((card) => [card, card.textContent.toLowerCase()]));
  const boxes = [...document.querySelectorAll("input[data-impact]")];
  const buttons = [...document.querySelectorAll("nav [data-cluster]")];
  const byId = (id) => document.getElementById(id);
  const kind = byId("kind"), find = byId("find"), quiet = byId("quiet");
  let cluster = null;

  const apply = () => {
    const impacts = new Set(boxes.filter((b) => b.checked).map((b) => b.dataset.impact));
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const card of cards) {
      const fits = impacts.has(card.dataset.impact)
        && (!kind.value || kind.value === card.dataset.kind)
        && (cluster === null || card.dataset.clusters.split(" ").includes(cluster))
        && words.every((word) => texts.get(card).includes(word));
      card.hidden = !fits;
      count += fits ? 1 : 0;
    }
    byId("shown").textContent = `${count} of ${cards.length} shown`;
    byId("nothing").hidden = count > 0 || cards.length === 0;
    for (const button of buttons) {
      button.setAttribute("aria-pressed", String(button.dataset.cluster === cluster));
    }
    const cosmetic = boxes.filter((b) => ["cosmetic", "none"].includes(b.dataset.impact));
    quiet.hidden = cosmetic.length === 0;
    quiet.setAttribute("aria-pressed", String(cosmetic.every((b) => !b.checked)));
  };
  const reset = () => {
    for (const box of boxes) box.checked = true;
    kind.value = ""; find.value = ""; cluster = null;
    apply();
  };
  const follow = () => {
    const target = location.hash && byId(location.hash.slice(1));
    const card = target && target.closest(".card");
    if (card && card.hidden) reset();
    if (card) card.scrollIntoView();
  };

  byId("filters").addEventListener("input", apply);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("reset").addEventListener("click", reset);
  quiet.addEventListener("click", () => {
    const cosmetic = boxes.filter((b) => ["cosmetic", "none"].includes(b.dataset.impact));
    const hide = cosmetic.some((b) => b.checked);
    for (const box of cosmetic) box.checked = !hide;
    apply();
  });
  for (const button of buttons) {
    button.addEventListener("click", () => {
      cluster = cluster === button.dataset.cluster ? null : button.dataset.cluster;
      apply();
    });
  }
  byId("cluster-find").addEventListener("input", (event) => {
    const word = event.target.value.toLowerCase();
    for (const button of buttons) {
      button.parentElement.hidden = !button.textContent.toLowerCase().includes(word);
    }
  });
  if (matchMedia("(max-width: 50rem)").matches) byId("clusters").open = false;
  addEventListener("hashchange", follow);
  apply();
  follow();
})();
