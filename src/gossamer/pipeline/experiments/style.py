"""The style sheet of the report: light or dark as the reader prefers, and for print."""

STYLE = """
:root { --paper: #fdfdfb; --ink: #23262b; --soft: #6b7078; --line: #e2e2dc; --card: #ffffff;
  --holds: #1f7a4a; --fails: #b3261e; --open: #8a6100; --link: #1f5fae; }
@media (prefers-color-scheme: dark) { :root { --paper: #16181c; --ink: #e4e6ea; --soft: #9aa0a9; --line: #30343b;
  --card: #1d2025; --holds: #5cc98f; --fails: #ff8a80; --open: #e6b84d; --link: #86b7f5; } }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 "Iowan Old Style", "Palatino Linotype", Palatino, Georgia, serif; }
main { max-width: 62rem; margin: 0 auto; padding: 3rem 1.5rem 5rem; }
h1, h2, th, .kicker, .tile, .badge, summary, figcaption, footer, svg text, table { font-family:
  -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 2.3rem; line-height: 1.15; margin: .2rem 0 .6rem; letter-spacing: -.02em; }
h2 { font-size: 1.45rem; margin: .1rem 0 .4rem; letter-spacing: -.01em; }
a { color: var(--link); text-decoration: none; } a:hover { text-decoration: underline; }
.kicker { margin: 0; color: var(--soft); font-size: .78rem; letter-spacing: .06em; }
.lead { font-size: 1.15rem; color: var(--soft); max-width: 44rem; }
.question { font-size: 1.12rem; font-style: italic; max-width: 46rem; }
section { margin-top: 3.2rem; padding-top: 1.4rem; border-top: 1px solid var(--line); }
section > p { max-width: 46rem; }
.tiles { display: flex; flex-wrap: wrap; gap: .8rem; margin-top: 1.4rem; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: .7rem 1.1rem;
  min-width: 7rem; }
.tile b { display: block; font-size: 1.7rem; line-height: 1.1; } .tile span { color: var(--soft); font-size: .82rem; }
.tile.holds b, .holds > .badge, span.holds { color: var(--holds); } .tile.fails b, span.fails { color: var(--fails); }
.tile.open b, span.open { color: var(--open); }
.badge { display: inline-block; font-size: .78rem; font-weight: 600; padding: .05rem .55rem; border-radius: 99px;
  border: 1px solid currentColor; white-space: nowrap; }
.badge.holds { color: var(--holds); } .badge.fails { color: var(--fails); } .badge.open { color: var(--open); }
.place { color: var(--soft); font-size: .84rem; }
figure { margin: 0; max-width: 46rem; background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: .6rem .8rem 1rem; }
figure svg { display: block; width: 100%; height: auto; color: var(--ink); }
figcaption { font-size: .86rem; color: var(--soft); line-height: 1.4; padding: 0 .5rem; }
  figcaption b { color: var(--ink); }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 1rem;
  margin: 1.4rem 0; }
.claim { border-left: 4px solid var(--line); padding: .1rem 0 .1rem 1rem; margin: 1.1rem 0; }
.claim.holds { border-color: var(--holds); } .claim.fails { border-color: var(--fails); }
  .claim.open { border-color: var(--open); }
.says { margin: .1rem 0 .3rem; } .paper, .finding { margin: .2rem 0; font-size: .95rem; max-width: 46rem; }
.finding { color: var(--soft); }
table { border-collapse: collapse; font-size: .82rem; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--soft); }
th, td { padding: .28rem .6rem .28rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n, th.n { text-align: right; white-space: nowrap; } td.place { white-space: nowrap; }
.overview td { font-size: .9rem; }
.scroll { overflow-x: auto; }
summary { cursor: pointer; color: var(--soft); font-size: .84rem; margin: .3rem 0; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .7rem .9rem;
  overflow-x: auto;
  font: .8rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
code { font: .8rem ui-monospace, Menlo, Consolas, monospace; }
footer { margin-top: 4rem; color: var(--soft); font-size: .8rem; }
@media print { :root { --paper: #fff; --ink: #000; --card: #fff; --soft: #444; --line: #ccc; }
  body { font-size: 10.5pt; } main { max-width: none; padding: 0; } .settings { display: none; }
  section { break-before: auto; } figure, .claim, tr { break-inside: avoid; } a { color: inherit; }
  details::details-content { content-visibility: visible; display: block; } }
"""
