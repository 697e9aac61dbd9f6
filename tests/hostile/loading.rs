//! Tests that the time to load a file grows in proportion to its length, whatever its content.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;
use valvehouse::script::{Code, Diagnostic, Kind, Script, Settings, SourceFile};
use valvehouse_testkit::sampled;

/// Repeats a pattern up to the given length; `%` is replaced by a counter.
fn repeat(pattern: &str, length: usize) -> String {
    let mut text = String::with_capacity(length + pattern.len());
    let mut number = 0;
    while text.len() < length {
        text.push_str(&pattern.replace('%', &number.to_string()));
        number += 1;
    }
    text
}

/// Returns as many nested blocks as fit the length.
fn nest(open: &str, close: &str, length: usize) -> String {
    let count = length / (open.len() + close.len());
    open.repeat(count) + close.repeat(count).as_str()
}

type Shape = fn(usize) -> String;

/// Files that each contain too much of one construct.
const SHAPES: &[(&str, Shape)] = &[
    ("nested if", |n| format!("fn inlet(body) {{{}}}", nest("if a{", "}", n))),
    ("nested if within the limit", |n| {
        let deep = nest("if a{", "x.pop();}", 20 * 14);
        format!("fn inlet(body) {{ let x = []; let a = true; {} }}", repeat(&deep, n))
    }),
    ("else if", |n| {
        let chain = repeat("else if a{x.pop();}", n);
        format!("fn inlet(body) {{ let x = []; let a = true; if a {{ x.pop(); }} {chain} }}")
    }),
    ("heads of hooks", |n| repeat("fn inlet(", n)),
    ("hooks", |n| repeat("fn inlet(b){b.pop();}\n", n)),
    ("hooks in hooks", |n| nest("fn inlet(b){", "b.pop();}", n)),
    ("hooks without a body", |n| repeat("fn inlet()\n", n)),
    ("fn alone", |n| repeat("fn ", n)),
    ("fn and blanks", |n| format!("fn {}inlet(body) {{ body }}", " ".repeat(n))),
    ("functions", |n| repeat("fn f%() { 1 }\n", n)),
    ("closures", |n| format!("fn inlet(body) {{ {} body }}", repeat("body.f(|x| x + %);", n))),
    ("calls for their effect", |n| {
        format!("fn inlet(body) {{ {} }}", repeat("if body.a { body.b.pop(); }\n", n))
    }),
    ("a long word before blocks", |n| {
        format!("fn inlet(body) {{ {}{} }}", "a".repeat(n / 2), "{}".repeat(n / 4))
    }),
    ("blanks before blocks", |n| {
        format!("fn inlet(body) {{ {}{} }}", " ".repeat(n / 2), "x{}".repeat(n / 6))
    }),
    ("hashes", |n| format!("fn inlet(body) {{ {} }}", "#".repeat(n))),
    ("hashes and braces", |n| format!("fn inlet(body) {{ {} }}", "#{".repeat(n / 2))),
    ("single quotes and backslashes", |n| format!("fn inlet(body) {{ '{} }}", "\\'".repeat(n / 2))),
    ("single quotes", |n| format!("fn inlet(body) {{ {} }}", "'\n".repeat(n / 2))),
    ("double quotes", |n| format!("fn inlet(body) {{ {} }}", "\"\n".repeat(n / 2))),
    ("backticks", |n| format!("fn inlet(body) {{ {} }}", "`${".repeat(n / 3))),
    ("texts in texts", |n| format!("fn inlet(body) {{ {} }}", "`${`a`}`;".repeat(n / 9))),
    ("comments in comments", |n| format!("{} fn inlet(body) {{ body }}", "/*".repeat(n / 2))),
    ("slashes", |n| format!("fn inlet(body) {{ body }}\n{}", "/ ".repeat(n / 2))),
    ("imports that never end", |n| repeat("import `", n)),
    ("imports within functions", |n| {
        format!("fn inlet(body) {{ {} body }}", repeat("import \"lib/a%\" as a%;\n", n))
    }),
    ("computed constants", |n| repeat("const C% = f(%);\n", n) + "fn inlet(body) { body }"),
    ("imports", |n| repeat("import \"lib/a%\" as a%;\n", n)),
    ("closing brackets", |n| format!("fn inlet(body) {{ body }}{}", "}".repeat(n))),
    ("lines", |n| format!("fn inlet(body) {{ body }}{}", "\n;".repeat(n / 2))),
    ("frontmatter", |n| format!("/*\n{}*/\nfn inlet(body) {{ body }}", repeat("key: %\n", n))),
    ("frontmatter of many keys", |n| {
        let keys: String = (0..n / 20).map(|i| format!("k{}: {i}\n", letters(i))).collect();
        format!("/*\n{keys}*/\nfn inlet(body) {{ body }}")
    }),
    ("requirements", |n| format!("/*\nrequirements: {}\n*/\nfn inlet(body) {{ body }}", repeat("r%,", n))),
    ("constants", |n| repeat("const C% = 1;\n", n) + "fn inlet(body) { body }"),
    ("valves", |n| format!("const Valves = #{{ {} }};\nfn inlet(body) {{ body }}", repeat("v%: 1,", n))),
    ("patterns", |n| {
        format!("fn inlet(body) {{ {} body }}", repeat("regex::is_match(body.a, \"a{1,9}b%\");\n", n))
    }),
    ("wrong patterns", |n| {
        format!("fn inlet(body) {{ {} body }}", repeat("regex::is_match(body.a, \"(%\");\n", n))
    }),
    ("unknown functions", |n| format!("fn inlet(body) {{ {} body }}", repeat("nothing%();\n", n))),
    ("unknown modules", |n| format!("fn inlet(body) {{ {} body }}", repeat("m%::f();\n", n))),
    ("properties", |n| format!("fn inlet(body) {{ {} body }}", repeat("body.p%;\n", n))),
    ("assignments to constants", |n| {
        format!("const A = 1;\nfn inlet(body) {{ {} body }}", repeat("A = %;\n", n))
    }),
    ("texts", |n| format!("fn inlet(body) {{ {} body }}", repeat("body.a = \"t%\";\n", n))),
    ("a long text", |n| format!("fn inlet(body) {{ body.a = \"{}\"; body }}", "x".repeat(n))),
    ("a sum", |n| format!("fn inlet(body) {{ 1{} }}", "+1".repeat(n / 2))),
    ("an array", |n| format!("fn inlet(body) {{ [{}] }}", "1,".repeat(n / 2))),
    ("switches", |n| {
        format!("fn inlet(body) {{ {} body }}", repeat("switch body.a { 1 => 2, _ => % }\n", n))
    }),
    ("loops", |n| format!("fn inlet(body) {{ {} body }}", repeat("for x in 0..% { }\n", n))),
    ("try", |n| format!("fn inlet(body) {{ {} body }}", repeat("try { 1 } catch (e) { % }\n", n))),
    ("blocks with variables", |n| format!("fn inlet(body) {{ {} body }}", repeat("{ let x = %; x; }\n", n))),
    ("Python", |n| repeat("def inlet(body):\n    return body\n", n)),
    ("blanks", |n| format!("{}fn inlet(body) {{ body }}", " ".repeat(n))),
    ("letters of three bytes", |n| format!("fn inlet(body) {{ {} }}", "語".repeat(n / 3))),
];

/// Returns a number in letters, because keys of an opening comment have no digits.
fn letters(mut number: usize) -> String {
    let mut text = String::new();
    loop {
        text.push(char::from(b'a' + (number % 26) as u8));
        number /= 26;
        if number == 0 {
            return text;
        }
    }
}

/// Returns the processor time of this thread, which other programs do not affect.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn compile(kind: Kind, text: &str) -> Result<Script, Vec<Diagnostic>> {
    Script::compile(&SourceFile::new(kind, "hostile", "filters/hostile.rhai", text), &Settings::default())
}

fn time_to_load(kind: Kind, text: &str) -> Duration {
    let began = processor_time();
    let loaded = compile(kind, text);
    let took = processor_time() - began;
    drop(loaded);
    took
}

/// The maximum ratio of the load times of a tenfold file and the short one: ten, with room for a busy
/// machine. Quadratic work takes a hundred times as long.
const MAX_RATIO: u32 = 30;
/// The minimum load time to compute ratios with: fixed costs dominate shorter times.
const FLOOR: Duration = Duration::from_millis(10);
/// The number of attempts before a ratio counts as wrong: other work on the machine disturbs single
/// measurements.
const TRIES: usize = 5;

/// Loads every shape as a filter and as a tool and returns the failures that `wrong` reports.
fn of_all_shapes(wrong: fn(Kind, Shape) -> Option<String>) -> Vec<String> {
    let check = move || {
        let mut found = Vec::new();
        for (name, shape) in SHAPES {
            for kind in sampled([Kind::Filter, Kind::Tool], 2) {
                found.extend(wrong(kind, *shape).map(|what| format!("{name} as a {kind:?}: {what}")));
            }
        }
        found
    };
    // Scripts are compiled with the stack size of the host's threads.
    std::thread::Builder::new().stack_size(valvehouse::executor::STACK).spawn(check).unwrap().join().unwrap()
}

#[test]
fn loading_time_is_linear_in_the_length_of_a_file() {
    let wrong = of_all_shapes(|kind, shape| {
        let (short, long) = (shape(12_000), shape(120_000));
        let (mut of_short, mut of_long) = (Duration::ZERO, Duration::MAX);
        for _ in 0..TRIES {
            of_short = of_short.max(time_to_load(kind, &short)).max(FLOOR);
            of_long = of_long.min(time_to_load(kind, &long));
            if of_long <= of_short * MAX_RATIO {
                return None;
            }
        }
        Some(format!("{of_short:?}, and ten times as long {of_long:?}"))
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_oversized_file_is_rejected_before_it_is_read() {
    let wrong = of_all_shapes(|kind, shape| match compile(kind, &shape(1_000_000)) {
        Err(problems) if matches!(&problems[..], [only] if only.code == Code::TooLong) => None,
        Err(problems) => Some(format!("refused for {problems:?}")),
        Ok(_) => Some("taken".to_owned()),
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
