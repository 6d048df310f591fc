// The report works without this script; with it, the table of runs is filtered, sorted and paged, pictures open in place, and
// the pages of a large campaign unfold. Data only ever becomes text: nothing here makes markup of a record.
"use strict";

(() => {
  const element = (name, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const count = (number) => number.toLocaleString("en");

  // ---- the table of runs -----------------------------------------------------------------------------------------------

  const [HREF, RUN, CONTRACT, TITLE, AGENT, PROMPT, OUTCOME, KIND, REASON, SECONDS, INTENDED] = Array(11).keys();

  const duration = (seconds) => {
    if (seconds === null) return "–";
    if (seconds < 0.0995) return `${(seconds * 1000).toFixed(0)} ms`;
    if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
    if (seconds < 89.5) return `${seconds.toFixed(0)} s`;
    const two = (number) => String(number).padStart(2, "0");
    if (seconds < 3599.5) return `${Math.floor(Math.round(seconds) / 60)} min ${two(Math.round(seconds) % 60)} s`;
    const minutes = Math.round(seconds / 60);
    return `${count(Math.floor(minutes / 60))} h ${two(minutes % 60)} min`;
  };

  const showRuns = (data) => {
    const table = document.getElementById("runs");
    const form = document.getElementById("filters");
    const found = document.getElementById("found");
    const pages = document.getElementById("pages");
    const template = document.getElementById("row").content;
    const body = table.tBodies[0];
    const texts = data.texts;
    const names = new Map(data.outcomes);
    const ranks = new Map(data.outcomes.map(([letters], rank) => [letters, rank]));
    const haystacks = new Array(data.rows.length);
    const keys = {
      outcome: (row) => ranks.get(texts[row[OUTCOME]]),
      contract: (row) => texts[row[TITLE]] + "\0" + texts[row[CONTRACT]],
      agent: (row) => texts[row[AGENT]],
      prompt: (row) => texts[row[PROMPT]],
      kind: (row) => texts[row[KIND]] + "\0" + texts[row[REASON]],
      seconds: (row) => row[SECONDS] ?? Infinity,
      intended: (row) => texts[row[INTENDED]],
      run: (row) => row[RUN],
    };
    const collator = new Intl.Collator("en", { numeric: true });
    const compare = (a, b) => (typeof a === "number" ? (a === b ? 0 : a - b) : collator.compare(a, b));
    const state = { key: "", down: false, page: 0 };

    const haystack = (index) => {
      const row = data.rows[index];
      const parts = [CONTRACT, TITLE, AGENT, PROMPT, OUTCOME, KIND, REASON, INTENDED].map((column) => texts[row[column]]);
      return (haystacks[index] ??= [row[RUN], names.get(texts[row[OUTCOME]]), ...parts].join("\n").toLowerCase());
    };

    const matching = () => {
      const words = form.text.value.toLowerCase().split(/\s+/).filter(Boolean);
      const { outcome, contract, agent } = Object.fromEntries(new FormData(form));
      const indices = [];
      data.rows.forEach((row, index) => {
        if (outcome && texts[row[OUTCOME]] !== outcome) return;
        if (contract && texts[row[CONTRACT]] !== contract) return;
        if (agent && texts[row[AGENT]] !== agent) return;
        if (words.length && !words.every((word) => haystack(index).includes(word))) return;
        indices.push(index);
      });
      if (state.key) {
        const values = new Map(indices.map((index) => [index, keys[state.key](data.rows[index])]));
        const sign = state.down ? -1 : 1;
        indices.sort((a, b) => sign * compare(values.get(a), values.get(b)) || a - b);
      }
      return indices;
    };

    const fill = (row) => {
      const line = template.cloneNode(true).firstElementChild;
      const cells = [...line.cells];
      const badge = cells[0].firstElementChild;
      badge.textContent = texts[row[OUTCOME]];
      badge.title = names.get(texts[row[OUTCOME]]);
      badge.className = `badge ${texts[row[OUTCOME]]}`;
      cells[1].querySelector("b").textContent = texts[row[TITLE]];
      cells[1].querySelector("small").textContent = texts[row[CONTRACT]];
      cells[2].textContent = texts[row[AGENT]];
      cells[3].textContent = texts[row[PROMPT]];
      cells[4].querySelector("b").textContent = texts[row[KIND]];
      cells[4].querySelector("span").textContent = texts[row[REASON]];
      cells[5].textContent = duration(row[SECONDS]);
      if (cells.length > 7) cells[6].textContent = texts[row[INTENDED]];
      const link = cells.at(-1).firstElementChild;
      link.textContent = row[RUN];
      link.href = row[HREF] ?? `runs/${row[RUN]}.html`;
      return line;
    };

    const show = () => {
      const indices = matching();
      const last = Math.max(0, Math.ceil(indices.length / data.size) - 1);
      state.page = Math.min(Math.max(0, state.page), last);
      const from = state.page * data.size;
      const part = indices.slice(from, from + data.size);
      body.replaceChildren(...part.map((index) => fill(data.rows[index])));
      const total = count(data.rows.length);
      found.textContent =
        (indices.length === data.rows.length ? `${total} runs` : `${count(indices.length)} of ${total} runs`) +
        (part.length && last ? `, ${count(from + 1)} to ${count(from + part.length)} shown` : "");
      pages.hidden = last === 0;
      const [first, before, where, after] = pages.children;
      first.disabled = before.disabled = state.page === 0;
      after.disabled = state.page === last;
      where.textContent = `Page ${count(state.page + 1)} of ${count(last + 1)}`;
      for (const head of table.tHead.rows[0].cells) {
        if (head.dataset.key === state.key) head.ariaSort = state.down ? "descending" : "ascending";
        else head.removeAttribute("aria-sort");
      }
      form.order.value = state.key && `${state.key} ${state.down ? "down" : "up"}`;
      remember();
    };

    // The address keeps what is shown, so that coming back from a run shows the same again.
    const remember = () => {
      const kept = new URLSearchParams();
      for (const name of ["outcome", "contract", "agent", "text", "order"]) if (form[name].value) kept.set(name, form[name].value);
      if (state.page) kept.set("page", state.page + 1);
      const address = kept.size ? `#${kept}` : location.pathname + location.search;
      if (location.hash.slice(1) !== String(kept)) history.replaceState(null, "", address);
    };
    const recall = () => {
      const kept = new URLSearchParams(location.hash.slice(1));
      for (const name of ["outcome", "contract", "agent", "text", "order"]) {
        form[name].value = kept.get(name) ?? "";
        if (form[name].value === "" && form[name].options) form[name].selectedIndex = 0;
      }
      [state.key, state.down] = [form.order.value.split(" ")[0], form.order.value.endsWith(" down")];
      state.page = (Number.parseInt(kept.get("page"), 10) || 1) - 1;
    };

    const order = (key, down) => {
      Object.assign(state, { key, down, page: 0 });
      show();
    };
    const turn = (page) => {
      state.page = page;
      show();
      document.getElementById("h-runs").scrollIntoView();
    };

    const options = (select, pairs) => {
      for (const [value, text] of pairs) select.append(element("option", { value }, text));
    };
    const distinct = (value, text) => {
      const pairs = new Map(data.rows.map((row) => [value(row), text(row)]));
      return [...pairs].sort((a, b) => collator.compare(a[1], b[1]));
    };
    const present = new Set(data.rows.map((row) => texts[row[OUTCOME]]));
    const label = (letters, name) => (letters === name ? name : `${letters} · ${name}`);
    const outcomes = data.outcomes.filter(([letters]) => present.has(letters));
    options(form.outcome, outcomes.map(([letters, name]) => [letters, label(letters, name)]));
    options(form.contract, distinct((row) => texts[row[CONTRACT]], (row) => `${texts[row[TITLE]]} (${texts[row[CONTRACT]]})`));
    options(form.agent, distinct((row) => texts[row[AGENT]], (row) => texts[row[AGENT]]));
    options(form.order, [["", "as run"]]);
    for (const head of table.tHead.rows[0].cells) {
      const [key, name] = [head.dataset.key, head.textContent];
      options(form.order, [[`${key} up`, `${name} ↑`], [`${key} down`, `${name} ↓`]]);
      const button = element("button", { type: "button" }, name);
      button.addEventListener("click", () => order(key, state.key === key && !state.down));
      head.replaceChildren(button);
    }
    const step = (text, page) => {
      const button = element("button", { type: "button" }, text);
      button.addEventListener("click", () => turn(page()));
      return button;
    };
    const where = element("span");
    pages.append(step("First", () => 0), step("← Back", () => state.page - 1), where, step("On →", () => state.page + 1));

    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", (event) => {
      if (event.target === form.order) return order(form.order.value.split(" ")[0], form.order.value.endsWith(" down"));
      state.page = 0;
      show();
    });
    window.addEventListener("hashchange", () => {
      recall();
      show();
    });
    form.hidden = false;
    recall();
    show();
  };

  // ---- pictures ----------------------------------------------------------------------------------------------------------

  const showPictures = () => {
    const links = [...document.querySelectorAll("a.shot")];
    if (!links.length || !window.HTMLDialogElement) return;
    let current = 0;
    const image = element("img", { alt: "" });
    const caption = element("p");
    const button = (text, action) => {
      const made = element("button", { type: "button" }, text);
      made.addEventListener("click", action);
      return made;
    };
    const back = button("← Back", () => open(current - 1));
    const on = button("On →", () => open(current + 1));
    const dialog = element("dialog", { className: "viewer" });
    dialog.ariaLabel = "Picture";
    dialog.append(element("div", {}, caption, back, on, button("Close", () => dialog.close())), image);
    document.body.append(dialog);
    const open = (index) => {
      if (index < 0 || index >= links.length) return;
      current = index;
      image.src = links[index].href;
      image.alt = links[index].firstElementChild.alt;
      caption.textContent = `${image.alt} · ${index + 1} of ${links.length}`;
      [back.disabled, on.disabled] = [index === 0, index === links.length - 1];
      if (!dialog.open) dialog.showModal();
    };
    links.forEach((link, index) =>
      link.addEventListener("click", (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
        event.preventDefault();
        open(index);
      }),
    );
    dialog.addEventListener("keydown", (event) => {
      if (event.key === "ArrowLeft") open(current - 1);
      if (event.key === "ArrowRight") open(current + 1);
    });
    dialog.addEventListener("click", (event) => {
      if (event.target === image) dialog.close();
    });
    dialog.addEventListener("close", () => links[current].focus());
  };

  // ---- packed pages --------------------------------------------------------------------------------------------------------

  // The page's own content, escaped by the report's writer like that of a plain page: see runner/report/packing.py.
  const unpack = async (packed, dictionary) => {
    const bytes = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes(dictionary.deflated), bytes(packed.textContent)]).stream();
    const all = await new Response(stream.pipeThrough(new DecompressionStream("deflate-raw"))).arrayBuffer();
    const html = new TextDecoder().decode(new Uint8Array(all, dictionary.length));
    const policy = window.trustedTypes?.createPolicy("legacyproof", { createHTML: (text) => text });
    const holder = document.createElement("template");
    holder.innerHTML = policy ? policy.createHTML(html) : html;
    packed.replaceWith(holder.content);
  };

  const begin = async () => {
    const packed = document.getElementById("packed");
    if (packed && window.legacyproofDictionary) {
      try {
        await unpack(packed, window.legacyproofDictionary);
      } catch {
        packed.replaceWith(element("p", { className: "gone" }, "The details of this run cannot be unfolded by this browser."));
      }
    }
    if (window.legacyproofRuns) showRuns(window.legacyproofRuns);
    showPictures();
    for (const sentence of document.querySelectorAll(".bare")) sentence.remove();
    document.documentElement.dataset.ready = "yes";
  };

  const folded = new Set();
  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details:not([open])")) {
      folded.add(details);
      details.open = true;
    }
  });
  window.addEventListener("afterprint", () => {
    for (const details of folded) details.open = false;
    folded.clear();
  });
  document.addEventListener("DOMContentLoaded", begin);
})();
