(() => {
  "use strict";
  const root = document.getElementById("timeline");
  if (!root) return;
  const total = Number(root.dataset.seconds);
  const lanes = Array.from(root.querySelectorAll("svg"));
  const full = lanes.length ? lanes[0].viewBox.baseVal.width : 1;
  const ruler = root.querySelector(".ruler");
  const shown = document.getElementById("shown");
  const tools = document.querySelector(".tools");
  const closest = 1 / 1024;
  let from = 0;
  let to = 1;

  const time = (seconds) => {
    const steps = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]];
    for (const [unit, name] of steps) {
      if (Math.abs(seconds) >= unit * 0.9995) {
        return Number((seconds / unit).toPrecision(6)) + " " + name;
      }
    }
    return seconds === 0 ? "0 s" : Number((seconds * 1e9).toPrecision(4)) + " ns";
  };

  const step = (range) => {
    const raw = range / Math.max(2, Math.min(8, root.clientWidth / 110));
    const power = Math.pow(10, Math.floor(Math.log10(raw)));
    return [1, 2, 5, 10].map((round) => round * power).find((round) => raw <= round * 1.0001);
  };

  const show = () => {
    const width = Math.min(1, Math.max(closest, to - from));
    from = Math.min(1 - width, Math.max(0, from));
    to = from + width;
    for (const lane of lanes) {
      lane.setAttribute("viewBox",
        `${from * full} 0 ${width * full} ${lane.dataset.height}`);
    }
    ruler.textContent = "";
    const each = step(width * total);
    if (each > 0) {
      for (let n = Math.ceil(from * total / each); n * each <= to * total * 1.0001; n += 1) {
        const share = (n * each / total - from) / width;
        if (share > 0.96) break;
        const mark = document.createElement("span");
        mark.style.left = (share * 100).toFixed(2) + "%";
        if (share < 0.04) mark.style.transform = "none";
        mark.textContent = time(n * each);
        ruler.appendChild(mark);
      }
    }
    shown.textContent = `${time(from * total)} to ${time(to * total)}`;
  };

  const zoom = (times, share) => {
    const at = from + (to - from) * share;
    const width = Math.min(1, Math.max(closest, (to - from) / times));
    from = at - width * share;
    to = from + width;
    show();
  };
  const move = (share) => {
    const width = to - from;
    from = Math.min(1 - width, Math.max(0, from + width * share));
    to = from + width;
    show();
  };
  const all = () => { from = 0; to = 1; show(); };

  const actions = {
    in: () => zoom(2, 0.5),
    out: () => zoom(0.5, 0.5),
    left: () => move(-0.25),
    right: () => move(0.25),
    all,
  };
  tools.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) actions[button.dataset.do]();
  });
  root.addEventListener("keydown", (event) => {
    const keys = {
      "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right",
      0: "all", Home: "all",
    };
    const name = keys[event.key];
    if (!name || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[name]();
  });

  const place = (event) => {
    const box = root.getBoundingClientRect();
    return (event.clientX - box.left) / box.width;
  };
  root.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) {
      event.preventDefault();
      const turn = event.deltaY || event.deltaX;
      zoom(Math.exp(-Math.sign(turn) * 0.25), place(event));
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      move(event.deltaX / root.clientWidth);
    }
  }, { passive: false });
  root.addEventListener("dblclick", (event) => zoom(2, place(event)));

  const down = new Map();
  root.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    down.set(event.pointerId, place(event));
    root.setPointerCapture(event.pointerId);
    root.classList.add("drag");
  });
  root.addEventListener("pointermove", (event) => {
    const before = down.get(event.pointerId);
    if (before === undefined) return;
    const now = place(event);
    if (down.size === 1) {
      move(before - now);
    } else {
      const other = Array.from(down).find(([id]) => id !== event.pointerId)[1];
      const apart = Math.abs(before - other);
      if (apart > 0.01) zoom(Math.max(0.2, Math.abs(now - other) / apart), (now + other) / 2);
    }
    down.set(event.pointerId, now);
  });
  const up = (event) => {
    down.delete(event.pointerId);
    if (down.size === 0) root.classList.remove("drag");
  };
  root.addEventListener("pointerup", up);
  root.addEventListener("pointercancel", up);
  window.addEventListener("resize", show);
  root.classList.add("live");
  tools.classList.add("live");
  show();
})();
