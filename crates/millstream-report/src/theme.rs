//! Colours and style sheets, for light and dark, of pages and of pictures on their own.
//!
//! One hue means ours, everywhere; rivals are grey, limits are ink, and only verdicts are green or
//! red. A shape or a word always says the same as its colour.

/// The colours, as custom properties; the reader's system chooses between light and dark.
pub(crate) const COLOURS: &str = "
:root{color-scheme:light dark;
--paper:#fcfcfa;--card:#fff;--ink:#1b1d20;--soft:#5a6068;--rule:#dcdeda;--faint:#eef0ec;
--ours:#1c5fb0;--rival:#a3a9af;--good:#17784a;--bad:#b02e26;--warn:#8f5d00;
--s1:#b7701c;--s2:#2f7f79;--s3:#8a4f9e;--s4:#6c757d;--s5:#a0433d;--s6:#5f7a2c}
@media (prefers-color-scheme:dark){:root{
--paper:#141619;--card:#1a1d21;--ink:#e5e6e3;--soft:#a3a9b0;--rule:#363b41;--faint:#23272c;
--ours:#6faaf0;--rival:#737b83;--good:#5ac48a;--bad:#f08a80;--warn:#e0b458;
--s1:#e0a35c;--s2:#68bdb5;--s3:#c193d3;--s4:#9aa3ab;--s5:#e08e88;--s6:#a9c46c}}
";

/// The shapes of pictures.
pub(crate) const PICTURE: &str = "
.picture{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;
font-variant-numeric:tabular-nums}
.paper{fill:var(--paper)}
.picture text{fill:var(--ink);font-size:12px}
.picture .title{font-size:13px;font-weight:600}
.picture .tick,.picture .note{fill:var(--soft);font-size:10.5px}
.picture .strong{font-weight:600}
.picture .in-cell{font-size:9.5px}
.picture .in-full{font-size:9.5px;fill:var(--paper)}
.grid{stroke:var(--rule);stroke-width:.7;fill:none}
.axis{stroke:var(--soft);stroke-width:1;fill:none}
.bar-ours,.heat,.dot-ours{fill:var(--ours)}
.bar-rival,.dot-rival{fill:var(--rival)}
.bar-limit,.dot-limit{fill:var(--ink)}
.whisker{stroke:var(--ink);stroke-width:1.2;fill:none}
.outline{stroke:var(--ink);stroke-width:2;fill:none;stroke-linejoin:round}
.no-cell{fill:var(--faint)}
.good{fill:var(--good)}.bad{fill:var(--bad)}.level{fill:var(--rival)}
.median{stroke:var(--ink);stroke-width:2.4;fill:none}
.range{stroke:var(--soft);stroke-width:1.2;fill:none}
.interval{fill:var(--rival);fill-opacity:.45}.interval-ours{fill:var(--ours);fill-opacity:.4}
.one{stroke:var(--ink);stroke-width:1;stroke-dasharray:2 3;fill:none}
.line-ours{stroke:var(--ours);stroke-width:2.6;fill:none;stroke-linejoin:round}
.line-limit{stroke:var(--ink);stroke-width:1.4;stroke-dasharray:4 3;fill:none}
.l1{stroke:var(--s1)}.l2{stroke:var(--s2)}.l3{stroke:var(--s3)}
.l4{stroke:var(--s4)}.l5{stroke:var(--s5)}.l6{stroke:var(--s6)}
.l1,.l2,.l3,.l4,.l5,.l6{stroke-width:1.4;fill:none;stroke-linejoin:round}
.f1{fill:var(--s1)}.f2{fill:var(--s2)}.f3{fill:var(--s3)}
.f4{fill:var(--s4)}.f5{fill:var(--s5)}.f6{fill:var(--s6)}
.device{fill:var(--ours)}.worker{fill:var(--s2)}.queue{fill:var(--s3)}
.both{fill:var(--good)}.idle{fill:var(--bad)}.unasked{fill:var(--faint);stroke:var(--rule)}
.some{fill:var(--s1)}
.memory{stroke:var(--s1);stroke-width:1.3;fill:none;vector-effect:non-scaling-stroke}
.flight{stroke:var(--ours);stroke-width:1.3;stroke-dasharray:5 3;
fill:none;vector-effect:non-scaling-stroke}
";

/// The page around the pictures.
pub(crate) const PAGE: &str = "
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0 auto;padding:20px 16px 48px;max-width:1120px;background:var(--paper);
color:var(--ink);font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;
font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
h1{font-size:1.6rem;line-height:1.2;margin:.2em 0 .4em}
h2{font-size:1.2rem;margin:2.2em 0 .5em;padding-top:.7em;border-top:1px solid var(--rule)}
h3{font-size:1rem;margin:1.4em 0 .4em}
p{margin:.5em 0;max-width:46em}
a{color:var(--ours)}
nav{display:flex;flex-wrap:wrap;gap:.2em 1.1em;margin:.8em 0;font-size:.9rem}
.lead{font-size:1.1rem}
.soft,figcaption,caption{color:var(--soft)}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,430px),1fr));
gap:14px;margin:12px 0;align-items:start}
figure{margin:0;padding:10px 10px 6px;background:var(--card);border:1px solid var(--rule);
border-radius:6px;min-width:0}
.wide{max-width:620px;margin:12px 0}
figcaption{font-size:.82rem;margin-top:4px}
.picture{display:block;width:100%;height:auto}
.scroll{overflow-x:auto;max-width:100%;margin:.6em 0}
table{border-collapse:collapse;font-size:.86rem;line-height:1.35}
caption{text-align:left;font-size:.85rem;padding-bottom:.3em}
th,td{text-align:left;padding:.28em .9em .28em 0;border-bottom:1px solid var(--rule);
vertical-align:top;overflow-wrap:normal}
th{font-weight:600;color:var(--soft)}
td.n,th.n{text-align:right;white-space:nowrap}
tr.ours td:first-child{color:var(--ours);font-weight:600}
tr.limit td:first-child{font-style:italic}
td.name{min-width:8em}td.words{min-width:13em}
.ahead,.reached{color:var(--good);font-weight:600}.behind,.missed{color:var(--bad);font-weight:600}
.doubt{color:var(--warn)}
details{border-bottom:1px solid var(--rule)}
details>summary{cursor:pointer;padding:.45em 0}
details[open]>summary{font-weight:600}
summary small{color:var(--soft);font-weight:400;font-size:.85rem}
dl{display:grid;grid-template-columns:minmax(6.5em,max-content) 1fr;gap:.15em 1em;font-size:.9rem}
dt{color:var(--soft)}dd{margin:0;min-width:0}
ul{padding-left:1.2em}
:focus-visible{outline:2px solid var(--ours);outline-offset:2px}
";

/// What only the page of a trace has.
pub(crate) const TIMELINE: &str = "
#timeline{position:relative;border:1px solid var(--rule);border-radius:6px;background:var(--card);
padding:0 0 24px;overflow:hidden;touch-action:pan-y;user-select:none;-webkit-user-select:none}
#timeline.live{cursor:grab}#timeline.drag{cursor:grabbing}
.lane{position:relative;border-bottom:1px solid var(--rule)}
.lane svg{display:block;width:100%}
.lane b{position:absolute;left:6px;top:2px;font-size:.75rem;font-weight:600;pointer-events:none;
background:var(--card);padding:0 4px;border-radius:3px;opacity:.9;max-width:95%;
white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
.lane svg rect{stroke:var(--card);stroke-width:.6;vector-effect:non-scaling-stroke}
.lane svg rect.flat{stroke:none}
.ruler{position:absolute;left:0;right:0;bottom:0;height:24px;font-size:.72rem;
color:var(--soft)}
.ruler span{position:absolute;bottom:3px;transform:translateX(-50%);white-space:nowrap}
.ruler span:first-child{transform:none;padding-left:4px}
.ruler span.end{transform:translateX(-100%);padding-right:4px}
.tools{display:none;gap:.5em;flex-wrap:wrap;align-items:center;margin:.5em 0}
.tools.live{display:flex}
button{font:inherit;color:inherit;background:var(--card);border:1px solid var(--rule);
border-radius:5px;min-width:2.6em;min-height:2.2em;cursor:pointer}
.key{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.35em}
.keys{display:flex;flex-wrap:wrap;gap:.2em 1.2em;font-size:.85rem;list-style:none;padding:0;
margin:.4em 0}
.key.k-device{background:var(--ours)}.key.k-both{background:var(--good)}
.key.k-worker{background:var(--s2)}.key.k-some{background:var(--s1)}
.key.k-idle{background:var(--bad)}.key.k-unasked{background:var(--faint);
border:1px solid var(--rule)}.key.k-queue{background:var(--s3)}
.lane .area{opacity:.75}.lane .back{fill:var(--bad);fill-opacity:.16;stroke:none}
";
