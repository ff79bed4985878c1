#include "launcher/report/style.h"

namespace dlrun {

namespace {

// Eight colours that colour-blind readers can distinguish, too; the first four are by Okabe and
// Ito. A dark background has lighter colours in the same order.
constexpr std::string_view kStyle =
    R"css(
:root{--paper:#fff;--card:#f7f8fa;--ink:#1d2530;--soft:#5c6875;--line:#dfe3e8;--good:#1a7f4b;
--bad:#c0392b;--warn:#a86200;
--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#cc79a7;--c4:#b8860b;--c5:#3a9bd6;--c6:#7a5195;
--c7:#6b7280}
@media(prefers-color-scheme:dark){:root{--paper:#14181d;--card:#1c222a;--ink:#e4e9ef;
--soft:#9aa6b3;--line:#303944;--good:#4cc38a;
--bad:#ff7b6b;--warn:#f0b04f;--c0:#56b4e9;--c1:#f28e4b;--c2:#2fc79a;--c3:#e39bc5;--c4:#e6c34a;
--c5:#8fd0f5;--c6:#b79ad6;--c7:#a3adba}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
-webkit-text-size-adjust:100%}
main{max-width:1120px;margin:0 auto;padding:28px 20px 48px}
h1{font-size:26px;line-height:1.25;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:17px;margin:34px 0 12px;padding-bottom:5px;border-bottom:1px solid var(--line)}
p{margin:0 0 10px}
code,pre,.mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
font-size:13px}
.soft{color:var(--soft)}
.state{display:inline-block;padding:1px 10px;border-radius:20px;font-size:14px;font-weight:600;
border:1px solid;vertical-align:3px;white-space:nowrap}
.good{color:var(--good)}.bad{color:var(--bad)}.warn{color:var(--warn)}
.note{border-left:3px solid var(--warn);background:var(--card);padding:8px 12px;margin:0 0 8px;
overflow-wrap:anywhere}
.note.bad{border-color:var(--bad);color:var(--ink)}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:10px;
margin:18px 0 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:9px 12px;
min-width:0}
.tile b{display:block;font-size:20px;font-weight:600;line-height:1.3;overflow-wrap:anywhere;
font-variant-numeric:tabular-nums}
.tile span{color:var(--soft);font-size:13px}
dl{display:grid;grid-template-columns:minmax(110px,max-content) 1fr;gap:4px 18px;margin:0}
dt{color:var(--soft)}
dd{margin:0;overflow-wrap:anywhere;min-width:0}
.charts{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:22px 28px}
figure{margin:0;min-width:0}
figcaption{display:flex;flex-wrap:wrap;align-items:baseline;gap:0 10px;margin:0 0 4px}
.unit,.keys{color:var(--soft);font-size:13px}
.key{white-space:nowrap;margin-right:12px}
.key i,.swatch{display:inline-block;width:14px;height:3px;border-radius:2px;margin-right:6px;
vertical-align:4px}
svg{display:block;width:100%;height:auto}
svg text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,Arial,sans-serif;fill:var(--soft);
font-variant-numeric:tabular-nums}
svg .end{text-anchor:end}svg .mid{text-anchor:middle}
svg .grid{stroke:var(--line)}svg .base,svg .tick{stroke:var(--soft)}
svg .mark{stroke:var(--soft);stroke-dasharray:3 3}
svg polyline{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}
svg .band{opacity:.18;stroke:none}
.c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.c3{stroke:var(--c3)}
.c4{stroke:var(--c4)}.c5{stroke:var(--c5)}.c6{stroke:var(--c6)}.c7{stroke:var(--c7)}
.f0{fill:var(--c0)}.f1{fill:var(--c1)}.f2{fill:var(--c2)}.f3{fill:var(--c3)}.f4{fill:var(--c4)}
.f5{fill:var(--c5)}.f6{fill:var(--c6)}.f7{fill:var(--c7)}
.b0{background:var(--c0)}.b1{background:var(--c1)}.b2{background:var(--c2)}
.b3{background:var(--c3)}.b4{background:var(--c4)}.b5{background:var(--c5)}
.b6{background:var(--c6)}.b7{background:var(--c7)}
.key i.box{height:11px;vertical-align:-1px;background:var(--c0);opacity:.9}
.key i.box.wait{opacity:.35}.key i.box.isagain{background:var(--c6)}
.key i.box.isgood{background:var(--good)}.key i.box.isbad{background:var(--bad)}
.key i.bar{width:2px;height:13px;vertical-align:-2px;border-radius:0;background:var(--bad)}
p.keys{margin:0 0 8px}
pre.output{margin:-4px 0 10px;white-space:pre-wrap;overflow-wrap:anywhere}
.scroll{overflow-x:auto;margin:0 -2px 10px;padding:0 2px}
table{border-collapse:collapse;font-size:14px;min-width:60%;font-variant-numeric:tabular-nums}
th{text-align:left;font-weight:600;color:var(--soft);vertical-align:bottom}
th,td{padding:4px 18px 4px 0;border-bottom:1px solid var(--line)}
td{vertical-align:top}
td.n,th.n{text-align:right}td.n{white-space:nowrap}
td.t{white-space:nowrap}
tr:last-child td{border-bottom:0}
td.w{overflow-wrap:anywhere;min-width:180px}
.time{margin:2px 0 0}
.row{display:grid;grid-template-columns:92px 1fr;gap:12px;align-items:center;margin:0 0 8px}
.name{white-space:nowrap;font-size:14px}
.track{position:relative;height:24px;background:var(--card);border-radius:5px}
.span{position:absolute;top:0;bottom:0;min-width:2px;border-radius:5px;background:var(--c0);
opacity:.9}
.span.wait{opacity:.35}
.span.isagain{background:var(--c6)}.span.isgood{background:var(--good)}
.span.isbad{background:var(--bad)}
.pin{position:absolute;top:-3px;bottom:-3px;width:2px;background:var(--ink)}
.pin.bad{background:var(--bad)}
.scale{position:relative;height:20px;font-size:12px;color:var(--soft)}
.scale span{position:absolute;transform:translateX(-50%);white-space:nowrap}
.scale span:first-child{transform:none}.scale span:last-child{transform:translateX(-100%)}
details{margin:8px 0}
summary{cursor:pointer;color:var(--soft)}
pre{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px;
overflow-x:auto;line-height:1.45;margin:8px 0 0}
footer{margin-top:40px;color:var(--soft);font-size:13px}
@media(max-width:760px){main{padding:18px 14px 36px}.charts{grid-template-columns:minmax(0,1fr)}
h1{font-size:21px}
.tiles{grid-template-columns:repeat(2,minmax(0,1fr))}.row{grid-template-columns:70px 1fr;gap:8px}
dl{grid-template-columns:minmax(0,1fr);gap:0}dd{margin-bottom:7px}
svg text{font-size:14px}}
@media print{main{max-width:none;padding:0}.tile,figure{break-inside:avoid}}
)css";

}  // namespace

std::string_view page_style() {
  return kStyle;
}

}  // namespace dlrun
