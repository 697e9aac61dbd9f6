//! Attacks that the other lists do not cover: thousands of declarations, constant folding, the host's work
//! for a script outside of its calls, and texts that are slow to read.
//!
//! In each inlet, `s` is a text of 4 MB.

use super::host::{Host, Limits};
use super::{Comes, DEPTH, Hostile};
use Comes::{Breaks, Ends, NotLoaded, Refuses, ToolFails, Well};
use std::fmt::Write as _;
use std::time::Duration;

/// The word in the log: whichever limit is reached first, the log names the script.
const LIMITS: &[&str] = &["hostile"];

/// The constants of a file are too large when they are used.
const FOLDED: &[&str] = &["size of the constants"];

const LARGE: &str = "let s = \"\"; s.pad(4_000_000, \"a\");";

/// Bodies of `inlet(body, state, __metadata__)`.
const INLETS: &[(&str, &str, Comes)] = &[
    // Texts that are slow to read.
    (
        "a host name of a million letters",
        "let t = \"\"; t.pad(1_000_000, \"ä\"); try { url::parse(\"http://\" + t + \".com/\"); } catch {} t = \"\"; t.pad(3_000_000, \"ä.\"); try { url::parse(\"http://\" + t); } catch {} url::parse(\"http://xn--\" + s);",
        Ends(LIMITS),
    ),
    (
        "addresses of dots and signs",
        "for p in [\"../\", \"%2e%2e/\", \"?\", \"#\", \"&\", \"[\", \"@\", \":\", \"\\\\\"] { let t = \"\"; t.pad(1_000_000, p); try { url::parse(\"http://a/\" + t); } catch {} try { url::parse(\"http://a/?\" + t); } catch {} try { url::decode(t); } catch {} }",
        Ends(LIMITS),
    ),
    (
        "pages that never close what they open",
        "for p in [\"<script\", \"<script>\", \"<!--\", \"<a '\", \"<a b=\\\"\", \"</\", \"<style><\", \"&#\", \"&a\", \"<p><li>\"] { let t = \"\"; t.pad(2_000_000, p); html::text(t); html::unescape(t); }",
        Ends(LIMITS),
    ),
    (
        "entities without end",
        "let t = \"\"; t.pad(4_000_000, \"&\"); html::unescape(t); t = \"\"; t.pad(4_000_000, \"&lt\"); html::unescape(t); html::escape(t);",
        Ends(LIMITS),
    ),
    (
        "one key two hundred thousand times",
        "let t = \"\"; t.pad(1_900_000, \"\\\"aaa\\\":1,\"); json::parse(\"{\" + t + \"\\\"b\\\":1}\");",
        Ends(LIMITS),
    ),
    (
        "keys without number",
        "let t = \"{\"; for i in 0..12_000 { t += `\"k${i}\":{},`; } t += \"\\\"z\\\":1}\"; loop { let m = json::parse(t); m.k0 = m.copy(); m == json::parse(t); }",
        Ends(LIMITS),
    ),
    (
        "numbers of a million digits",
        "let d = \"\"; d.pad(3_900_000, \"7\"); for t in [d, \"0.\" + d, d + \"e-5\", \"1e\" + d, \"-\" + d] { try { json::parse(t); } catch {} try { parse_float(t); } catch {} try { parse_int(t, 36); } catch {} try { time::parse(t, \"%s\"); } catch {} }",
        Ends(LIMITS),
    ),
    (
        "escapes of escapes",
        "let t = \"\"; t.pad(3_900_000, \"\\\\u0000\"); for i in 0..20 { json::parse(\"\\\"\" + t + \"\\\"\"); } let e = \"\"; e.pad(600_000, \"\\\\\\\"\"); for i in 0..9 { e = json::stringify(e); }",
        Ends(LIMITS),
    ),
    (
        "times in texts of 4 MB",
        "let b = \"\"; b.pad(4_000_000, \" \"); for p in [\"%Y\", \"%c\", \"%A %B\", \"%Z\", \"%:z\", \" %Y \", \"%n%t%n%t%Y\"] { try { time::parse(b, p); } catch {} try { time::parse(s, p); } catch {} try { time::parse(\"2020\" + b, p, s); } catch {} }",
        Ends(LIMITS),
    ),
    (
        "times of great width",
        "for p in [\"%999999999Y\", \"%-0999999999d\", \"%9999999999999999999S\", \"%.999999999f\", \"%_255c\", \"%255c\"] { let t = \"\"; t.pad(1_000, p); try { `${time::format(0, t)}`; } catch {} try { time::format(0, t, s); } catch {} }",
        Ends(LIMITS),
    ),
    (
        "base64 and digests of all there is",
        "loop { let e = base64::encode(\"\" + s.sub_string(0, 3_000_000)); base64::decode(e); hash::hmac_sha256(s, e); hash::md5(s); }",
        Ends(LIMITS),
    ),
    (
        "similar in every pair",
        "let t = \"\"; for i in 0..1_500 { t += `${i}é${i * 7}`; } let u = \"\"; u.pad(1_500_000, t); loop { text::similar(u, s); text::similar(u, u + \"x\"); }",
        Ends(LIMITS),
    ),
    (
        "groups of every letter",
        "let t = \"\"; t.pad(80_000, \"ab\"); let all = regex::captures_all(t, \"(a)(b)?()()()()()()()()()()()()()()()()()()()()()()()()()()\"); let copy = all; copy.push(1); loop { regex::captures_all(t, \"(?P<a>a)|(?P<b>b)\"); }",
        Ends(LIMITS),
    ),
    (
        "words in blanks of every kind",
        "let t = \"\"; t.pad(1_300_000, \"\\u2003\\u00a0\\u0085\"); loop { text::words(t); text::trim(t); text::lines(t); text::truncate(t, 3, t); text::strip_prefix(t, t); }",
        Ends(LIMITS),
    ),
    (
        "marks upon marks",
        "let t = \"a\"; t.pad(1_900_000, \"\\u0301\"); for i in 0..9 { t.to_upper(); t.to_lower(); text::truncate(t, 999_999); } tokens::count(t);",
        Ends(LIMITS),
    ),
    (
        "tokens of what has no blank",
        "for p in [\"a\", \"aA\", \"0\", \"\\n\", \" \", \"语\", \"🤦🏽\\u200d♂️\", \"'s\"] { let t = \"\"; t.pad(900_000, p); tokens::count(t); }",
        Ends(LIMITS),
    ),
    // Functions that natives call back, and their receivers.
    (
        "a replacement that searches",
        "let f = |f| regex::replace(\"aaaa\", \"a\", |g| { regex::find_all(s, \"a\"); f.call(f) }); f.call(f);",
        Ends(LIMITS),
    ),
    (
        "chance without end",
        "let a = []; a.pad(90_000, s); loop { random::choice(a); random::choice(body.messages); uuid(); a.push(random::choice(a)); a.pop(); }",
        Ends(LIMITS),
    ),
    (
        "a hundred thousand curried",
        "let f = |x| x; let a = []; a.pad(90_000, 1); for x in a { f = f.curry(x); } try { f.call(1); } catch {} let m = #{ f: f }; let n = m; `${n}`; n == m;",
        Ends(LIMITS),
    ),
    (
        "letters, bytes and bits, each by each",
        "let n = 0; for c in s { n += 1; } for c in s.chars(3, 4_000_000) { n += 1; } for b in s.to_blob() { n += 1; } for (c, i) in s { n += i; }",
        Ends(LIMITS),
    ),
    (
        "the same entry changed in a thousand copies",
        "let a = []; a.pad(90_000, 0); let all = []; for i in 0..90_000 { all.push(a); all[i][0] = i; }",
        Ends(LIMITS),
    ),
    (
        "a caught error put together by hand",
        "let all = []; all.pad(90_000, 0); for i in 0..90_000 { all[i] = s; } try { throw \"x\"; } catch (e) { e = #{ error: \"E\", message: all, line: 1 }; let m = e; `${m}`; e.message; }",
        Ends(LIMITS),
    ),
    // Values that leave the script.
    ("denies with the status of a half answer", "deny(\"x\", 101);", Refuses(500)),
    ("denies with the status of no content", "deny(\"x\", 204);", Refuses(500)),
    ("denies with the status of nothing new", "throw #{ status: 304, message: \"x\" };", Refuses(500)),
    (
        "a thousand events of one megabyte",
        "let t = \"\"; t.pad(1_000_000, \"a\"); loop { try { emit(#{ type: \"status\", data: #{ description: t } }); } catch {} }",
        Ends(LIMITS),
    ),
    (
        "logs at every level",
        "let t = \"\"; t.pad(60_000, \"\\u001b[31m\\r\\n\"); loop { log::error(t); log::debug(#{ t: t }); print(t); debug(t); }",
        Ends(LIMITS),
    ),
    (
        "calls without results by the thousand",
        "let calls = []; for i in 0..4_000 { calls.push(#{ id: `c${i}`, type: \"function\", \"function\": #{ name: \"todo_list\", arguments: \"{}\" } }); } body.messages.push(#{ role: \"assistant\", content: (), tool_calls: calls }); for i in 0..4_000 { body.messages.push(#{ role: \"tool\", tool_call_id: `c${3_999 - i}`, content: \"x\" }); } body.messages.push(#{ role: \"user\", content: \"hi\" });",
        Ends(LIMITS),
    ),
    (
        "tools in the request by the thousand",
        "body.tools = []; for i in 0..9_000 { body.tools.push(#{ type: \"function\", \"function\": #{ name: `t${i}`, parameters: #{} } }); }",
        Ends(LIMITS),
    ),
    (
        "wishes nobody can grant",
        "body.n = 9223372036854775807; body.max_tokens = -1; body.temperature = 1.0e300; body.stop = []; body.stop.pad(50_000, s); body.model = s; body.stream_options = #{ include_usage: [[[]]] };",
        Ends(LIMITS),
    ),
    (
        "keys that mean something elsewhere",
        "for k in [\"__proto__\", \"\\u0000\", \"\", \".\", \"a.b\", \"\\ud7ff\", s] { try { state[k] = k; } catch {} try { __metadata__[k] = k; } catch {} try { body[k] = k; } catch {} }",
        Ends(LIMITS),
    ),
    // Values that are kept between calls.
    (
        "names of half a kilobyte",
        "let k = \"\"; k.pad(505, \"k\"); let i = 0; loop { kv::set(k + i, 1, 0.000_001); kv::incr(k + i, 9223372036854775807); kv::keys(\"\"); i += 1; }",
        Ends(LIMITS),
    ),
    (
        "an update that changes what it updates",
        "kv::set(\"a\", 0); let n = 0; kv::update(\"a\", |old| { kv::incr(\"a\"); kv::set(`b${old}`, old); old + 1 }); loop { kv::update(\"a\", |old| { kv::update(\"b\", |b| { kv::incr(\"a\"); 1 }); 1 }); }",
        Ends(LIMITS),
    ),
    (
        "windows without number",
        "let i = 0; loop { kv::window(\"w\", 1_000_000, 1_000_000_000); kv::window(`w${i}`, 0.001, 1); i += 1; }",
        Ends(LIMITS),
    ),
];

/// Files whose requests have a streamed response.
const STREAMS: &[(&str, &str, Comes)] = &[
    (
        "an event of a megabyte five hundred times",
        "fn stream(event) { let t = \"\"; t.pad(1_000_000, \"x\"); event.text = t; let a = []; a.pad(500, event); a }",
        Ends(LIMITS),
    ),
    (
        "a window that keeps all",
        "/*\n*/\nfn stream(event, state) { stream::window(state, event, 4_000_000, |text| { state[`w${state.len()}`] = text + text; text }); event }",
        Ends(LIMITS),
    ),
    (
        "windows without number in a stream",
        "fn stream(event, state) { for i in 0..2_000 { state.ensure(`w.${state.len()}.${i}`, [event.copy()]); } event }",
        Ends(LIMITS),
    ),
    (
        "an end of one megabyte a thousand times",
        "fn stream_end(state) { let t = \"\"; t.pad(1_000_000, \"x\"); let one = #{ text: t }; let a = []; a.pad(1_000, 0); for i in 0..1_000 { a[i] = one; } a }",
        Ends(LIMITS),
    ),
];

const TOOLS: &[(&str, &str, Comes)] = &[
    (
        "a result of odd kinds",
        "fn handler(args) { let b = blob(90_000, 255); #{ a: timestamp(), b: b, c: 0..9223372036854775807, d: 'ü', e: 0.0 / 0.0, f: \"\\u0000\\u202e\" } }",
        ToolFails(&["hostile"]),
    ),
    (
        "a result as wide as it may be",
        "fn handler(args) { let a = []; a.pad(90_000, #{ a: #{ b: [1, 2, 3] } }); a }",
        ToolFails(&["hostile"]),
    ),
    (
        "a context that grows with each call",
        "fn handler(args, ctx) { for i in 0..9_000 { ctx.set(`k${i}`, `${i}`); } ok(\"x\", ctx) }",
        Ends(LIMITS),
    ),
    (
        "one list of parameters in every tool",
        "fn tools() { let q = #{}; for i in 0..40 { q[`q${i}`] = #{ type: \"string\" }; } let p = #{}; for i in 0..100 { p[`p${i}`] = #{ type: \"object\", properties: q }; } let all = []; for i in 0..128 { all.push(#{ name: `t${i}`, description: \"d\", handler: |args| 1 }); } for i in 0..128 { all[i].parameters = p; } all }",
        Ends(LIMITS),
    ),
    (
        "parameters in parameters",
        "fn tools() { let p = #{ type: \"string\" }; for i in 0..11 { p = #{ type: \"object\", properties: #{ a: p, b: p } }; } [#{ name: \"t\", description: \"d\", parameters: #{ a: p }, handler: |args| 1 }] }",
        Ends(LIMITS),
    ),
    (
        "a tool named by references",
        "fn tools() { let s = \"\"; s.pad(4_000_000, \"a\"); let all = []; all.pad(90_000, 0); for i in 0..90_000 { all[i] = s; } [#{ name: all, description: \"d\", handler: |args| 1 }, #{ name: \"t\", description: all, handler: |args| 1 }, #{ name: \"u\", handler: all }] }",
        Ends(LIMITS),
    ),
    (
        "tags of references",
        "fn tool_info() { let s = \"\"; s.pad(4_000_000, \"a\"); let all = []; all.pad(90_000, 0); for i in 0..90_000 { all[i] = s; } #{ description: all, tags: all } } fn tools() { [#{ name: \"t\", description: \"d\", handler: |args| 1 }] }",
        NotLoaded(&["hostile"]),
    ),
    (
        "patterns in every tool",
        "fn tools() { let p = #{}; for i in 0..120 { p[`p${i}`] = #{ type: \"string\", pattern: `[a-z]{200}x{200}${i}` }; } let all = []; for i in 0..128 { all.push(#{ name: `t${i}`, description: \"d\", handler: |args| 1 }); } for i in 0..128 { all[i].parameters = p; } all }",
        Ends(LIMITS),
    ),
    ("tools that call themselves", "fn tools() { let f = |f| f.call(f); f.call(f) }", NotLoaded(&[DEPTH])),
];

/// Returns one line for each number.
fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect()
}

/// Complete files in `filters/`.
fn filters() -> Vec<(&'static str, String, Comes)> {
    let doubled = |end: &str| {
        let mut code = "const a0 = \"xxxxxxxxxxxxxxxx\";\n".to_owned();
        for i in 1..60 {
            let _ = writeln!(code, "const a{i} = {};", end.replace('A', &format!("a{}", i - 1)));
        }
        code
    };
    let inlet = "fn inlet(body) { body }";
    let printing = "let t = \"\"; t.pad(60_000, \"%\\\\&…x\"); for i in 0..100 { print(t); }";
    vec![
        ("constants that double", format!("{}{inlet}", doubled("A + A")), NotLoaded(FOLDED)),
        ("constants that double as texts", format!("{}{inlet}", doubled("`${A}${A}`")), NotLoaded(FOLDED)),
        ("constants that double as arrays", format!("{}{inlet}", doubled("[A, A]")), NotLoaded(FOLDED)),
        (
            "constants that double within a function",
            format!("fn inlet(body) {{ {} body }}", doubled("A + A")),
            NotLoaded(FOLDED),
        ),
        (
            "constants of constants in a closure",
            format!("fn inlet(body) {{ {} let f = || a59 + a59; f.call(); body }}", doubled("A + A + A")),
            NotLoaded(FOLDED),
        ),
        (
            "secrets without number",
            format!(
                "const Valves = #{{\n{}}};\nfn inlet(body) {{ {printing} body }}",
                lines(1_900, |i| format!("v{i}: #{{ value: \"secret{i}\", secret: true }},\n"))
            ),
            Ends(LIMITS),
        ),
        (
            "a secret of many lines",
            format!(
                "const Valves = #{{ v: #{{ value: `{}`, secret: true }} }};\nfn inlet(body) {{ {printing} throw t }}",
                lines(15_000, |i| format!("secret{i}\n"))
            )
            .replace("throw t", "throw \"x%\\\\\""),
            Ends(LIMITS),
        ),
        (
            "valves with patterns by the thousand",
            format!(
                "const Valves = #{{\n{}}};\n{inlet}",
                lines(1_900, |i| format!("v{i}: #{{ value: \"a\", pattern: \"\\\\w{{90}}|a|{i}\" }},\n"))
            ),
            Ends(LIMITS),
        ),
        (
            "needs that nobody has",
            format!(
                "/*\nneeds: {}\n*/\nconst Valves = #{{\n{}}};\n{inlet}",
                lines(15_000, |i| format!("u{i},")),
                lines(1_900, |i| format!("v{i}:1,"))
            ),
            NotLoaded(&["hostile"]),
        ),
        (
            "words of events without number",
            format!("/*\nmatch: {}\n*/\nfn stream(event) {{ event }}", lines(30_000, |i| format!("w{i},"))),
            NotLoaded(&["limit of 64 texts"]),
        ),
        (
            "a constant in a thousand places",
            format!(
                "const A = [{}];\nfn inlet(body) {{ {} body }}",
                "1,".repeat(40_000),
                "A.len();".repeat(10_000)
            ),
            NotLoaded(&["size of the constants"]),
        ),
        (
            "hosts without number",
            format!(
                "/*\nrequirements: http\nallow_hosts: {}\n*/\nfn inlet(body) {{ for i in 0..100_000 {{ try {{ http::get(\"http://nowhere.invalid/\"); }} catch {{}} }} body }}",
                lines(20_000, |i| format!("*.h{i}.x,"))
            ),
            NotLoaded(&["limit of 256 hosts"]),
        ),
        (
            "hosts that nobody may ask",
            format!(
                "/*\nrequirements: http\nallow_hosts: {}\n*/\nfn inlet(body) {{ for i in 0..100_000 {{ try {{ http::get(\"http://nowhere.invalid/\"); }} catch {{}} }} body }}",
                lines(200, |i| format!("*.h{i}.x,"))
            ),
            Ends(LIMITS),
        ),
        (
            "an icon and a title of 200 KB",
            format!(
                "/*\ntitle: {}\n*/\nconst icon = \"{}\";\n{inlet}",
                "t".repeat(100_000),
                "i".repeat(100_000)
            ),
            Well,
        ),
        (
            "callbacks that never end",
            "const callbacks = true;\nfn on_turn_start(event) { loop {} }\nfn on_turn_end(event) { loop {} }\nfn inlet(body) { body }".to_owned(),
            Ends(LIMITS),
        ),
        (
            "functions that call all others",
            lines(150, |i| {
                format!("fn f{i}(n) {{ {} n }}\n", lines(60, |j| format!("f{}(n);", (i + j) % 150)))
            }) + "fn inlet(body) { f0(0); body }",
            Breaks(&[DEPTH, "hostile"]),
        ),
        (
            "a switch of ranges",
            format!(
                "fn inlet(body) {{ loop {{ switch 5 {{ {} _ => 1 }} }} }}",
                lines(3_500, |i| format!("{i}..9223372036854775807 if body.never == {i} => 2,"))
            ),
            Ends(LIMITS),
        ),
    ]
}

/// Complete files in `tools/`.
fn tools() -> Vec<(&'static str, String, Comes)> {
    let parameters = |count: usize, one: &dyn Fn(usize) -> String| {
        format!("const parameters = #{{\n{}}};\nfn handler(args) {{ 1 }}", lines(count, one))
    };
    vec![
        (
            "patterns of arguments by the thousand",
            parameters(120, &|i| format!("p{i}: #{{ type: \"string\", pattern: \"\\\\w{{90}}|{i}\" }},\n")),
            Ends(LIMITS),
        ),
        (
            "a pattern of arguments that explodes",
            parameters(1, &|_| "p: #{ type: \"string\", pattern: \"([ab]*a[ab]{900}c)+\" },".to_owned()),
            Ends(LIMITS),
        ),
        (
            "arguments by the thousand",
            parameters(1_900, &|i| format!("p{i}: #{{ type: \"string\", required: true }},\n")),
            Ends(LIMITS),
        ),
        (
            "a choice of everything",
            parameters(1, &|_| {
                format!("p: #{{ type: \"string\", enum: [{}] }},", lines(20_000, |i| format!("\"{i}\",")))
            }),
            Ends(LIMITS),
        ),
    ]
}

pub(super) fn all() -> impl Iterator<Item = Hostile> {
    let inlets = INLETS.iter().map(|(name, code, comes)| {
        let start = "/*\nrequirements: kv\n*/\nfn inlet(body, state, __metadata__)";
        Hostile::filter(name, format!("{start} {{ {LARGE} {code} body }}"), *comes)
    });
    let filters = filters().into_iter().map(|(name, text, comes)| Hostile::filter(name, text, comes));
    let streams = STREAMS.iter().map(|(name, text, comes)| Hostile {
        says: "many words ".repeat(5),
        streams: true,
        deadline: super::STREAM / valvehouse_testkit::slowness(),
        ..Hostile::filter(name, (*text).to_owned(), *comes)
    });
    let tools = TOOLS.iter().map(|(name, text, comes)| (*name, (*text).to_owned(), *comes)).chain(tools());
    let tools = tools.map(|(name, text, comes)| Hostile {
        file: "tools/hostile.rhai",
        says: "/hostile".to_owned(),
        deadline: Duration::from_secs(2),
        ..Hostile::filter(name, text, comes)
    });
    inlets.chain(filters).chain(streams).chain(tools)
}

#[test]
fn filters_that_multiply_events_are_stopped() {
    let many = "/*\nglobal: false\n*/\nfn stream(event) { let a = []; a.pad(900, event); a }";
    let large = "/*\nglobal: false\n*/\nfn stream(event) { let s = \"\"; s.pad(1_000_000, \"x\"); event.text = s; event }";
    let config = |id: &str, filters: &str| {
        format!("[[models]]\nname = \"{id}\"\nprovider = \"demo\"\nmodel = \"demo\"\nfilters = {filters}\n")
    };
    let config = [config("squared", "[\"a\", \"b\"]"), config("grown", "[\"a\", \"c\"]")].concat();
    let files = [("a", many), ("b", many), ("c", large)];
    let files = files.map(|(id, text)| (format!("filters/{id}.rhai"), text.to_owned()));
    let limits = Limits::beside_harmless();
    let mut host = Host::start_with(&config, 6 << 20, files);
    for model in ["squared", "grown"] {
        let answer = host.ask(model, "many words", true);
        assert!(answer.is(500), "{model}: {answer:.400?}");
    }
    let (calm, resident) = (host.ask("calm", "hello", false), host.resident());
    let log = host.end();
    assert!(calm.is(200), "{calm:?}\n{log}");
    assert!(log.contains("MiB of one event"), "{log}");
    assert!(resident < limits.resident, "{} MB", resident >> 20);
}
