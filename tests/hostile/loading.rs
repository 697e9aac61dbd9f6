//! Tests that the time to load a file grows in proportion to its length, whatever its content.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;
use valvehouse::script::{Kind, Script, Settings, SourceFile};

/// Repeats a pattern until a text has this length; `%` is replaced by a number that counts up.
fn repeat(pattern: &str, length: usize) -> String {
    let mut text = String::with_capacity(length + pattern.len());
    let mut number = 0;
    while text.len() < length {
        text.push_str(&pattern.replace('%', &number.to_string()));
        number += 1;
    }
    text
}

/// The opening and the closing of as many blocks as fit.
fn nest(open: &str, close: &str, length: usize) -> String {
    let count = length / (open.len() + close.len());
    open.repeat(count) + close.repeat(count).as_str()
}

type Shape = fn(usize) -> String;

/// Files that differ in what they have too much of.
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
    ("lines", |n| format!("fn inlet(body) {{ body }}{}", "\n;".repeat(n.min(100_000) / 2))),
    ("frontmatter", |n| format!("/*\n{}*/\nfn inlet(body) {{ body }}", repeat("key: %\n", n))),
    ("frontmatter of many keys", |n| {
        let keys: String = (0..n / 20).map(|i| format!("k{}: {i}\n", letters(i))).collect();
        format!("/*\n{keys}*/\nfn inlet(body) {{ body }}")
    }),
    ("requirements", |n| format!("/*\nrequirements: {}\n*/\nfn inlet(body) {{ body }}", repeat("r%,", n))),
    ("constants", |n| repeat("const C% = 1;\n", n) + "fn inlet(body) { body }"),
    ("valves", |n| {
        format!("const Valves = #{{ {} }};\nfn inlet(body) {{ body }}", repeat("v%: 1,", n.min(20_000)))
    }),
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

/// A number in letters: keys of an opening comment have no digits.
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

/// Returns the processor time of this thread: other programs do not count.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn time_to_load(kind: Kind, text: &str) -> Duration {
    let file = SourceFile::new(kind, "hostile", "filters/hostile.rhai", text);
    let began = processor_time();
    let loaded = Script::compile(&file, &Settings::default());
    let took = processor_time() - began;
    drop(loaded);
    took
}

/// The largest ratio of the load times of a file of tenfold length and the short one: ten, and room for a busy
/// machine. Quadratic work takes a hundred times as long.
const MAX_RATIO: u32 = 30;
/// The smallest load time that ratios are computed with: shorter times are dominated by fixed costs.
const FLOOR: Duration = Duration::from_millis(10);

#[test]
fn a_file_takes_time_to_load_in_proportion_to_its_length() {
    let check = || {
        let mut wrong = Vec::new();
        for (name, shape) in SHAPES {
            for kind in [Kind::Filter, Kind::Tool] {
                let [short, long, refused] = [24_000, 240_000, 1_000_000].map(shape);
                let least = |text: &str| (0..3).map(|_| time_to_load(kind, text)).min().unwrap();
                let (of_short, of_refused) = (least(&short).max(FLOOR), time_to_load(kind, &refused));
                let mut of_long = time_to_load(kind, &long);
                if of_long > of_short * MAX_RATIO {
                    of_long = of_long.min(least(&long));
                }
                if std::env::var_os("SHOW").is_some() {
                    eprintln!("{name} {kind:?}: {of_short:?} {of_long:?} {of_refused:?}");
                }
                if of_long > of_short * MAX_RATIO {
                    wrong.push(format!(
                        "{name} as a {kind:?}: {of_short:?}, and ten times as long {of_long:?}"
                    ));
                }
                // A file that is too long is refused before anybody reads it.
                if of_refused > FLOOR * 5 {
                    wrong.push(format!("{name} as a {kind:?}: {of_refused:?} to refuse a megabyte"));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    };
    // Scripts are compiled where there is as much stack as on the threads of a host.
    let thread = std::thread::Builder::new().stack_size(valvehouse::lanes::STACK).spawn(check).unwrap();
    thread.join().unwrap();
}
