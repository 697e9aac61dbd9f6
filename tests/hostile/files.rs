//! Complete files that a parser must survive.

use super::{Comes, Hostile};
use Comes::{Fails, NotLoaded, Well};

pub(super) fn all() -> impl Iterator<Item = Hostile> {
    files().into_iter().map(|(name, text, comes)| Hostile::filter(name, text, comes))
}

fn files() -> Vec<(&'static str, String, Comes)> {
    let nested = |open: &str, inner: &str, close: &str, n: usize| {
        format!("fn inlet(body) {{ let x = {}{inner}{}; body }}", open.repeat(n), close.repeat(n))
    };
    let many = |count: usize| (0..count).map(|i| format!("p{i}")).collect::<Vec<_>>().join(", ");
    vec![
        ("deep parentheses", nested("(", "1", ")", 50_000), NotLoaded(&["limit of 256 levels"])),
        ("deep arrays", nested("[", "", "]", 50_000), NotLoaded(&["limit of 256 levels"])),
        ("deep maps", nested("#{a:", "1", "}", 30_000), NotLoaded(&["limit of 256 levels"])),
        (
            "deep blocks",
            format!("fn inlet(body) {{ {}{} }}", "{".repeat(50_000), "}".repeat(50_000)),
            NotLoaded(&["limit of 256 levels"]),
        ),
        ("many unary", nested("-", "1", "", 100_000), NotLoaded(&["unknown operator `--`"])),
        (
            "many plus",
            format!("fn inlet(body) {{ let x = 1{}; body }}", " + 1".repeat(50_000)),
            NotLoaded(&["maximum complexity"]),
        ),
        (
            "many dots",
            format!("fn inlet(body) {{ body{}; body }}", ".a".repeat(50_000)),
            NotLoaded(&["maximum complexity"]),
        ),
        (
            "many indexes",
            format!("fn inlet(body) {{ body{}; body }}", "[0]".repeat(50_000)),
            NotLoaded(&["maximum complexity"]),
        ),
        (
            "many parameters",
            format!("fn inlet(body) {{ body }}\nfn f({}) {{ 1 }}", many(20_000)),
            NotLoaded(&["more than 32 parameters"]),
        ),
        (
            "many functions",
            (0..5_000).map(|i| format!("fn f{i}() {{ 1 }}\n")).collect::<String>()
                + "fn inlet(body) { body }",
            NotLoaded(&["functions defined exceeds"]),
        ),
        (
            "many variables",
            format!(
                "fn inlet(body) {{ {} body }}",
                (0..5_000).map(|i| format!("let v{i} = {i};")).collect::<String>()
            ),
            NotLoaded(&["more than 256 variables"]),
        ),
        (
            "many arguments",
            format!("fn inlet(body) {{ f({}) }}", "1,".repeat(5_000)),
            NotLoaded(&["more than 64 arguments"]),
        ),
        ("long string", format!("fn inlet(body) {{ body.x = \"{}\"; body }}", "x".repeat(200_000)), Well),
        (
            "large file",
            format!("fn inlet(body) {{ body }}\n// {}", "x".repeat(2_000_000)),
            NotLoaded(&["limit of 256 KB"]),
        ),
        ("comments", format!("{}fn inlet(body) {{ body }}", "/*".repeat(100_000)), Well),
        (
            "constant doubling",
            format!("const A = \"x\"{};\nfn inlet(body) {{ body }}", " + \"xxxxxxxxxx\"".repeat(10_000)),
            NotLoaded(&["maximum complexity"]),
        ),
        (
            "deep valves",
            format!("const Valves = {}1{};\nfn inlet(body) {{ body }}", "#{a:".repeat(200), "}".repeat(200)),
            NotLoaded(&["maximum complexity"]),
        ),
        (
            "else if",
            format!("fn inlet(body) {{ if 1 == 2 {{ }} {} body }}", "else if 1 == 2 { } ".repeat(20_000)),
            NotLoaded(&["limit of 256 KB"]),
        ),
        (
            "switch",
            format!(
                "fn inlet(body) {{ switch 1 {{ {} _ => 1 }} body }}",
                (0..20_000).map(|i| format!("{i} => 1,")).collect::<String>()
            ),
            Well,
        ),
        (
            "import",
            "import \"/etc/passwd\" as x;\nfn inlet(body) { x::y(body) }".to_owned(),
            NotLoaded(&["invalid module path"]),
        ),
        (
            "import in a function",
            "fn inlet(body) { import \"../x\" as x; x::y(body) }".to_owned(),
            NotLoaded(&["is not allowed within a function"]),
        ),
        (
            "shadows push",
            "fn push(a, b) { loop {} }\nfn inlet(body) { body.messages.push(1); body }".to_owned(),
            Fails(400),
        ),
        (
            "many patterns",
            format!(
                "fn inlet(body) {{ if body.never == 1 {{ {} }} body }}",
                (0..5_000).map(|i| format!("regex::is_match(\"\", `\\w{{9}}{i}`);\n")).collect::<String>()
            ),
            Well,
        ),
        (
            "large patterns",
            format!(
                "fn inlet(body) {{ if body.never == 1 {{ {} }} body }}",
                (0..5_000).map(|i| format!("regex::is_match(\"\", `\\w{{200}}{i}`);\n")).collect::<String>()
            ),
            Well,
        ),
        ("shadows deny", "fn deny(a) { }\nfn inlet(body) { deny(\"x\"); body }".to_owned(), Well),
        ("top level loop", "loop {}\nfn inlet(body) { body }".to_owned(), Well),
    ]
}
