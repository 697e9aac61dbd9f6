//! Bodies of `fn inlet(body, state, __metadata__)`.

use super::{BUDGET, CONTAINERS, Comes, DEEP, DEPTH, Hostile, LENGTH, MEMORY, OPERATIONS, SIZE, TIME};
use Comes::{Breaks, Ends, Fails, NotLoaded, Refuses, Well};

const INLETS: &[(&str, &str, Comes)] = &[
    ("loop", "loop {}", Breaks(BUDGET)),
    ("while", "while true { 1 + 1; }", Breaks(BUDGET)),
    ("long range", "for i in 0..1_000_000_000_000 {}", Well),
    ("tiny steps", "let x = 0.0; while x < 1.0 { x += 0.000000000001; }", Breaks(BUDGET)),
    ("do until", "do { let x = 1; } until false", Breaks(BUDGET)),
    ("deep recursion", "deep(0)", Breaks(&[DEPTH])),
    ("mutual recursion", "ping(0)", Breaks(&[DEPTH])),
    ("closure recursion", "let f = |g| g.call(g); f.call(f)", Breaks(&[DEPTH])),
    ("callback recursion", "[1].map(|x| deep(x))", Breaks(&[DEPTH])),
    ("string doubling", "let s = \"x\"; loop { s += s; }", Breaks(&[SIZE, OPERATIONS, TIME, MEMORY])),
    ("interpolation", "let s = \"x\"; loop { s = `${s}${s}`; }", Breaks(&[SIZE, OPERATIONS, TIME, MEMORY])),
    (
        "string times",
        "let s = \"x\"; s.pad(4_000_000_000, \"x\"); s",
        Breaks(&[SIZE, OPERATIONS, TIME, MEMORY]),
    ),
    (
        "replace growth",
        "let s = \"a\"; loop { s.replace(\"a\", \"aa\"); }",
        Breaks(&[SIZE, OPERATIONS, TIME, MEMORY]),
    ),
    (
        "text::replace growth",
        "let s = \"a\"; loop { s = text::replace(s, \"a\", \"aa\"); }",
        Breaks(&[SIZE, OPERATIONS, TIME, MEMORY]),
    ),
    (
        "regex::replace growth",
        "let s = \"a\"; loop { s = regex::replace(s, \"a\", \"aa\"); }",
        Breaks(BUDGET),
    ),
    ("array doubling", "let a = [1]; loop { a += a; }", Breaks(&[LENGTH, OPERATIONS, TIME, MEMORY])),
    (
        "array append itself",
        "let a = [1]; loop { a.append(a); }",
        Breaks(&[LENGTH, OPERATIONS, TIME, MEMORY]),
    ),
    ("array pad", "let a = []; a.pad(4_000_000_000, 0); a", Breaks(&[LENGTH, OPERATIONS, TIME, MEMORY])),
    ("array nesting", "let a = []; loop { a = [a, a]; }", Breaks(&[LENGTH, OPERATIONS, TIME, MEMORY])),
    ("array chain", "let a = []; loop { a = [a]; }", Breaks(BUDGET)),
    (
        "array push",
        "let a = []; let s = \"\"; s.pad(100_000, \"x\"); loop { a.push(s + a.len()); }",
        Breaks(&[SIZE, OPERATIONS, TIME, MEMORY]),
    ),
    (
        "array index",
        "let a = [0]; let s = \"\"; s.pad(100_000, \"x\"); let i = 0; loop { a.push(0); a[i] = s + i; i += 1; }",
        Breaks(&[SIZE, OPERATIONS, TIME, MEMORY]),
    ),
    (
        "map index",
        "let m = #{}; let s = \"\"; s.pad(100_000, \"x\"); let i = 0; loop { m[`${i}`] = s + i; i += 1; }",
        Breaks(BUDGET),
    ),
    ("many keys", "let m = #{}; let i = 0; loop { m[`k${i}`] = i; i += 1; }", Breaks(BUDGET)),
    ("map chain", "let m = #{}; loop { m = #{ m: m }; }", Breaks(BUDGET)),
    ("blob", "let b = blob(4_000_000_000); b", Breaks(&[LENGTH, OPERATIONS, TIME, MEMORY])),
    ("blob growth", "let b = blob(1000); loop { b.append(b); }", Breaks(&[LENGTH, OPERATIONS, TIME, MEMORY])),
    ("live array", "loop { body.messages.push(#{ role: \"user\", content: \"x\" }); }", Breaks(BUDGET)),
    ("live map", "let i = 0; loop { body[`k${i}`] = i; i += 1; }", Breaks(BUDGET)),
    ("live nesting", "let m = body; loop { m.x = #{}; m = m.x; }", Breaks(BUDGET)),
    ("live text", "body.t = \"x\"; loop { body.t += body.t; }", Breaks(&[SIZE, OPERATIONS, TIME, MEMORY])),
    (
        "live copies",
        "body.a = []; loop { body.a.push(body.copy()); }",
        Breaks(&[CONTAINERS, OPERATIONS, TIME, MEMORY]),
    ),
    ("live in itself", "body.me = body; body", Breaks(&["put inside itself"])),
    ("live in its child", "body.messages[0].me = body.messages; body", Breaks(&["put inside itself"])),
    (
        "metadata",
        "loop { body.ensure(`a.b.c${body.len()}`, #{}); body[`x${body.len()}`] = 1; }",
        Breaks(BUDGET),
    ),
    ("linked closures", "let cur = || 0; loop { let p = cur; cur = || p; }", Breaks(BUDGET)),
    (
        "curry",
        "let f = |x| x; let s = \"\"; s.pad(100_000, \"x\"); loop { f = f.curry(s + 1); }",
        Breaks(BUDGET),
    ),
    (
        "captured",
        "let keep = []; loop { let s = \"\"; s.pad(100_000, \"x\"); keep.push(|| s); }",
        Breaks(BUDGET),
    ),
    (
        "callbacks",
        "let a = []; a.pad(1000, 0); loop { a.map(|x| { let i = 0; while i < 1000 { i += 1; } }); }",
        Breaks(BUDGET),
    ),
    (
        "reduce",
        "let a = []; a.pad(1000, 0); loop { a.reduce(|s, x| { let i = 0; while i < 1000 { i += 1; } i }, 0); }",
        Breaks(BUDGET),
    ),
    (
        "sort",
        "let a = []; a.pad(10_000, 0); loop { a.sort(|a, b| if random::int(0, 1) == 0 { -1 } else { 1 }); }",
        Breaks(&["panicked", OPERATIONS, TIME]),
    ),
    (
        "heavy natives",
        "let s = \"\"; s.pad(1_000_000, \"ab\"); loop { s.split(\"a\"); }",
        Breaks(&[LENGTH, OPERATIONS, TIME, MEMORY]),
    ),
    ("compare", "let a = []; a.pad(90_000, \"x\"); let b = a; loop { a == b; }", Breaks(BUDGET)),
    ("clones", "let a = []; a.pad(90_000, \"x\"); loop { let b = a; b.push(1); }", Breaks(BUDGET)),
    (
        "json growth",
        "let v = #{ a: 1 }; loop { v = #{ a: json::stringify(v) }; }",
        Breaks(&[SIZE, OPERATIONS, TIME, MEMORY]),
    ),
    ("json deep", "let s = \"\"; s.pad(200_000, \"[\"); json::parse(s)", Breaks(&["nested deeper than 128"])),
    (
        "json wide",
        "let s = \"[\"; s.pad(1_000_000, \"1,\"); loop { json::parse(s + \"1]\"); }",
        Breaks(&["more than 200000 values", OPERATIONS, TIME]),
    ),
    (
        "regex bomb",
        "regex::is_match(\"x\", \"(a{1000}){1000}\")",
        NotLoaded(&["compiled pattern is too large"]),
    ),
    (
        "regex compile loop",
        "let i = 0; loop { regex::is_match(\"x\", `a{1,${100 + i}}`); i += 1; }",
        Breaks(BUDGET),
    ),
    (
        "regex long text",
        "let s = \"\"; s.pad(3_000_000, \"a\"); loop { regex::find_all(s, \"a*b\"); }",
        Breaks(BUDGET),
    ),
    (
        "regex many groups",
        "let s = \"\"; s.pad(3_000_000, \"a\"); regex::find_all(s, \"a\").len()",
        Breaks(&["limit of 100000 elements", OPERATIONS, TIME]),
    ),
    ("base64", "let s = \"x\"; loop { s = base64::encode(s); }", Breaks(&[SIZE, OPERATIONS, TIME, MEMORY])),
    (
        "csv of many values",
        "let s = \"\"; s.pad(3_000_000, \"a,\"); csv::parse(s, #{ header: false })",
        Breaks(&["limit of 100000 values", OPERATIONS, TIME]),
    ),
    (
        "csv read for ever",
        "let s = \"\"; s.pad(100_000, \"ab\\n\"); loop { csv::parse(s, #{ header: false }); }",
        Breaks(BUDGET),
    ),
    (
        "csv of one quoted value",
        "let s = \"\\\"\"; s.pad(3_000_000, \"\\\"\\\"\"); loop { csv::parse(s, #{ header: false }); }",
        Breaks(BUDGET),
    ),
    (
        "csv with a wide head",
        "let s = \"\"; for i in 0..300 { s += `${i}`; s.pad(s.len() + 3_000, \"x\"); s += \",\"; } s += \"\\n\"; s.pad(s.len() + 60_000, \",\"); csv::parse(s)",
        Breaks(&["values, expected", TIME, MEMORY, OPERATIONS]),
    ),
    (
        "workbooks written for ever",
        "let r = []; r.pad(9_000, \"x<\"); loop { xlsx::write([r]); }",
        Breaks(BUDGET),
    ),
    ("csv written for ever", "let r = []; r.pad(9_000, \"x,\"); loop { csv::write([r]); }", Breaks(BUDGET)),
    (
        "tokens signed for ever",
        "loop { jwt::sign(#{ a: 1 }, \"secret\", #{ algorithm: \"HS256\" }); }",
        Breaks(BUDGET),
    ),
    (
        "keys read for ever",
        "let pem = \"-----BEGIN PRIVATE KEY-----\\n\"; pem.pad(60_000, \"A\"); pem += \"\\n-----END PRIVATE KEY-----\"; loop { try { jwt::sign(#{}, pem, #{ algorithm: \"RS256\" }); } catch {} }",
        Breaks(BUDGET),
    ),
    (
        "tokens checked for ever",
        "let t = \"\"; t.pad(60_000, \"a.\"); loop { try { jwt::verify(t, \"s\", #{ algorithm: \"HS256\" }); } catch {} }",
        Breaks(BUDGET),
    ),
    ("url", "let s = \"%\"; loop { s = url::encode(s); }", Breaks(BUDGET)),
    ("hash", "let s = \"\"; s.pad(4_000_000, \"x\"); loop { hash::sha256(s); }", Breaks(BUDGET)),
    ("tokens", "let s = \"\"; s.pad(3_000_000, \"word \"); loop { tokens::count(s); }", Breaks(BUDGET)),
    ("html", "let s = \"\"; s.pad(300_000, \"<a>\"); loop { html::text(s); }", Breaks(BUDGET)),
    (
        "similar",
        "let s = \"\"; s.pad(1_000_000, \"ab\"); let t = \"\"; t.pad(1_000_000, \"ba\"); text::similar(s, t)",
        Breaks(&[OPERATIONS, TIME, MEMORY, "returned a number"]),
    ),
    (
        "join",
        "let a = []; a.pad(90_000, \"xxxxxxxxxx\"); loop { text::join(a, \"----------\"); }",
        Breaks(BUDGET),
    ),
    (
        "time format",
        "let s = \"\"; s.pad(1_000_000, \"%A\"); loop { time::format(0, s); }",
        Breaks(&["limit of 1024 bytes"]),
    ),
    ("sleep", "sleep(60); body", Breaks(&["cannot sleep in seconds"])),
    ("eval", "eval(\"loop {}\")", NotLoaded(&["is disabled"])),
    ("print flood", "loop { print(\"x\"); }", Breaks(BUDGET)),
    ("print large", "let s = \"\"; s.pad(4_000_000, \"x\"); loop { print(s); }", Breaks(BUDGET)),
    ("emit flood", "loop { emit(#{ type: \"x\", data: \"x\" }); }", Breaks(&[OPERATIONS, TIME, "8 MiB"])),
    (
        "emit large",
        "let s = \"\"; s.pad(1_000_000, \"x\"); loop { emit(#{ type: \"x\", data: s }); }",
        Breaks(&["8 MiB", OPERATIONS, TIME, MEMORY]),
    ),
    (
        "state",
        "loop { body.len(); let s = \"\"; s.pad(1_000_000, \"x\"); state[`k${state.len()}`] = s; }",
        Breaks(BUDGET),
    ),
    (
        "metadata flood",
        "loop { let s = \"\"; s.pad(1_000_000, \"x\"); __metadata__[`k${__metadata__.len()}`] = s; }",
        Breaks(BUDGET),
    ),
    ("caught", "loop { try { loop {} } catch (e) {} }", Breaks(BUDGET)),
    ("caught throws", "loop { try { throw \"x\"; } catch (e) {} }", Breaks(BUDGET)),
    ("caught depth", "loop { try { deep(0); } catch (e) {} }", Breaks(&[DEPTH])),
    (
        "data race",
        "let x = 1; let f = || x; loop { try { x = f.call() + f.call(); } catch {} }",
        Breaks(BUDGET),
    ),
    (
        "caught size",
        "loop { try { let s = \"x\"; loop { s += s; } } catch (e) {} }",
        Breaks(&[SIZE, OPERATIONS, TIME, MEMORY]),
    ),
    ("returns deep", "let a = []; for i in 0..5_000 { a = [a]; } body.a = a; body", Breaks(DEEP)),
    ("returns function", "|x| x", Breaks(&["returned Fn"])),
    ("returns number", "5", Breaks(&["returned a whole number"])),
    ("returns nan", "body.x = 0.0 / 0.0; body", Breaks(&["is not a JSON number"])),
    ("messages gone", "body.remove(\"messages\"); body", Breaks(&["expected an array, got null"])),
    ("messages a text", "body.messages = \"x\"; body", Breaks(&["expected an array, got string"])),
    ("throws deep", "let a = []; for i in 0..5_000 { a = [a]; } throw a", Ends(BUDGET)),
    ("throws closure", "throw |x| x", Refuses(400)),
    ("throws large", "let s = \"\"; s.pad(4_000_000, \"x\"); throw s", Refuses(400)),
    ("skip large", "let s = \"\"; s.pad(4_000_000, \"x\"); skip(s)", Well),
    ("arithmetic", "9223372036854775807 + 1", Breaks(&["addition overflow"])),
    ("division", "1 / 0", Breaks(&["division by zero"])),
    ("shift", "1 << 1000", Breaks(&["returned a whole number"])),
    ("negative power", "2 ** -1", Breaks(&["negative power"])),
    ("huge power", "let x = 2; loop { x = x ** 2; }", Breaks(&["exponential overflow"])),
    ("index far", "body.messages[99999999999]", Breaks(&["out of range"])),
    ("index negative", "body.messages[-99999999999]", Breaks(&["out of range"])),
    ("slice far", "body.messages[0..99999999999].len(); loop {}", Breaks(BUDGET)),
    ("keep_last negative", "body.messages.keep_last(-5); body", Fails(400)),
    ("bits", "let x = 0; loop { set_bit(x, 99, true); }", Breaks(&["out of bounds"])),
    (
        "chars",
        "let s = \"\"; s.pad(3_000_000, \"ü\"); let i = 0; loop { s[i]; i += 1; }",
        Breaks(&[SIZE, OPERATIONS, TIME, MEMORY]),
    ),
    (
        "sub_string",
        "let s = \"\"; s.pad(3_000_000, \"ü\"); loop { s.sub_string(1_000_000, 1_000_000); }",
        Breaks(&[SIZE, OPERATIONS, TIME, MEMORY]),
    ),
    (
        "to_chars",
        "let s = \"\"; s.pad(3_000_000, \"ü\"); loop { s.to_chars(); }",
        Breaks(&[SIZE, OPERATIONS, TIME, MEMORY]),
    ),
    ("fn pointers", "let f = Fn(\"deep\"); f.call(0)", Breaks(&[DEPTH])),
    ("call itself", "inlet(body)", NotLoaded(&["of `inlet`", "function `inlet`"])),
    ("shadowed builtin", "body.messages.push(1); body", Fails(400)),
];

const HELPERS: &str = "fn deep(n) { deep(n + 1) }\nfn ping(n) { pong(n + 1) }\nfn pong(n) { ping(n + 1) }\n";

pub(super) fn all() -> impl Iterator<Item = Hostile> {
    INLETS.iter().map(|(name, code, comes)| {
        let text = format!("{HELPERS}fn inlet(body, state, __metadata__) {{ {code} }}");
        Hostile::filter(name, text, *comes)
    })
}
