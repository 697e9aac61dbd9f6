//! Cyclic values are freed: calls that create them leave no more memory behind than other calls.

use super::host::Host;
use std::fmt::Write as _;

/// The number of bytes that each call allocates and that a leak would lose.
const LOST: usize = 1_000_000;
/// The number of calls before the first measurement, and between two measurements.
const FIRST: usize = 10;
const CALLS: usize = 24;
/// A leak grows with each call; what threads and caches keep grows once. The least growth of so many rounds counts.
const ROUNDS: usize = 3;

/// Each ends in a cycle that holds `s`; the last expression of an inlet is still `body`.
const CYCLES: &[(&str, &str)] = &[
    ("a map through its closure", "let m = #{ s: s }; m.f = || m;"),
    ("a map by index", "let m = #{ s: s }; let k = \"f\"; m[k] = || m;"),
    ("a map by a setter", "let m = #{ s: s }; let f = || m; m.set(\"f\", f);"),
    ("a map by what is mixed in", "let m = #{ s: s }; let f = || m; m.mixin(#{ f: f });"),
    ("a map by what fills it", "let m = #{ s: s }; let f = || m; m.fill_with(#{ f: f });"),
    ("an array through its closure", "let a = [s]; let f = || a; a.push(f);"),
    ("an array by insertion", "let a = [s]; let f = || a; a.insert(0, f);"),
    ("an array by an operator", "let a = [s]; let f = || a; a += f;"),
    ("an array by appending", "let a = [s]; let f = || a; a.append([f]);"),
    ("an array by splicing", "let a = [s]; let f = || a; a.splice(0, 0, [f]);"),
    ("an array by padding", "let a = [s]; let f = || a; a.pad(3, f);"),
    (
        "two arrays in each other",
        "let a = [s]; let b = []; let f = || b; let g = || a; a.push(f); b.push(g);",
    ),
    ("two maps in each other", "let a = #{ s: s }; let b = #{}; a.f = || b; b.f = || a;"),
    (
        "a ring of five",
        "let a = #{ s: s }; let b = #{}; let c = #{}; let d = #{}; let e = #{}; a.f = || b; b.f = || c; c.f = || d; d.f = || e; e.f = || a;",
    ),
    ("curried", "let a = #{ s: s }; let f = |x| x; a.f = f.curry(|| a);"),
    ("curried twice", "let a = #{ s: s }; let f = |x, y| x; let g = || a; a.f = f.curry(1).curry(g);"),
    ("deep within", "let a = #{ s: s, x: #{ y: [1, #{}] } }; a.x.y[1].f = || a;"),
    ("deep by index", "let a = [s, [1, [2]]]; a[1][1][0] = || a;"),
    ("a closure in itself", "let t = s; let f = || 0; f = || [f, t];"),
    ("a closure in another's place", "let t = s; let f = 1; let g = || { t; f }; f = g;"),
    ("closures of closures", "let a = [s]; let f = || a; let g = || f; let h = || g; a.push(h);"),
    ("in a block", "{ let m = #{ s: s }; m.f = || m; }"),
    ("in a loop", "for i in 0..3 { let m = #{ s: s }; m.f = || m; }"),
    ("in a branch", "if true { let m = #{ s: s }; m.f = || m; }"),
    ("in a switch", "let m = #{ s: s }; switch 1 { 1 => { m.f = || m; } }"),
    ("in a callback", "[1].map(|x| { let m = #{ s: s }; m.f = || m; m });"),
    ("in a closure that is called", "let make = |t| { let m = #{ s: t }; m.f = || m; m }; make.call(s);"),
    ("in a function", "make(s);"),
    ("in a replacement", "let m = #{ s: s }; regex::replace(\"aa\", \"a\", |g| { m.f = || m; \"b\" });"),
    ("caught", "let m = #{ s: s, message: \"m\" }; m.f = || m; try { throw m; } catch (e) { e.message; }"),
    ("thrown", "let m = #{ s: s, message: \"m\" }; m.f = || m; throw m;"),
    ("broken off", "let m = #{ s: s }; m.f = || m; 1 / 0;"),
    ("exceeded its", "let m = #{ s: s }; m.f = || m; loop {}"),
    ("returned", "let m = #{ s: s }; m.f = || m; return m;"),
    ("with a live value", "let m = #{ s: s, b: body }; m.f = || m; m.g = body.messages;"),
    ("with a live text", "body.t = s; let m = #{ t: body.t }; m.f = || m;"),
    ("with a blob", "let b = blob(1_000_000, 1); let m = #{ b: b }; m.f = || m;"),
    ("a list of handlers", "let h = #{ s: s }; h.on = |e| h; h.off = |e| h.on; h.list = [h.on, h.off];"),
    ("of a copy", "let m = #{ s: s }; m.f = || m; let n = m; n.g = || n; n.h = m;"),
    (
        "of what a loop runs over",
        "let all = [[s], [s]]; for x in all { let y = x; let f = || y; y.push(f); }",
    ),
    // These create no cycle.
    ("a counter", "let n = 0; let t = s; let inc = || { n += 1; t.len() + n }; inc.call(); inc.call();"),
    (
        "a memo",
        "let memo = #{ s: s }; let fib = |n, me| if n < 2 { n } else { memo[`${n}`] = 1; me.call(n - 1, me) }; fib.call(10, fib);",
    ),
];

/// Other hooks that can create a cycle, each with the source of its file.
const PLACES: &[(&str, &str)] = &[
    ("outlet", "fn outlet(body) { let m = #{ s: text() }; m.f = || m; body }"),
    ("pre_chat", "fn pre_chat(ctx) { let m = #{ s: text(), c: ctx }; m.f = || m; ctx }"),
    ("stream", "fn stream(event) { let m = #{ t: event.text, s: text() }; m.f = || m.t; event }"),
    ("stream_end", "fn stream_end(state) { let m = #{ s: text() }; m.f = || m; }"),
];

const TEXT: &str = "fn text() { let s = \"\"; s.pad(1_000_000, \"x\"); s }";

#[test]
fn circular_values_are_freed() {
    let inlets = CYCLES.iter().map(|(name, code)| {
        let text = format!(
            "/*\nglobal: false\n*/\n{TEXT}\nfn make(s) {{ let m = #{{ s: s }}; m.f = || m; m }}\n\
             fn inlet(body) {{ let s = text(); {code} body }}\n"
        );
        (*name, text)
    });
    let places =
        PLACES.iter().map(|(name, text)| (*name, format!("/*\nglobal: false\n*/\n{TEXT}\n{text}\n")));
    let files: Vec<(&str, String)> = inlets.chain(places).collect();
    let mut config = "[breaker]\nfailure_threshold = 0\n".to_owned();
    for at in 0..files.len() {
        let _ = write!(
            config,
            "[filters.f{at}]\nbudget = {{ ms = 100, operations = 10_000 }}\n[[models]]\nname = \"f{at}\"\n\
             provider = \"demo\"\nmodel = \"demo\"\nfilters = [\"f{at}\"]\n"
        );
    }
    let saved = files.iter().enumerate().map(|(at, (_, text))| (format!("filters/f{at}.rhai"), text.clone()));
    let mut host = Host::start_with(&config, 16 << 20, saved);
    let mut wrong = Vec::new();
    for (at, (name, _)) in files.iter().enumerate() {
        let mut ask = |calls: usize| {
            (0..calls).for_each(|_| drop(host.ask(&format!("f{at}"), "hello", *name == "stream")));
            host.reset_peak()
        };
        let mut before = ask(FIRST);
        let leaks = (0..ROUNDS).all(|_| {
            let after = ask(CALLS);
            let grown = after.saturating_sub(std::mem::replace(&mut before, after));
            grown > (CALLS * LOST / 4) as u64
        });
        if leaks {
            wrong.push(*name);
        }
    }
    let calm = host.ask("calm", "hello", false);
    let log = host.end();
    assert!(calm.is(200), "{calm:?}\n{log}");
    assert!(wrong.is_empty(), "{} of {} leak:\n{}", wrong.len(), files.len(), wrong.join("\n"));
}
