//! Attacks by single calls of natives: they write, compare, sort and search values that are small in memory
//! but huge when traversed, and cyclic values.
//!
//! In each, `s` is a text of 4 MB and `all` is an array of 90,000 references to it.

use super::{BUDGET, Comes, DEPTH, Hostile, LENGTH, SIZE};
use Comes::{Breaks, Ends, NotLoaded, Refuses, ToolFails, Well};
use std::time::Duration;

/// The word in the log: whichever limit is reached first, the log names the script.
const LIMITS: &[&str] = &["hostile"];

const LARGE: &str = "let s = \"\"; s.pad(4_000_000, \"a\");";
const ALL: &str = "let all = []; all.pad(90_000, 0); for i in 0..90_000 { all[i] = s; }";
const KEYS: &str = "let keys = #{}; for i in 0..9_000 { keys[`k${i}`] = s; }";

/// Bodies of `inlet(body, state, __metadata__)`.
const INLETS: &[(&str, &str, Comes)] = &[
    // Texts that grow in a single call.
    ("replace each letter by all", "let t = s; t.replace(\"a\", t);", Ends(LIMITS)),
    ("replace a char by all", "let t = s; t.replace('a', t);", Ends(LIMITS)),
    ("replace nothing by all", "let t = s; t.replace(\"\", t);", Ends(LIMITS)),
    ("replace by a thousand", "let r = \"\"; r.pad(1_000, \"b\"); s.replace(\"a\", r);", Ends(LIMITS)),
    (
        "replace in a message",
        "body.messages[0].content = s; body.messages[0].content.replace(\"a\", s);",
        Ends(LIMITS),
    ),
    (
        "replace in the text of a message",
        "body.messages[0].text = s; body.messages[0].text.replace(\"\", \"bbbbbbbbbbbbbbbb\");",
        Ends(LIMITS),
    ),
    (
        "capitals of three letters",
        "let t = \"\"; t.pad(1_900_000, \"ΐ\"); for i in 0..50 { t.to_upper(); } t.make_upper();",
        Ends(LIMITS),
    ),
    (
        "escapes upon escapes",
        "let q = \"\"; q.pad(4_000_000, \"\\u0001\"); q.to_debug(); debug(q); json::stringify([q]);",
        Ends(LIMITS),
    ),
    ("add a text to itself, live", "body.t = s; for i in 0..50 { body.t + body.t; }", Ends(LIMITS)),
    ("remove from a text", "loop { let t = s; t -= \"a\"; t.remove(\"a\"); s - s; }", Ends(LIMITS)),
    (
        "system messages that add up",
        "for i in 0..50 { body.messages.append_system(s); body.messages.prepend_system(s); }",
        Ends(LIMITS),
    ),
    (
        "system set for thousands",
        "for i in 0..9_000 { body.messages.push(#{ role: \"system\", content: s }); } body.messages.system = s; body.messages.append_system(s);",
        Ends(LIMITS),
    ),
    // The text form of values with many references to one value.
    ("interpolate references", "ALL `${all}`;", Ends(LIMITS)),
    ("to_string of references", "ALL all.to_string();", Ends(LIMITS)),
    ("debug references", "ALL debug(all); all.to_debug();", Ends(LIMITS)),
    ("print references", "ALL print(all);", Ends(LIMITS)),
    ("append references to a text", "ALL let t = \"\"; t += all; t.append(all);", Ends(LIMITS)),
    ("references plus a text", "ALL all + \"\"; \"\" + all;", Ends(LIMITS)),
    ("a workbook of references", "ALL xlsx::write([all]); xlsx::write([[all]]);", Ends(LIMITS)),
    (
        "a workbook with columns of references",
        "ALL xlsx::write([#{ a: 1 }], #{ columns: all });",
        Ends(LIMITS),
    ),
    ("a table of references", "ALL csv::write([all]); csv::write([[all]]);", Ends(LIMITS)),
    ("a table with columns of references", "ALL csv::write([#{ a: 1 }], #{ columns: all });", Ends(LIMITS)),
    ("claims of keys", "KEYS jwt::sign(keys, \"s\", #{ algorithm: \"HS256\" });", Ends(LIMITS)),
    ("throw references", "ALL throw all;", Ends(LIMITS)),
    ("deny with references", "ALL deny(all);", Ends(LIMITS)),
    ("answer an error of references", "ALL return error(all);", Ends(LIMITS)),
    ("log references", "ALL log::debug(all); log::info(all); log::warn(all); log::error(all);", Ends(LIMITS)),
    (
        "catch references",
        "ALL for i in 0..9 { try { throw all; } catch (e) { e.message; `${e}`; } }",
        Ends(LIMITS),
    ),
    ("throw keys", "KEYS throw keys;", Ends(LIMITS)),
    ("keys as JSON", "KEYS keys.to_json();", Ends(LIMITS)),
    ("throw a message of keys", "KEYS throw #{ status: 429, message: keys };", Ends(LIMITS)),
    ("skip with references", "ALL skip(all);", Ends(LIMITS)),
    (
        "references of references",
        "ALL let b = []; b.pad(1_000, 0); for i in 0..1_000 { b[i] = all; } `${b}`;",
        Ends(LIMITS),
    ),
    (
        "doubles sixty times by index",
        "let a = [0]; for i in 0..60 { let b = [0, 0]; b[0] = a; b[1] = a; a = b; } `${a}`;",
        Ends(LIMITS),
    ),
    (
        "doubles sixty times by property",
        "let a = #{}; for i in 0..60 { let b = #{}; b.x = a; b.y = a; a = b; } a.to_json();",
        Ends(LIMITS),
    ),
    (
        "doubles through captures",
        "let a = [1]; for i in 0..60 { let b = a; let f = || b; a = [f, f]; } `${a}`; a == a;",
        Ends(LIMITS),
    ),
    (
        "blobs as text",
        "let b = blob(4_000_000, 97); let a = []; a.pad(9_000, 0); for i in 0..9_000 { a[i] = b; } `${b}`; `${a}`;",
        Ends(LIMITS),
    ),
    // Plain values that become live ones.
    ("keys into the body", "KEYS body += keys;", Ends(LIMITS)),
    ("keys mixed into the body", "KEYS body.mixin(keys); body.fill_with(keys);", Ends(LIMITS)),
    ("keys into the state", "KEYS state.k = keys; __metadata__.k = keys;", Ends(LIMITS)),
    ("references into messages", "ALL body.messages += all;", Ends(LIMITS)),
    ("references appended to messages", "ALL body.messages.append(all);", Ends(LIMITS)),
    ("references spliced into messages", "ALL body.messages.splice(0, 0, all);", Ends(LIMITS)),
    (
        "live and plain compared",
        "ALL body.l = []; for i in 0..5_000 { body.l.push(0); } for i in 0..5_000 { body.l[i] = s; } loop { body.l == all; all == body.l; body.l in [all]; }",
        Ends(LIMITS),
    ),
    // Values that are compared, hashed, sorted and searched.
    (
        "switch over a closure of references",
        "ALL let f = || all; switch f { 1 => 2, _ => 3 }; switch [f] { 1 => 2, _ => 3 };",
        Ends(LIMITS),
    ),
    ("switch over references", "ALL switch all { 1 => 2, _ => 3 };", Ends(LIMITS)),
    ("switch over keys", "KEYS for i in 0..100 { switch keys { 1 => 2, _ => 3 }; }", Ends(LIMITS)),
    (
        "switch over texts in a case",
        "let t = s + \"b\"; for i in 0..90_000 { switch t { \"a\" => 1, _ => 2 } }",
        Ends(LIMITS),
    ),
    ("sort references", "ALL all.sort();", Ends(LIMITS)),
    (
        "sort two texts",
        "ALL let t = \"\"; t.pad(4_000_000, \"a\"); for i in 0..45_000 { all[i * 2] = t; } all.sort(); all.sort_desc();",
        Ends(LIMITS),
    ),
    ("order references", "ALL all.order(); all.order_desc();", Ends(LIMITS)),
    (
        "dedup references",
        "ALL let t = \"\"; t.pad(4_000_000, \"a\"); for i in 0..45_000 { all[i * 2] = t; } all.dedup();",
        Ends(LIMITS),
    ),
    (
        "equal but not the same",
        "ALL let t = \"\"; t.pad(4_000_000, \"a\"); let b = []; b.pad(90_000, 0); for i in 0..90_000 { b[i] = t; } all == b;",
        Ends(LIMITS),
    ),
    (
        "maps equal but not the same",
        "KEYS let t = \"\"; t.pad(4_000_000, \"a\"); let b = #{}; for i in 0..9_000 { b[`k${i}`] = t; } keys == b; keys != b;",
        Ends(LIMITS),
    ),
    (
        "search what is nearly there",
        "ALL let t = \"\"; t.pad(3_999_999, \"a\"); t += \"b\"; all.index_of(t); all.contains(t); t in all;",
        Ends(LIMITS),
    ),
    ("sort by a name of 4 MB", "let a = []; a.pad(90_000, 1); a.sort(s);", Ends(LIMITS)),
    (
        "map by a name of 4 MB",
        "let a = []; a.pad(90_000, 1); for n in [1, 2, 3] { try { a.map(s); } catch {} try { a.filter(s); } catch {} try { a.dedup(s); } catch {} }",
        Ends(LIMITS),
    ),
    (
        "sort by chance",
        "let a = []; a.pad(90_000, 1); a.sort(|x, y| if random::int(0, 1) == 0 { -1 } else { 1 });",
        Ends(LIMITS),
    ),
    ("sort by throwing", "let a = []; a.pad(90_000, 1); loop { a.sort(|x, y| throw s); }", Ends(LIMITS)),
    (
        "sort by a growing text",
        "let a = []; a.pad(90_000, 1); let t = \"\"; a.sort(|x, y| { t += s; 1 });",
        Ends(LIMITS),
    ),
    (
        "sort within sort",
        "let f = |f| { let a = [2, 1, 3]; a.sort(|x, y| { f.call(f); 1 }); 1 }; f.call(f);",
        Ends(LIMITS),
    ),
    (
        "sort what is emptied meanwhile",
        "body.a = [3, 2, 1, 4]; let a = body.a; a.sort(|x, y| { body.a.clear(); body.a.push(body.a.len()); 1 });",
        Ends(LIMITS),
    ),
    (
        "order that never holds",
        "let a = []; for i in 0..5_000 { a.push(0.0 / 0.0); a.push(i); a.push(`${i}`); } loop { a.sort(|x, y| 1); a.sort(|x, y| -1); }",
        Ends(LIMITS),
    ),
    // Callbacks.
    (
        "reduce to ever more",
        "let a = []; a.pad(90_000, 0); a.reduce(|t, x| if t == () { [x] } else { t + t });",
        Ends(LIMITS),
    ),
    (
        "reduce to ever deeper",
        "let a = []; a.pad(90_000, 0); let deep = a.reduce(|t, x| [t, t]); `${deep}`;",
        Ends(LIMITS),
    ),
    (
        "filter that asks for the whole text",
        "ALL let b = all; all.filter(|x| `${b}`.len() > 0);",
        Ends(LIMITS),
    ),
    ("find that never ends", "ALL all.find(|x| { loop {} });", Ends(LIMITS)),
    (
        "drain while it grows",
        "body.a = [1, 2, 3]; let a = body.a; a.drain(|x| { body.a.push(x); false }); loop { a.retain(|x| { body.a.insert(0, 1); true }); }",
        Ends(LIMITS),
    ),
    ("zip with all", "ALL let b = all; all.zip(b, |x, y| [x, y, x + y]);", Ends(LIMITS)),
    ("replace by what a closure grows", "regex::replace(s, \"a\", |g| s);", Ends(LIMITS)),
    (
        "a window with a closure without end",
        "stream::window(#{}, #{ text: s }, 4, |a, b| { loop {} }, 1);",
        Ends(LIMITS),
    ),
    ("update by a closure that holds all", "ALL kv::update(\"k\", |old| all);", Ends(LIMITS)),
    (
        "recursion through three natives",
        "let f = |f| [1].map(|x| [1].filter(|y| regex::replace(\"a\", \"a\", |g| f.call(f)))); f.call(f);",
        Ends(LIMITS),
    ),
    // Disabled functions by other names, and function values.
    ("sleep by a name put together", "Fn(\"sl\" + \"eep\").call(60);", Breaks(&["sleep"])),
    ("eval by a name put together", "Fn(\"ev\" + \"al\").call(\"loop {}\");", Ends(LIMITS)),
    ("a name of 4 MB", "let f = Fn(s); `${f}`; f.call(1);", Ends(LIMITS)),
    ("curry without end", "ALL let f = |x| x; loop { f = f.curry(all); `${f}`; }", Ends(LIMITS)),
    ("functions listed without end", "loop { `${get_fn_metadata_list()}`; }", Ends(LIMITS)),
    // Regular expressions.
    (
        "a pattern that counts",
        "let t = \"\"; for i in 0..5_000 { t += if random::int(0, 1) == 0 { \"a\" } else { \"b\" }; } let u = \"\"; u.pad(4_000_000, t); regex::is_match(u, \"[ab]*a[ab]{2000}c\");",
        Ends(LIMITS),
    ),
    (
        "a pattern that counts, captured",
        "let t = \"\"; for i in 0..5_000 { t += if random::int(0, 1) == 0 { \"a\" } else { \"b\" }; } let u = \"\"; u.pad(4_000_000, t); regex::captures(u, \"([ab]*)a([ab]{900})c\");",
        Ends(LIMITS),
    ),
    (
        "a pattern that counts, split",
        "let t = \"\"; for i in 0..5_000 { t += if random::int(0, 1) == 0 { \"a\" } else { \"b\" }; } let u = \"\"; u.pad(4_000_000, t); regex::split(u, \"([ab]*)a([ab]{900})c\"); regex::find_all(u, \"([ab]*)a([ab]{900})c\");",
        Ends(LIMITS),
    ),
    ("a pattern of nested repeats", "regex::replace(s, \"(a{1,300}){1,30}b|c\", \"$1\");", Ends(LIMITS)),
    (
        "a pattern of nested repeats, found",
        "regex::find(s, \"(a{1,300}){1,30}b|c\"); regex::find_all(s, \"(a{1,300}){1,30}b|c\");",
        Ends(LIMITS),
    ),
    ("a pattern of 4 MB", "regex::is_match(\"a\", s);", Ends(LIMITS)),
    (
        "a pattern of many groups",
        "let p = \"\"; p.pad(60_000, \"(a)\"); let t = \"\"; t.pad(20_000, \"ab \"); regex::captures(t, p);",
        Ends(LIMITS),
    ),
    (
        "patterns without number",
        "let i = 0; loop { try { regex::is_match(s, `(a|b){${i % 900}}c${i}`); } catch {} i += 1; }",
        Ends(LIMITS),
    ),
    (
        "a pattern that matches nothing everywhere",
        "regex::replace(s, \"\", s); regex::split(s, \"(?m)$|^\"); regex::find_all(s, \"\");",
        Ends(LIMITS),
    ),
    (
        "patterns in all letters there are",
        "regex::find_all(s, \"(?i)\\\\p{L}+\\\\p{Lu}{50}$\"); regex::is_match(s, \"\\\\w{900}\\\\W\");",
        Ends(LIMITS),
    ),
    ("an escaped text as pattern", "regex::is_match(s, regex::escape(s));", Ends(LIMITS)),
    // Splitting.
    ("pieces of one letter", "s.split(\"\"); s.split('a'); s.split(\"a\"); s.split();", Ends(LIMITS)),
    ("pieces of one letter, from behind", "s.split_rev(\"a\"); s.split_rev('a', 90_000);", Ends(LIMITS)),
    ("letters of a text", "loop { s.to_chars(); }", Ends(LIMITS)),
    (
        "words and lines",
        "let t = \"\"; t.pad(4_000_000, \"a \\n\"); loop { text::words(t); text::lines(t); }",
        Ends(LIMITS),
    ),
    ("bytes of a text", "loop { let b = s.to_blob(); b.as_string(); b.to_array(); b += b; }", Ends(LIMITS)),
    (
        "bytes in each other",
        "let b = blob(4_000_000, 1); loop { b == b; b.reverse(); b.splice(0, 1, b); b.truncate(4_000_000); }",
        Ends(LIMITS),
    ),
    (
        "bytes written beyond their end",
        "let b = blob(4_000_000, 1); loop { b.write_utf8(0..9223372036854775807, s); b.parse_le_int(-9223372036854775808, 9); b.extract(0..9223372036854775807); }",
        Ends(LIMITS),
    ),
    // Ranges and times.
    (
        "ranges of ranges",
        "for i in 0..=9223372036854775807 { for j in range(0.0, 1.0e300, 1.0e-300) { } }",
        Ends(LIMITS),
    ),
    (
        "a range as a set",
        "let r = 0..9223372036854775807; loop { r.contains(9223372036854775806); 5.5 in r; `${r}`; [r, r] == [r, r]; }",
        Ends(LIMITS),
    ),
    (
        "time without end",
        "let t = timestamp(); loop { try { t + 1.0e300; } catch {} try { t - 9223372036854775807; } catch {} `${t}`; t == t; }",
        Ends(LIMITS),
    ),
    // Cyclic values.
    ("a map that holds itself, as JSON", "let a = #{}; a.f = || a; #{ a: a }.to_json();", Ends(LIMITS)),
    (
        "two maps that hold each other, as JSON",
        "let a = #{}; let b = #{}; a.f = || b; b.f = || a; a.to_json();",
        Ends(LIMITS),
    ),
    (
        "what holds itself, compared and copied",
        "let a = #{}; a.f = || a; let b = #{}; b.f = || b; try { a == b; } catch {} try { [a, b].sort(); } catch {} `${a}`; switch a { 1 => 2, _ => 3 }; let c = a.copy(); debug(c);",
        Ends(LIMITS),
    ),
    (
        "an array that holds itself, put into the body",
        "let a = [1]; let f = || a; a.push(f); body.a = a;",
        Ends(LIMITS),
    ),
    ("what holds itself is thrown", "let m = #{ message: \"m\", s: s }; m.f = || m; throw m;", Refuses(400)),
    ("nested texts in texts", "let t = s; for i in 0..20 { t = `${`${`${t}`}`}${i}`; }", Ends(LIMITS)),
    (
        "a text that calls for itself",
        "let f = |f, t| `a${f.call(f, t + t)}`; f.call(f, \"a\");",
        Breaks(&[DEPTH, BUDGET[0], BUDGET[1], BUDGET[2], SIZE]),
    ),
];

/// Complete files.
const FILES: &[(&str, &str, Comes)] = &[
    (
        "pipes that replace",
        "fn pipes() { LARGE s.replace(\"a\", s); [\"a\"] }\nfn pipe(body) { \"a\" }\nfn inlet(body) { body }",
        NotLoaded(&["hostile"]),
    ),
    (
        "pipes of references",
        "fn pipes() { LARGE ALL `${all}`; [\"a\"] }\nfn pipe(body) { \"a\" }\nfn inlet(body) { body }",
        NotLoaded(&["hostile"]),
    ),
    (
        "pipes that are references",
        "fn pipes() { LARGE ALL all }\nfn pipe(body) { \"a\" }\nfn inlet(body) { body }",
        NotLoaded(&["hostile"]),
    ),
    (
        "pipes that search",
        "fn pipes() { LARGE regex::replace(s, \"(a{1,300}){1,30}b|c\", \"$1\"); [\"a\"] }\nfn pipe(body) { \"a\" }\nfn inlet(body) { body }",
        NotLoaded(&["hostile"]),
    ),
    (
        "valves nobody can read",
        "const Valves = #{ a: #{ value: \"a\", pattern: \"(a{1,300}){1,30}b|c\" } };\nfn inlet(body, valves) { LARGE valves.a = s; `${valves}`; body }",
        Ends(LIMITS),
    ),
    (
        "an outlet of references",
        "fn outlet(body) { LARGE ALL body.messages[-1].content = all; body }",
        Ends(LIMITS),
    ),
    (
        "an outlet that replaces",
        "fn outlet(body) { LARGE body.messages[-1].text = s; body.messages[-1].text.replace(\"a\", s); body }",
        Ends(LIMITS),
    ),
    ("a context of keys", "fn pre_chat(ctx) { LARGE KEYS ctx.context.set(\"k\", keys); ctx }", Ends(LIMITS)),
    ("a result of references", "fn post_chat(ctx) { LARGE ALL ctx.result.content = all; ctx }", Ends(LIMITS)),
    (
        "this without end",
        "fn again(n) { this.x = n; this.again(n + 1) }\nfn inlet(body) { let a = #{}; a.again(0); body }",
        Breaks(&[DEPTH]),
    ),
    (
        "wide frames",
        "fn f(a, b, c, d) { let x = [a, b, c, d]; f(x, x, x, x) + f(x, x, x, x) }\nfn inlet(body) { f(1, 2, 3, 4) }",
        Breaks(&[DEPTH, BUDGET[0], BUDGET[1], BUDGET[2], LENGTH]),
    ),
    (
        "a guard in a switch calls itself",
        "fn f(a) { switch a { _ if f(a) => 1, _ => 2 } }\nfn inlet(body) { f(1); body }",
        Ends(LIMITS),
    ),
    (
        "catch and try again",
        "fn f(n) { try { f(n + 1) } catch { f(n + 1) } }\nfn inlet(body) { f(0); body }",
        Breaks(&[DEPTH]),
    ),
];

/// Files whose requests have a streamed response.
const STREAMS: &[(&str, &str, Comes)] = &[
    ("stream that replaces", "fn stream(event) { LARGE s.replace(\"a\", s); event }", Ends(LIMITS)),
    (
        "stream that sorts",
        "fn stream(event) { LARGE let a = []; a.pad(90_000, s); a.sort(); event }",
        Ends(LIMITS),
    ),
    (
        "stream that searches",
        "fn stream(event) { LARGE regex::captures(s, \"(a{1,300}){1,30}b|c\"); event }",
        Ends(LIMITS),
    ),
    (
        "stream of what grows in the state",
        "fn stream(event, state) { state.ensure(\"a\", []).push(state.copy()); event }",
        Ends(LIMITS),
    ),
    (
        "stream end that throws references",
        "fn stream_end(state) { LARGE let a = []; a.pad(9_000, 0); for i in 0..9_000 { a[i] = s; } throw a }",
        Ends(LIMITS),
    ),
];

const TOOLS: &[(&str, &str, Comes)] = &[
    ("tool that replaces", "fn handler(args) { LARGE s.replace(\"a\", s); s }", ToolFails(&["hostile"])),
    ("tool that answers references", "fn handler(args) { LARGE ALL all }", ToolFails(&["hostile"])),
    ("tool that throws references", "fn handler(args) { LARGE ALL throw all }", ToolFails(&["hostile"])),
    (
        "tool that sorts",
        "/*\ntimeout: 500\n*/\nfn handler(args) { LARGE ALL let t = \"\"; t.pad(4_000_000, \"a\"); for i in 0..45_000 { all[i * 2] = t; } loop { all.sort(); } }",
        ToolFails(&["hostile"]),
    ),
    ("tools of references", "fn tools() { LARGE ALL all }", NotLoaded(&["hostile"])),
    (
        "tools that replace",
        "fn tools() { LARGE s.replace(\"a\", s); [#{ name: s, description: s, handler: |args| 1 }] }",
        NotLoaded(&["hostile"]),
    ),
    (
        "tools described by keys",
        "fn tools() { LARGE KEYS [#{ name: \"t\", description: keys, parameters: keys, handler: |args| 1 }] }",
        NotLoaded(&["hostile"]),
    ),
    (
        "tools that hold themselves",
        "fn tools() { LARGE let m = #{ name: \"t\", description: \"d\", s: s }; m.handler = |args| m; [m] }",
        Ends(LIMITS),
    ),
];

fn filled(code: &str) -> String {
    code.replace("LARGE", LARGE).replace("ALL", ALL).replace("KEYS", KEYS)
}

pub(super) fn all() -> impl Iterator<Item = Hostile> {
    let inlets = INLETS.iter().map(|(name, code, comes)| {
        let start = "/*\nrequirements: kv\n*/\nfn inlet(body, state, __metadata__)";
        Hostile::filter(name, format!("{start} {{ {LARGE} {} body }}", filled(code)), *comes)
    });
    let files = FILES.iter().map(|(name, text, comes)| Hostile::filter(name, filled(text), *comes));
    let streams = STREAMS.iter().map(|(name, text, comes)| Hostile {
        says: "many words ".repeat(5),
        streams: true,
        deadline: super::STREAM / valvehouse_testkit::slowness(),
        ..Hostile::filter(name, filled(text), *comes)
    });
    let tools = TOOLS.iter().map(|(name, text, comes)| Hostile {
        file: "tools/hostile.rhai",
        says: "/hostile".to_owned(),
        deadline: Duration::from_secs(2),
        ..Hostile::filter(name, filled(text), *comes)
    });
    let unused = Hostile::filter(
        "the same by itself",
        format!("fn inlet(body) {{ {LARGE} {} body }}", filled("ALL KEYS")),
        Well,
    );
    inlets.chain(files).chain(streams).chain(tools).chain([unused])
}
