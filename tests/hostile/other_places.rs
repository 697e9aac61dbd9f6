//! Every other place where a script runs: streams, tools, the hooks around both, and state between calls.

use super::{BUDGET, CONTAINERS, Comes, DEEP, DEPTH, Hostile, LENGTH, MEMORY, OPERATIONS, SIZE, TIME};
use Comes::{Breaks, Ends, Fails, NotLoaded, Refuses, ToolFails, Well};
use std::time::Duration;
use valvehouse_testkit::slowness;

/// The budgets of `stream` and `stream_end`.
const STREAM: &[&str] = &["limit of 50000 operations", TIME];

/// Hostile filters in other hooks: the source and the expected result.
const FILTERS: &[(&str, &str, Comes)] = &[
    ("pre_chat loop", "fn pre_chat(ctx) { loop {} }", Breaks(BUDGET)),
    ("post_chat loop", "fn post_chat(ctx) { loop {} }", Breaks(BUDGET)),
    ("outlet loop", "fn outlet(body) { loop {} }", Breaks(BUDGET)),
    (
        "outlet growth",
        "fn outlet(body) { loop { body.messages[-1].text += body.messages[-1].text; } }",
        Breaks(&[SIZE, OPERATIONS, TIME, MEMORY]),
    ),
    (
        "pre_chat context",
        "fn pre_chat(ctx) { ctx.context = ctx; ctx.messages = ctx; ctx }",
        Breaks(&["put inside itself"]),
    ),
    (
        "context flood",
        "fn pre_chat(ctx) { let s = \"\"; s.pad(1_000_000, \"x\"); loop { ctx.context.set(`k${ctx.context.len()}`, s); } }",
        Breaks(BUDGET),
    ),
    ("post_chat result gone", "fn post_chat(ctx) { ctx.result = 5; ctx }", Well),
    (
        "state in itself",
        "fn inlet(body, state, __metadata__) { state.m = __metadata__; __metadata__.s = state; body }",
        Breaks(&["put inside itself"]),
    ),
    (
        "state and metadata",
        "fn inlet(body, state, __metadata__) { state.x = []; state.x.push(__metadata__); __metadata__.y = #{ z: state.x }; body }",
        Breaks(&["put inside itself"]),
    ),
    // Values that occur in many places.
    (
        "laughs",
        "fn inlet(body) { body.x = [\"ha\"]; let x = body.x; for i in 0..100 { body.x = [x, x]; x = body.x; } body }",
        Fails(400),
    ),
    (
        "laughs unseen",
        "fn inlet(body) { let x = body.messages.filter(|m| false); let none = x; for i in 0..100 { x = none + [x, x]; } body.x = x; body }",
        Fails(400),
    ),
    (
        "laughs copied",
        "fn inlet(body) { let x = body.messages.filter(|m| false); let none = x; for i in 0..100 { x = none + [x, x]; } let y = x.copy(); y == x && y.copy() == x.copy() }",
        Breaks(&["returned true or false"]),
    ),
    (
        "laughs told",
        "fn inlet(body) { let x = body.messages.filter(|m| false); let none = x; for i in 0..100 { x = none + [x, x]; } try { print(x); } catch {} try { `${x}`; } catch {} try { json::stringify(x, 2); } catch {} try { tokens::count(x); } catch {} try { hash::sha256(x); } catch {} try { text::join(x, \"\"); } catch {} throw x }",
        Ends(BUDGET),
    ),
    (
        "laughs emitted",
        "fn inlet(body) { let x = body.messages.filter(|m| false); let none = x; for i in 0..100 { x = none + [x, x]; } emit(#{ type: \"x\", data: x }); body }",
        Breaks(&["larger than 1048576 bytes"]),
    ),
    (
        "laughs skipped",
        "fn inlet(body) { let x = body.messages.filter(|m| false); let none = x; for i in 0..100 { x = none + [x, x]; } skip(x) }",
        Well,
    ),
    (
        "laughs kept",
        "fn inlet(body, state, __metadata__) { let x = body.messages.filter(|m| false); let none = x; for i in 0..100 { x = none + [x, x]; } state.x = x; __metadata__.x = x; body.metadata = #{ x: x }; }",
        Well,
    ),
    (
        "laughs over catch",
        "fn inlet(body) { let x = [1]; for i in 0..60 { try { throw #{ message: \"m\", x: [x, x] }; } catch (e) { x = e.x; } } body.x = x; body }",
        Fails(400),
    ),
    (
        "laughs deep",
        "fn inlet(body) { let x = body.messages.filter(|m| false); let none = x; for i in 0..50_000 { x = none + [x, x]; } let y = x.copy(); if x == y { body.x = x; } body }",
        Breaks(DEEP),
    ),
    (
        "one text a thousand times",
        "fn inlet(body) { let s = \"\"; s.pad(1_000_000, \"x\"); body.s = [s]; let one = body.s; body.all = []; for i in 0..5_000 { body.all.push(one); } body }",
        Fails(400),
    ),
    (
        "one message a thousand times",
        "fn inlet(body) { let s = \"\"; s.pad(1_000_000, \"x\"); body.messages[0].content = s; let one = body.messages[0]; for i in 0..5_000 { body.messages.push(one); } body }",
        Fails(400),
    ),
    (
        "one part a thousand times",
        "fn inlet(body) { let s = \"\"; s.pad(1_000_000, \"x\"); body.part = #{ type: \"text\", text: s }; let one = body.part; body.messages[0].content = []; for i in 0..5_000 { body.messages[0].content.push(one); } body }",
        Fails(400),
    ),
    (
        "its text",
        "fn inlet(body) { let s = \"\"; s.pad(1_000_000, \"x\"); body.part = #{ type: \"text\", text: s }; let one = body.part; body.messages[0].content = []; for i in 0..5_000 { body.messages[0].content.push(one); } body.messages[0].text.len(); body }",
        Breaks(&[SIZE, OPERATIONS, TIME, MEMORY]),
    ),
    (
        "its texts",
        "fn inlet(body) { let s = \"\"; s.pad(1_000_000, \"x\"); body.part = #{ type: \"text\", text: s }; let one = body.part; body.messages[0].content = []; for i in 0..5_000 { body.messages[0].content.push(one); } let n = 0; for t in body.texts { n += t.text.len(); } body }",
        Breaks(BUDGET),
    ),
    (
        "json of small values",
        "fn inlet(body) { let s = \"[\"; s.pad(3_900_000, \"[],\"); json::parse(s + \"1]\"); body }",
        Breaks(&["more than 200000 values", OPERATIONS, TIME]),
    ),
    // Paths.
    (
        "ensure far",
        "fn inlet(body) { let p = \"\"; p.pad(4_000_000, \"a.\"); body.ensure(p, 1); body }",
        Breaks(&["limit of 128 nested levels", OPERATIONS, TIME]),
    ),
    (
        "ensure deep often",
        "fn inlet(body) { let m = body; for i in 0..100_000 { m = m.ensure(\"a.a.a.a\", #{}); } body }",
        Breaks(BUDGET),
    ),
    (
        "at far",
        "fn inlet(body) { let p = \"\"; p.pad(4_000_000, \"a.\"); loop { body.at(p); } }",
        Breaks(BUDGET),
    ),
    (
        "at odd",
        "fn inlet(body) { let p = \"\"; p.pad(4_000_000, \".\"); body.at(p); for p in [\"messages.-9223372036854775808.x\", \"messages.99999999999999999999\", \"messages.-1.-1.-1\", \"\", \".\", \"\\u0000.a\"] { body.at(p); body.ensure(p, 1); } }",
        Breaks(&[OPERATIONS, TIME, MEMORY, "only objects have keys"]),
    ),
    (
        "deep then copied",
        "fn inlet(body) { let m = body; for i in 0..100_000 { m.x = #{}; m = m.x; } let c = body.copy(); if c == body { print(c); } body }",
        Breaks(&[CONTAINERS, OPERATIONS, TIME, MEMORY]),
    ),
    (
        "deep and returned",
        "fn inlet(body) { let m = body; for i in 0..20_000 { m.x = #{}; m = m.x; } body }",
        Ends(BUDGET),
    ),
    // Values that are thrown.
    (
        "throws odd statuses",
        "fn inlet(body) { for s in [\"abc\", -1, 1.0e300, [1], #{}, 9223372036854775807, true, ()] { try { throw #{ status: s, message: #{ a: s }, retry_after: s, fatal: s }; } catch (e) { `${e}`; e.status; e.line; } } throw #{ status: \"429\", message: [[[1]]], retry_after: \"x\" } }",
        Refuses(500),
    ),
    (
        "throws a long wait",
        "fn inlet(body) { throw #{ status: 429, message: \"m\", retry_after: 1.0e300 } }",
        Refuses(429),
    ),
    (
        "throws a negative wait",
        "fn inlet(body) { throw #{ status: 429, message: \"m\", retry_after: -1.0e300 } }",
        Refuses(429),
    ),
    (
        "throws many keys",
        "fn inlet(body) { let m = #{ message: \"m\" }; for i in 0..9_000 { m[`k${i}`] = [[[[i]]]]; } throw m }",
        Refuses(400),
    ),
    (
        "throws line ends",
        "fn inlet(body) { throw #{ status: 418, message: \"a\\r\\nx-evil: 1\\r\\n\\r\\n\\u0000\\u202e\" } }",
        Refuses(418),
    ),
    ("denies oddly", "fn inlet(body) { deny(#{ message: #{ a: [1] } }, -5) }", Refuses(500)),
    // Functions as values.
    (
        "prints closures",
        "fn inlet(body) { let f = |x| x; loop { f = |y| f.call(y); print(f); debug([f, #{ f: f }]); } }",
        Breaks(BUDGET),
    ),
    (
        "fn of nothing",
        "fn inlet(body) { for n in [\"\", \"Fn\", \"eval\", \"inlet!\", \"print\", \"no_such\", \"call\", \"if\"] { try { let f = Fn(n); f.call(\"loop {}\"); } catch {} } body }",
        Breaks(&["reserved keyword"]),
    ),
    ("fn calls itself", "fn inlet(body) { let f = Fn(\"inlet\"); f.call(body) }", Breaks(&[DEPTH])),
    (
        "fn curried with itself",
        "fn id(a) { a } fn inlet(body) { let f = Fn(\"id\"); loop { f = f.curry(f); } }",
        Breaks(BUDGET),
    ),
    (
        "functions in the body",
        "fn inlet(body) { body.f = |x| x; body }",
        Breaks(&["a function is not a JSON value"]),
    ),
    (
        "functions in the state",
        "fn inlet(body, state) { state.f = Fn(\"inlet\"); body }",
        Breaks(&["a function is not a JSON value"]),
    ),
    // Values that are kept between calls.
    (
        "kv flood",
        "/*\nrequirements: kv\n*/\nfn inlet(body) { let s = \"\"; s.pad(60_000, \"x\"); let i = 0; loop { kv::set(`k${i}`, s); i += 1; } }",
        Breaks(&["limit of 16 MiB", OPERATIONS, TIME, MEMORY]),
    ),
    (
        "kv flood of one key",
        "/*\nrequirements: kv\n*/\nfn inlet(body) { loop { kv::user::incr(\"k\"); } }",
        Breaks(&[OPERATIONS, TIME]),
    ),
    (
        "kv flood of updates that fail",
        "/*\nrequirements: kv\n*/\nfn inlet(body) { loop { try { kv::update(\"k\", |a, b| 1); } catch {} } }",
        Breaks(&[OPERATIONS, TIME]),
    ),
    (
        "texts of escapes",
        "fn inlet(body) { let s = \"\"; s.pad(4_000_000, \"\\\"\\u0001\"); loop { try { debug(s); } catch {} } }",
        Breaks(&[SIZE, OPERATIONS, TIME, MEMORY]),
    ),
    (
        "texts of many elements",
        "fn inlet(body) { let a = []; a.pad(90_000, 1); loop { try { print(a); } catch {} } }",
        Breaks(&[OPERATIONS, TIME]),
    ),
    (
        "kv update in update",
        "/*\nrequirements: kv\n*/\nfn again(n) { kv::update(\"k\", |old| again(n + 1)) } fn inlet(body) { again(0); body }",
        Breaks(&[DEPTH]),
    ),
    (
        "kv odd values",
        "/*\nrequirements: kv\n*/\nfn inlet(body) { for v in [|x| x, body, #{ a: 0.0 / 0.0 }, [[[[]]]], 9223372036854775807] { try { kv::set(\"k\", v, -1); } catch {} try { kv::set(\"k\", v, 9223372036854775807); } catch {} try { kv::incr(\"k\", 9223372036854775807); } catch {} try { kv::window(\"k\", -5, 9223372036854775807); } catch {} try { kv::user::incr(\"\", -1); } catch {} } body }",
        Well,
    ),
    (
        "kv window flood",
        "/*\nrequirements: kv\n*/\nfn inlet(body) { loop { kv::window(\"w\", 9223372036854775807, 9223372036854775807); } }",
        Breaks(&["must be above 0"]),
    ),
    (
        "llm recursion",
        "/*\nrequirements: llm\n*/\nfn inlet(body) { let r = llm::chat(#{ model: \"hostile\", messages: body.messages }); body.messages[0].content = r.content; body }",
        Well,
    ),
    (
        "llm flood of words",
        "/*\nrequirements: llm\n*/\nfn inlet(body) { let s = \"\"; s.pad(3_000_000, \"word \"); for i in 0..5 { llm::chat(#{ model: \"calm\", messages: [#{ role: \"user\", content: s }] }); } body }",
        // On a busy machine, the models take longer than the hook may wait.
        Ends(BUDGET),
    ),
    // Records of the host.
    (
        "vectors flood",
        "/*\nrequirements: vectors\n*/\nfn inlet(body) { let v = []; v.pad(4_096, 0.5); let i = 0; loop { vectors::add(`k${i}`, v, body); i += 1; } }",
        Breaks(BUDGET),
    ),
    (
        "vectors flood at once",
        "/*\nrequirements: vectors\n*/\nfn inlet(body) { let v = []; v.pad(4_000, 0.5); let all = []; all.pad(1_000, #{ id: \"a\", vector: v }); loop { vectors::add_all(all); } }",
        Breaks(&[LENGTH]),
    ),
    (
        "vectors searched without end",
        "/*\nrequirements: vectors\n*/\nfn inlet(body) { let v = []; v.pad(4_096, 0.5); vectors::add(\"a\", v); loop { vectors::nearest(v, 1_000); } }",
        Breaks(BUDGET),
    ),
    (
        "vectors odd values",
        "/*\nrequirements: vectors\n*/\nfn inlet(body) { for v in [[], [0.0], [0.0 / 0.0], [1.0 / 0.0], [[1]], [\"1\"], body, |x| x, 5, ()] { try { vectors::add(\"a\", v); } catch {} try { vectors::add_all([#{ id: \"a\", vector: v }, v]); } catch {} try { vectors::nearest(v, 9223372036854775807); } catch {} try { vectors::nearest([1.0], -1); } catch {} try { vectors::add(\"\\0\", [1.0], v); } catch {} try { vectors::user::add(\"a\", [1.0]); } catch {} } body }",
        Well,
    ),
    (
        "embeddings flood",
        "/*\nrequirements: llm\n*/\nfn inlet(body) { let s = \"\"; s.pad(200_000, \"word \"); loop { llm::embed(s); } }",
        Breaks(BUDGET),
    ),
    (
        "embeddings of too much",
        "/*\nrequirements: llm\n*/\nfn inlet(body) { let s = \"\"; s.pad(500_000, \"word \"); let many = []; many.pad(257, \"a\"); for v in [s, many, [s], [5], body, 5, (), |x| x] { try { llm::embed(v); } catch {} try { llm::embed(\"a\", #{ model: v }); } catch {} } body }",
        Ends(BUDGET),
    ),
    (
        "records without a grant",
        "/*\nrequirements: chats, memories\n*/\nfn inlet(body) { chats::list(); memories::list(); body }",
        Breaks(&["is not allowed to use `chats`"]),
    ),
    (
        "documents without end",
        "fn inlet(body) { let s = \"<html>\"; s.pad(3_900_000, \"<\"); let zip = hash::digest(\"md5\", \"\"); \
         let pdf = \"%PDF-1 0 obj\"; pdf.pad(3_900_000, \"[0 R\"); \
         loop { documents::text(s); try { documents::text(zip); } catch {} try { documents::text(pdf); } catch {} } }",
        Breaks(BUDGET),
    ),
    (
        "uploads that are none",
        "fn inlet(body) { for v in [0, -1, 9223372036854775807, \"\", \"x\", (), body, |x| x] { try { uploads::text(v); } catch {} try { uploads::bytes(v); } catch {} } uploads::list(); body }",
        Well,
    ),
];

/// Files whose requests have a streamed response of many words.
const STREAMS: &[(&str, &str, Comes)] = &[
    ("stream loop", "fn stream(event) { loop {} }", Breaks(STREAM)),
    (
        "stream doubling",
        "fn stream(event) { let s = \"x\"; loop { s += s; } }",
        Breaks(&[SIZE, STREAM[0], STREAM[1]]),
    ),
    (
        "stream of many",
        "fn stream(event) { let e = []; e.pad(20_000, event); e }",
        Breaks(&["20000 events", STREAM[0], STREAM[1]]),
    ),
    (
        "stream of much",
        "fn stream(event) { let s = \"\"; s.pad(100_000, \"x\"); event.text = s; event }",
        Ends(STREAM),
    ),
    (
        "stream state",
        "fn stream(event, state) { let s = \"\"; s.pad(100_000, \"x\"); state[`k${state.len()}`] = s; }",
        Ends(STREAM),
    ),
    (
        "stream metadata",
        "fn stream(event, __metadata__) { let s = \"\"; s.pad(100_000, \"x\"); __metadata__[`k${__metadata__.len()}`] = s; }",
        Ends(STREAM),
    ),
    (
        "stream events",
        "fn stream(event) { let s = \"\"; s.pad(100_000, \"x\"); for i in 0..3 { emit(#{ type: \"x\", data: s }); } }",
        Ends(&["8 MiB", STREAM[0], STREAM[1]]),
    ),
    ("stream prints", "fn stream(event) { loop { print(event); } }", Breaks(STREAM)),
    (
        "stream answers oddly",
        "fn stream(event) { [1, \"x\", [event], #{}, event] }",
        Breaks(&["number in it"]),
    ),
    (
        "stream shares events",
        "fn stream(event, state) { state.e = event; event.choices[0].delta.content = [state.e]; event }",
        Breaks(&["put inside itself"]),
    ),
    ("stream end loop", "fn stream_end(state) { loop {} }", Breaks(STREAM)),
    (
        "stream end large",
        "fn stream_end(state) { let s = \"\"; s.pad(400_000, \"x\"); [#{ text: s }, #{ text: s }, #{ text: s }] }",
        Ends(STREAM),
    ),
    (
        "stream end of many",
        "fn stream_end(state) { let e = []; e.pad(90_000, #{ text: \"x\" }); e }",
        Breaks(&["a map exceeded its limit", LENGTH, SIZE, STREAM[0], STREAM[1]]),
    ),
];

/// Tools, each called once by the model.
const TOOLS: &[(&str, &str, Comes)] = &[
    (
        "tool loop",
        "/*\ntimeout: 500\n*/\nfn handler(args) { loop {} }",
        ToolFails(&["limit of 10000000 operations", MEMORY, TIME]),
    ),
    (
        "tool memory",
        "/*\ntimeout: 5000\n*/\nfn handler(args) { let a = []; loop { let s = \"\"; s.pad(100_000, \"x\"); a.push(s); } }",
        ToolFails(&[SIZE, MEMORY, TIME]),
    ),
    (
        "tool live memory",
        "/*\ntimeout: 5000\n*/\nfn handler(args, ctx) { let s = \"\"; s.pad(100_000, \"x\"); loop { ctx.set(`k${ctx.len()}${random::float()}`, s); } }",
        ToolFails(&["limit of 10000000 operations", MEMORY, TIME]),
    ),
    ("tool recursion", "fn handler(args) { handler(args) }", ToolFails(&["stack overflow"])),
    (
        "tool answers large",
        "fn handler(args) { let s = \"\"; s.pad(4_000_000, \"x\"); #{ a: s, b: s, c: s } }",
        ToolFails(&[SIZE, MEMORY, TIME]),
    ),
    ("tool answers oddly", "fn handler(args) { #{ f: |x| x } }", ToolFails(&["not valid JSON"])),
    (
        "tool laughs",
        "fn handler(args, ctx) { ctx.l = [1]; let x = ctx.l; for i in 0..60 { ctx.l = [x, x]; x = ctx.l; } ok(x, ctx) }",
        ToolFails(&["invalid result"]),
    ),
    (
        "tool context in itself",
        "fn handler(args, ctx) { ctx.me = ctx; ctx.set(\"me\", ctx); ok(ctx, ctx) }",
        ToolFails(&["put inside itself"]),
    ),
    (
        "tool deep",
        "fn handler(args, ctx) { let m = args; for i in 0..100_000 { m.x = #{}; m = m.x; } args.copy() }",
        ToolFails(&["cannot copy the value"]),
    ),
    (
        "tool tries for ever",
        "/*\nretry: 1000000000, 0\ntimeout: 1000\n*/\nfn handler(args) { throw \"again\" }",
        NotLoaded(&["as its `retry`"]),
    ),
    (
        "tool throws fatally",
        "fn handler(args) { throw #{ message: \"m\", fatal: true, status: 1.0e300 } }",
        Fails(500),
    ),
    (
        "tool asks nobody",
        "/*\ntimeout: 300\n*/\nfn handler(args) { ask(#{ type: \"input\", data: 1, timeout: 9223372036854775807 }) }",
        ToolFails(&["nobody can answer"]),
    ),
    ("tool list loop", "fn tools() { loop {} }", NotLoaded(&["exceeded its"])),
    (
        "tool list long",
        "fn tools() { let all = []; for i in 0..5_000 { all.push(#{ name: `t${i}`, description: \"d\", handler: |args| 1 }); } all }",
        NotLoaded(&["exceeded its"]),
    ),
    (
        "tool pattern",
        "const parameters = #{ a: #{ type: \"string\", pattern: \"((a{1000}){1000}){1000}\" } };\nfn handler(args) { 1 }",
        NotLoaded(&["not a regular expression"]),
    ),
];

/// Calls with unusual arguments: each fails by itself or has a harmless effect.
const ODD: &[&str] = &[
    "text::truncate(\"abc\", -1)",
    "text::truncate(\"abc\", 9223372036854775807, \"ü\")",
    "text::fixed(1.0, 1_000_000)",
    "text::fixed(1.0e300, 100)",
    "text::replace(\"aaa\", \"\", \"b\", 9223372036854775807)",
    "text::similar(\"\", \"\")",
    "text::join(#{}, 5)",
    "random::int(5, 1)",
    "random::int(-9223372036854775808, 9223372036854775807)",
    "random::choice([])",
    "time::iso(1.0e300)",
    "time::iso(-9223372036854775808)",
    "time::iso(9223372036854775807, \"Mars/Base\")",
    "time::iso(0.0 / 0.0)",
    "time::format(0, \"%\")",
    "time::format(1.0e18, \"%Y %Q %% %999999999d\")",
    "time::parse(\"99999999999999999999\", \"%Y\")",
    "time::parse(\"\", \"\")",
    "\"x\".pad(-5, \"y\")",
    "[1].pad(-9223372036854775808, 0)",
    "[1, 2].extract(-99999999999, 99999999999)",
    "[1, 2].splice(-9, 9223372036854775807, [])",
    "[1, 2].splice(1..9223372036854775807, [1])",
    "[1, 2].drain(9999..99999)",
    "[1, 2].drain(-9223372036854775808, 9223372036854775807)",
    "[1, 2].chop(-9223372036854775808)",
    "[1, 2].truncate(-1)",
    "[1, 2].remove(-9223372036854775808)",
    "[1, 2].insert(-9223372036854775808, 1)",
    "[1, 2].split(-9223372036854775808)",
    "[1, 2][-9223372036854775808]",
    "[3, \"a\", 1.5, ()].sort()",
    "[0.0 / 0.0, 1.0].sort()",
    "\"ü\".sub_string(-9223372036854775808, 9223372036854775807)",
    "\"ü\".sub_string(1..9223372036854775807)",
    "\"ü\".crop(-9223372036854775808, -1)",
    "\"ü\".remove(\"\")",
    "\"ü\".index_of(\"ü\", -9223372036854775808)",
    "\"ü\".split(-9223372036854775808)",
    "\"ü\".truncate(-1)",
    "\"ü\"[-9223372036854775808]",
    "\"üü\"[0..1]",
    "body.messages[-9223372036854775808]",
    "body.messages[-9223372036854775808..9223372036854775807]",
    "body.messages[9223372036854775807..=-9223372036854775808]",
    "body.messages.insert(-9223372036854775808, #{})",
    "body.messages.remove(9223372036854775807)",
    "body.messages.keep_last(9223372036854775807)",
    "body.messages.tail(-9223372036854775808)",
    "body.messages.splice(-9, 9223372036854775807, [])",
    "body.messages.drain(5, 9223372036854775807)",
    "body.messages.pad(-1, #{})",
    "body.messages.chop(-1)",
    "body.messages.last(5)",
    "body.messages.system = #{}",
    "body.messages[0].text = ()",
    "body.messages[0].parts = 5",
    "(-9223372036854775808).abs()",
    "-9223372036854775808 / -1",
    "-9223372036854775808 % -1",
    "9223372036854775807 ** 9223372036854775807",
    "2 ** 64",
    "1 << -1",
    "1 >> 9223372036854775807",
    "(1.0e300).to_int()",
    "(0.0 / 0.0).to_int()",
    "parse_int(\"99999999999999999999\")",
    "parse_int(\"zz\", 99)",
    "parse_int(\"1\", 0)",
    "parse_float(\"1e999999\")",
    "range(0, 10, 0)",
    "range(-9223372036854775808, 9223372036854775807, -9223372036854775808).contains(0)",
    "{ let n = 0; for i in range(9223372036854775800, 9223372036854775807, 5) { n += 1; } }",
    "{ let x = 5; set_bits(x, 60..9223372036854775807, 1) }",
    "get_bits(5, -9223372036854775808, 9223372036854775807)",
    "{ for b in bits(5, 60, 99) { b; } }",
    "blob(-1)",
    "blob(10, 999)",
    "blob(10).parse_le_int(-99, 9223372036854775807)",
    "{ let b = blob(10); b.write_utf8(5..9223372036854775807, \"üüüü\") }",
    "{ let b = blob(10); b.write_le(-9223372036854775808, 99, 5) }",
    "blob(10).extract(-99, 9223372036854775807)",
    "{ let b = blob(10); b.splice(-9, 9223372036854775807, blob(3)) }",
    "regex::replace(\"aaa\", \"(a)\", \"$1$2${x}$${\")",
    "regex::find(\"a\", \"(\")",
    "regex::captures(\"aaa\", \"(a)|(b)\")",
    "regex::split(\"\", \"\")",
    "regex::replace(\"aaa\", \"a\", |g| 5)",
    "regex::replace(\"aaa\", \"a\", |g| throw \"x\")",
    "base64::decode(\"???\")",
    "url::parse(\"http://[::1\")",
    "url::parse(\"data:,x\")",
    "url::decode(\"%ff%\")",
    "url::query(#{ a: [#{}], b: |x| x })",
    "html::unescape(\"&#99999999999999;&#xd800;&\")",
    "html::text(\"<a <b <![CDATA[ <!-- <script>\")",
    "json::stringify(#{ a: 0.0 / 0.0 }, 99)",
    "json::stringify(|x| x)",
    "json::parse(\"{\\\"a\\\": 1e999}\")",
    "hash::hmac_sha256(\"\", \"\")",
    "tokens::count([#{ role: 5, content: #{} }], \"no-such-model\")",
    "tokens::count(())",
    "uuid().sub_string(-1)",
    "emit(5)",
    "emit(#{ type: 5 })",
    "ask(#{ type: \"x\", timeout: -1 })",
    "body.copy().copy().mixin(body)",
    "body += body",
    "body.set(\"\", body.keys())",
    "body.remove(())",
    "body.get(5)",
    "body.ensure(\"\", 5)",
    "body.at(5)",
    "body[5]",
    "body[()] = 1",
    "empty(|x| x)",
    "timestamp() - timestamp()",
    "timestamp() + 9.0e18",
    "timestamp() - 9223372036854775807",
    "to_hex(-9223372036854775808)",
    "to_string(body.messages)",
    "type_of(|x| x).call()",
    "is_def_fn(\"inlet\", -9223372036854775808)",
    "sleep(-1)",
    "models::get(5)",
    "models::list()[99]",
];

pub(super) fn all() -> impl Iterator<Item = Hostile> {
    let filters = FILTERS.iter().map(|(name, text, comes)| Hostile::filter(name, (*text).to_owned(), *comes));
    // A script that does not fail receives every event of the response, with a deadline for each.
    let events = |comes: &Comes| if matches!(comes, Ends(_)) { 50 } else { 1 };
    let streams = STREAMS.iter().map(move |(name, text, comes)| Hostile {
        says: "many words ".repeat(25),
        streams: true,
        deadline: super::STREAM / slowness() * events(comes),
        ..Hostile::filter(name, (*text).to_owned(), *comes)
    });
    let tools = TOOLS.iter().map(|(name, text, comes)| Hostile {
        file: "tools/hostile.rhai",
        says: "/hostile".to_owned(),
        deadline: Duration::from_secs(2),
        ..Hostile::filter(name, (*text).to_owned(), *comes)
    });
    let odd =
        ODD.iter().map(|call| format!("try {{ {call}; }} catch (e) {{ `${{e}}`; }}\n")).collect::<String>();
    let odd = Hostile::filter(
        "odd arguments",
        format!("fn inlet(body) {{\n{odd}body.messages = []; body }}"),
        Well,
    );
    filters.chain(streams).chain(tools).chain([odd])
}
