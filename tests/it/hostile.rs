//! Scripts that mean harm, each in a process of its own with little address space: every one ends in
//! time with an error that names it, or does what an honest script may, and the process lives on.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Virtual memory of a process, in KiB. Stacks are 256 MiB each, of which only what is used is backed.
const ADDRESS_SPACE: u64 = 6 << 20;
/// What a process may have resident on top of a harmless one, in KiB.
const RESIDENT: u64 = 128 << 10;
/// Twice a hook's time, and what a slow machine and an unoptimised binary need to start.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bodies of `fn inlet(body)`.
const INLETS: &[(&str, &str)] = &[
    ("loop", "loop {}"),
    ("while", "while true { 1 + 1; }"),
    ("long range", "for i in 0..1_000_000_000_000 {}"),
    ("tiny steps", "let x = 0.0; while x < 1.0 { x += 0.000000000001; }"),
    ("do until", "do { let x = 1; } until false"),
    ("deep recursion", "deep(0)"),
    ("mutual recursion", "ping(0)"),
    ("closure recursion", "let f = |g| g.call(g); f.call(f)"),
    ("callback recursion", "[1].map(|x| deep(x))"),
    ("string doubling", "let s = \"x\"; loop { s += s; }"),
    ("interpolation", "let s = \"x\"; loop { s = `${s}${s}`; }"),
    ("string times", "let s = \"x\"; s.pad(4_000_000_000, \"x\"); s"),
    ("replace growth", "let s = \"a\"; loop { s.replace(\"a\", \"aa\"); }"),
    ("text::replace growth", "let s = \"a\"; loop { s = text::replace(s, \"a\", \"aa\"); }"),
    ("regex::replace growth", "let s = \"a\"; loop { s = regex::replace(s, \"a\", \"aa\"); }"),
    ("array doubling", "let a = [1]; loop { a += a; }"),
    ("array append itself", "let a = [1]; loop { a.append(a); }"),
    ("array pad", "let a = []; a.pad(4_000_000_000, 0); a"),
    ("array nesting", "let a = []; loop { a = [a, a]; }"),
    ("array chain", "let a = []; loop { a = [a]; }"),
    ("array push", "let a = []; let s = \"\"; s.pad(100_000, \"x\"); loop { a.push(s + a.len()); }"),
    (
        "array index",
        "let a = [0]; let s = \"\"; s.pad(100_000, \"x\"); let i = 0; loop { a.push(0); a[i] = s + i; i += 1; }",
    ),
    (
        "map index",
        "let m = #{}; let s = \"\"; s.pad(100_000, \"x\"); let i = 0; loop { m[`${i}`] = s + i; i += 1; }",
    ),
    ("many keys", "let m = #{}; let i = 0; loop { m[`k${i}`] = i; i += 1; }"),
    ("map chain", "let m = #{}; loop { m = #{ m: m }; }"),
    ("blob", "let b = blob(4_000_000_000); b"),
    ("blob growth", "let b = blob(1000); loop { b.append(b); }"),
    ("live array", "loop { body.messages.push(#{ role: \"user\", content: \"x\" }); }"),
    ("live map", "let i = 0; loop { body[`k${i}`] = i; i += 1; }"),
    ("live nesting", "let m = body; loop { m.x = #{}; m = m.x; }"),
    ("live text", "body.t = \"x\"; loop { body.t += body.t; }"),
    ("live copies", "body.a = []; loop { body.a.push(body.copy()); }"),
    ("live in itself", "body.me = body; body"),
    ("live in its child", "body.messages[0].me = body.messages; body"),
    ("metadata", "loop { body.ensure(`a.b.c${body.len()}`, #{}); body[`x${body.len()}`] = 1; }"),
    ("linked closures", "let cur = || 0; loop { let p = cur; cur = || p; }"),
    ("curry", "let f = |x| x; let s = \"\"; s.pad(100_000, \"x\"); loop { f = f.curry(s + 1); }"),
    ("captured", "let keep = []; loop { let s = \"\"; s.pad(100_000, \"x\"); keep.push(|| s); }"),
    (
        "callbacks",
        "let a = []; a.pad(1000, 0); loop { a.map(|x| { let i = 0; while i < 1000 { i += 1; } }); }",
    ),
    (
        "reduce",
        "let a = []; a.pad(1000, 0); loop { a.reduce(|s, x| { let i = 0; while i < 1000 { i += 1; } i }, 0); }",
    ),
    (
        "sort",
        "let a = []; a.pad(10_000, 0); loop { a.sort(|a, b| if random::int(0, 1) == 0 { -1 } else { 1 }); }",
    ),
    ("heavy natives", "let s = \"\"; s.pad(1_000_000, \"ab\"); loop { s.split(\"a\"); }"),
    ("compare", "let a = []; a.pad(90_000, \"x\"); let b = a; loop { a == b; }"),
    ("clones", "let a = []; a.pad(90_000, \"x\"); loop { let b = a; b.push(1); }"),
    ("json growth", "let v = #{ a: 1 }; loop { v = #{ a: json::stringify(v) }; }"),
    ("json deep", "let s = \"\"; s.pad(200_000, \"[\"); json::parse(s)"),
    ("json wide", "let s = \"[\"; s.pad(1_000_000, \"1,\"); loop { json::parse(s + \"1]\"); }"),
    ("regex bomb", "regex::is_match(\"x\", \"(a{1000}){1000}\")"),
    ("regex compile loop", "let i = 0; loop { regex::is_match(\"x\", `a{1,${100 + i}}`); i += 1; }"),
    ("regex long text", "let s = \"\"; s.pad(3_000_000, \"a\"); loop { regex::find_all(s, \"a*b\"); }"),
    ("regex many groups", "let s = \"\"; s.pad(3_000_000, \"a\"); regex::find_all(s, \"a\").len()"),
    ("base64", "let s = \"x\"; loop { s = base64::encode(s); }"),
    ("url", "let s = \"%\"; loop { s = url::encode(s); }"),
    ("hash", "let s = \"\"; s.pad(4_000_000, \"x\"); loop { hash::sha256(s); }"),
    ("tokens", "let s = \"\"; s.pad(3_000_000, \"word \"); loop { tokens::count(s); }"),
    ("html", "let s = \"\"; s.pad(3_000_000, \"<a>\"); loop { html::text(s); }"),
    (
        "similar",
        "let s = \"\"; s.pad(1_000_000, \"ab\"); let t = \"\"; t.pad(1_000_000, \"ba\"); text::similar(s, t)",
    ),
    ("join", "let a = []; a.pad(90_000, \"xxxxxxxxxx\"); loop { text::join(a, \"----------\"); }"),
    ("time format", "let s = \"\"; s.pad(1_000_000, \"%A\"); loop { time::format(0, s); }"),
    ("sleep", "sleep(60); body"),
    ("eval", "eval(\"loop {}\")"),
    ("print flood", "loop { print(\"x\"); }"),
    ("print large", "let s = \"\"; s.pad(4_000_000, \"x\"); loop { print(s); }"),
    ("emit flood", "loop { emit(#{ type: \"x\", data: \"x\" }); }"),
    ("emit large", "let s = \"\"; s.pad(1_000_000, \"x\"); loop { emit(#{ type: \"x\", data: s }); }"),
    ("state", "loop { body.len(); let s = \"\"; s.pad(1_000_000, \"x\"); state[`k${state.len()}`] = s; }"),
    (
        "metadata flood",
        "loop { let s = \"\"; s.pad(1_000_000, \"x\"); __metadata__[`k${__metadata__.len()}`] = s; }",
    ),
    ("caught", "loop { try { loop {} } catch (e) {} }"),
    ("caught throws", "loop { try { throw \"x\"; } catch (e) {} }"),
    ("caught depth", "loop { try { deep(0); } catch (e) {} }"),
    ("data race", "let x = 1; let f = || x; loop { try { x = f.call() + f.call(); } catch {} }"),
    ("caught size", "loop { try { let s = \"x\"; loop { s += s; } } catch (e) {} }"),
    ("returns deep", "let a = []; for i in 0..5_000 { a = [a]; } body.a = a; body"),
    ("returns function", "|x| x"),
    ("returns number", "5"),
    ("returns nan", "body.x = 0.0 / 0.0; body"),
    ("messages gone", "body.remove(\"messages\"); body"),
    ("messages a text", "body.messages = \"x\"; body"),
    ("throws deep", "let a = []; for i in 0..5_000 { a = [a]; } throw a"),
    ("throws closure", "throw |x| x"),
    ("throws large", "let s = \"\"; s.pad(4_000_000, \"x\"); throw s"),
    ("skip large", "let s = \"\"; s.pad(4_000_000, \"x\"); skip(s)"),
    ("arithmetic", "9223372036854775807 + 1"),
    ("division", "1 / 0"),
    ("shift", "1 << 1000"),
    ("negative power", "2 ** -1"),
    ("huge power", "let x = 2; loop { x = x ** 2; }"),
    ("index far", "body.messages[99999999999]"),
    ("index negative", "body.messages[-99999999999]"),
    ("slice far", "body.messages[0..99999999999].len(); loop {}"),
    ("keep_last negative", "body.messages.keep_last(-5); body"),
    ("bits", "let x = 0; loop { set_bit(x, 99, true); }"),
    ("chars", "let s = \"\"; s.pad(3_000_000, \"ü\"); let i = 0; loop { s[i]; i += 1; }"),
    ("sub_string", "let s = \"\"; s.pad(3_000_000, \"ü\"); loop { s.sub_string(1_000_000, 1_000_000); }"),
    ("to_chars", "let s = \"\"; s.pad(3_000_000, \"ü\"); loop { s.to_chars(); }"),
    ("fn pointers", "let f = Fn(\"deep\"); f.call(0)"),
    ("call itself", "inlet(body)"),
    ("shadowed builtin", "body.messages.push(1); body"),
];

/// Whole files: what a parser has to survive.
fn files() -> Vec<(&'static str, String)> {
    let nested = |open: &str, inner: &str, close: &str, n: usize| {
        format!("fn inlet(body) {{ let x = {}{inner}{}; body }}", open.repeat(n), close.repeat(n))
    };
    let many = |count: usize| (0..count).map(|i| format!("p{i}")).collect::<Vec<_>>().join(", ");
    vec![
        ("deep parentheses", nested("(", "1", ")", 50_000)),
        ("deep arrays", nested("[", "", "]", 50_000)),
        ("deep maps", nested("#{a:", "1", "}", 30_000)),
        ("deep blocks", format!("fn inlet(body) {{ {}{} }}", "{".repeat(50_000), "}".repeat(50_000))),
        ("many unary", nested("-", "1", "", 100_000)),
        ("many plus", format!("fn inlet(body) {{ let x = 1{}; body }}", " + 1".repeat(50_000))),
        ("many dots", format!("fn inlet(body) {{ body{}; body }}", ".a".repeat(50_000))),
        ("many indexes", format!("fn inlet(body) {{ body{}; body }}", "[0]".repeat(50_000))),
        ("many parameters", format!("fn inlet(body) {{ body }}\nfn f({}) {{ 1 }}", many(20_000))),
        (
            "many functions",
            (0..5_000).map(|i| format!("fn f{i}() {{ 1 }}\n")).collect::<String>()
                + "fn inlet(body) { body }",
        ),
        (
            "many variables",
            format!(
                "fn inlet(body) {{ {} body }}",
                (0..5_000).map(|i| format!("let v{i} = {i};")).collect::<String>()
            ),
        ),
        ("many arguments", format!("fn inlet(body) {{ f({}) }}", "1,".repeat(10_000))),
        ("long string", format!("fn inlet(body) {{ body.x = \"{}\"; body }}", "x".repeat(200_000))),
        ("large file", format!("fn inlet(body) {{ body }}\n// {}", "x".repeat(2_000_000))),
        ("comments", format!("{}fn inlet(body) {{ body }}", "/*".repeat(100_000))),
        (
            "constant doubling",
            format!("const A = \"x\"{};\nfn inlet(body) {{ body }}", " + \"xxxxxxxxxx\"".repeat(10_000)),
        ),
        (
            "deep valves",
            format!("const Valves = {}1{};\nfn inlet(body) {{ body }}", "#{a:".repeat(200), "}".repeat(200)),
        ),
        (
            "else if",
            format!("fn inlet(body) {{ if 1 == 2 {{ }} {} body }}", "else if 1 == 2 { } ".repeat(20_000)),
        ),
        (
            "switch",
            format!(
                "fn inlet(body) {{ switch 1 {{ {} _ => 1 }} body }}",
                (0..20_000).map(|i| format!("{i} => 1,")).collect::<String>()
            ),
        ),
        ("import", "import \"/etc/passwd\" as x;\nfn inlet(body) { x::y(body) }".to_owned()),
        ("import in a function", "fn inlet(body) { import \"../x\" as x; x::y(body) }".to_owned()),
        (
            "shadows push",
            "fn push(a, b) { loop {} }\nfn inlet(body) { body.messages.push(1); body }".to_owned(),
        ),
        ("shadows deny", "fn deny(a) { }\nfn inlet(body) { deny(\"x\"); body }".to_owned()),
        ("top level loop", "loop {}\nfn inlet(body) { body }".to_owned()),
    ]
}

struct Ended {
    code: Option<i32>,
    signal: Option<i32>,
    talk: String,
    took: Duration,
    /// In KiB, at its most.
    resident: u64,
}

/// One chat through the filters of a project, in a process of its own.
fn chat(project: &Path) -> Ended {
    let limited = format!(
        "ulimit -v {ADDRESS_SPACE}; ulimit -c 0; exec \"$0\" --project \"$1\" chat --no-stream hello"
    );
    let began = Instant::now();
    let mut child = Command::new("sh")
        .args(["-c", &limited, env!("CARGO_BIN_EXE_valvehouse")])
        .arg(project)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = child.stderr.take().unwrap();
    // Of a flood of talk the end counts.
    let talk = std::thread::spawn(move || {
        let (mut talk, mut piece) = (Vec::new(), vec![0; 64 * 1024]);
        while let Ok(read @ 1..) = stderr.read(&mut piece) {
            talk.extend_from_slice(&piece[..read]);
            talk.drain(..talk.len().saturating_sub(256 * 1024));
        }
        String::from_utf8_lossy(&talk).into_owned()
    });
    let mut resident = 0;
    let status = loop {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        resident = most.and_then(|kib| kib.trim().parse().ok()).unwrap_or(resident);
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
            break child.wait().unwrap();
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let (code, signal) = (status.code(), std::os::unix::process::ExitStatusExt::signal(&status));
    Ended { code, signal, talk: talk.join().unwrap(), took: began.elapsed(), resident }
}

fn project(file: &str, text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(file);
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    folder
}

/// What is wrong with how a process ended; nothing when all is well.
fn judge(name: &str, ended: &Ended, harmless: &Ended) -> Option<String> {
    let Ended { code, signal, talk, took, resident } = ended;
    let end = talk.chars().rev().take(300).collect::<String>().chars().rev().collect::<String>();
    // 2: what the filter made of the request is none.
    if signal.is_some() || !matches!(code, Some(0 | 1 | 2 | 65)) {
        return Some(format!("{name}: ended with {code:?} {signal:?} after {took:?}: …{end}"));
    }
    if matches!(code, Some(1 | 65)) && !talk.contains("hostile") {
        return Some(format!("{name}: the error names nobody: …{end}"));
    }
    if *resident > harmless.resident + RESIDENT {
        return Some(format!("{name}: {} MB resident", resident / 1024));
    }
    None
}

#[test]
fn no_hostile_script_hurts_its_process() {
    let harmless = chat(project("filters/hostile.rhai", "fn inlet(body) { body }").path());
    assert_eq!(harmless.code, Some(0), "{}", harmless.talk);
    let helpers = "fn deep(n) { deep(n + 1) }\nfn ping(n) { pong(n + 1) }\nfn pong(n) { ping(n + 1) }\n";
    let inlets = INLETS
        .iter()
        .map(|(name, code)| (*name, format!("{helpers}fn inlet(body, state, __metadata__) {{ {code} }}")));
    let scripts: Vec<(&str, String)> = inlets.chain(files()).collect();
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    let mut slowest = Mutex::new((Duration::ZERO, ""));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((name, text)) = scripts.get(next.fetch_add(1, Relaxed)) {
                    let ended = chat(project("filters/hostile.rhai", text).path());
                    let mut slow = slowest.lock().unwrap();
                    if ended.took > slow.0 {
                        *slow = (ended.took, name);
                    }
                    wrong.lock().unwrap().extend(judge(name, &ended, &harmless));
                }
            });
        }
    });
    eprintln!("{} scripts, the slowest {:?}", scripts.len(), slowest.get_mut().unwrap());
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), scripts.len(), wrong.join("\n"));
}
