//! A guard under mutation: for any change of its file, its folder or the configuration, no request passes
//! that it would have refused.
//!
//! Mutations are generated: every letter of the opening comment, every line, every prefix, spellings of the
//! key, file operations, settings. Each is tried on a running host, after a restart, and with a new store if
//! the file alone shows that it is a guard.

use super::with;
use crate::host::{Answer, TestHost, chat_body, streaming};
use crate::upstream::MODEL;
use futures::{FutureExt as _, StreamExt as _};
use serde_json::json;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The number of mutations that are tried without `VALVEHOUSE_CASES`.
const SAMPLE: usize = 16;

const GUARD: &str = r#"/*
title: Guard
security: true
version: 1.0.0
*/
const Valves = #{ priority: 5, word: "bad" };

fn inlet(body, valves) {
    if is_bad(body.messages[-1].text, valves) {
        deny("guarded", 403);
    }
    body
}

fn pre_invocation(ctx) {
    ctx
}

fn is_bad(text, valves) {
    text.contains(valves.word)
}
"#;

/// A change to a guard.
enum Change {
    /// The file has this content.
    Content(Vec<u8>),
    /// A change in the project folder.
    Files(Box<dyn Fn(&Path)>),
    /// Additional settings.
    Settings(&'static str),
    /// Statements that change the store, with or without a weaker version of the guard that waits for
    /// confirmation.
    Store { statements: Vec<&'static str>, is_held: bool },
    /// A change in the project folder of a guard that imports a module.
    Module(Box<dyn Fn(&Path)>),
    /// A change in the project folder of a guard in a subfolder.
    Folder(Box<dyn Fn(&Path)>),
    /// Settings that replace the grants of a guard that needs one.
    Grants(&'static str),
}

struct Mutation {
    name: String,
    change: Change,
    /// `true` if the file alone shows that it is, or should be, a guard.
    shows: bool,
}

fn content(name: String, text: impl AsRef<[u8]>, shows: bool) -> Mutation {
    Mutation { name, change: Change::Content(text.as_ref().to_vec()), shows }
}

fn files(name: &str, shows: bool, change: impl Fn(&Path) + 'static) -> Mutation {
    Mutation { name: name.into(), change: Change::Files(Box::new(change)), shows }
}

/// Returns the guard with the text between two positions replaced.
fn replaced(from: usize, to: usize, with: &str) -> String {
    format!("{}{with}{}", &GUARD[..from], &GUARD[to..])
}

fn letters() -> Vec<Mutation> {
    let end = GUARD.find("version").unwrap();
    let from = GUARD.find("security").unwrap() - 1;
    let mut all = Vec::new();
    for at in (0..3).chain(from..end) {
        let letter = &GUARD[at..=at];
        let other =
            if letter.to_uppercase() == letter { letter.to_lowercase() } else { letter.to_uppercase() };
        for with in ["", "x", " ", "\n", "\t", "\u{200b}", &letter.repeat(2), &other] {
            // A line break or a blank inside the value removes the value.
            all.push(content(
                format!("letter {at} {letter:?} becomes {with:?}"),
                replaced(at, at + 1, with),
                false,
            ));
        }
    }
    all
}

fn spellings() -> Vec<Mutation> {
    let mut all = Vec::new();
    let heads = [
        "security: yes",
        "security: on",
        "security: 1",
        "security: \"true\"",
        "security: true,",
        "security: tru",
        "security: true # a guard",
        "security: true // a guard",
        "security:",
        "security: maybe",
        "Security: true",
        "SECURITY: TRUE",
        "security : true",
        "security = true",
        "security true",
        "security := true",
        "secuirty: true",
        "securtiy: true",
        "sekurity: true",
        "secure: true",
        "is_security: true",
        "guard: true",
        "\"security\": true",
        "- security: true",
        "* security: true",
        " * security: true",
        "# security: true",
        "// security: true",
        "security\u{ff1a}true",
        "s\u{435}curity: true",
        "security: true\nsecurity: false",
        "security: false\nsecurity: true\nsecurity: fals",
        "security: true; global: false",
    ];
    for head in heads {
        all.push(content(format!("says {head:?}"), GUARD.replace("security: true", head), true));
    }
    for opening in [
        "/**\n *",
        "// a note\n/*",
        "//",
        "///",
        "*",
        "/ *",
        "",
        "/* a note */\n/*",
        "x/*",
        "\"/*",
        "#!/bin/rhai\n/*",
    ] {
        all.push(content(format!("opens with {opening:?}"), GUARD.replacen("/*", opening, 1), true));
    }
    for closing in ["", "*", "/", "**/", "*/*/", "-->"] {
        all.push(content(format!("closes with {closing:?}"), GUARD.replacen("*/", closing, 1), true));
    }
    for (name, text) in [
        ("a mark", format!("\u{feff}{GUARD}")),
        ("two marks", format!("\u{feff}\u{feff}{GUARD}")),
        ("line ends of Windows", GUARD.replace('\n', "\r\n")),
        ("old line ends", GUARD.replace('\n', "\r")),
        ("one line", GUARD.replace('\n', " ")),
        ("blank lines in front", format!("\n\n  \n{GUARD}")),
    ] {
        all.push(content(format!("with {name}"), text, true));
    }
    let wide: Vec<u8> = GUARD.encode_utf16().flat_map(u16::to_le_bytes).collect();
    all.push(content("in UTF-16".into(), wide, true));
    all.push(content("with a byte that is not text".into(), [GUARD.as_bytes(), b"// \xff"].concat(), true));
    all.push(content("with a NUL".into(), [GUARD.as_bytes(), b"\0"].concat(), true));
    all.push(content("too long".into(), [GUARD.as_bytes(), &[b'\n'; 300 * 1024]].concat(), true));
    all
}

fn lines() -> Vec<Mutation> {
    let lines: Vec<&str> = GUARD.lines().collect();
    let mut all = Vec::new();
    for at in 0..lines.len() {
        // The guard's own logic is not part of this test.
        if ["deny", "if is_bad", "text.contains"].iter().any(|own| lines[at].contains(own)) {
            continue;
        }
        let without: Vec<&str> = (0..lines.len()).filter(|other| *other != at).map(|at| lines[at]).collect();
        all.push(content(format!("without line {at}"), without.join("\n"), false));
        let twice: Vec<&str> =
            (0..lines.len()).flat_map(|other| vec![lines[other]; 1 + usize::from(other == at)]).collect();
        all.push(content(format!("line {at} twice"), twice.join("\n"), false));
    }
    for at in 0..GUARD.len() {
        all.push(content(format!("the first {at} bytes"), &GUARD[..at], false));
        if at % 5 == 0 {
            all.push(content(format!("all but the first {at} bytes"), &GUARD[at..], false));
        }
    }
    all
}

fn reach() -> Vec<Mutation> {
    let mut all = Vec::new();
    for name in ["inlett", "inle", "Inlet", "inlet2", "outlet", "_inlet", "on_inlet", "stream", "pre_chat_"] {
        all.push(content(format!("fn {name}"), GUARD.replace("fn inlet", &format!("fn {name}")), false));
    }
    for key in [
        "global: false",
        "global: no",
        "on_error: continue",
        "hold: true",
        "match: x",
        "required_host_version: 99.0.0",
        "requirements: shell",
        "requirements: htpp",
    ] {
        all.push(content(
            format!("says {key}"),
            GUARD.replace("version:", &format!("{key}\nversion:")),
            false,
        ));
        let weak = GUARD.replace("security: true", key);
        all.push(content(format!("says {key} in place of the key"), weak, false));
    }
    for code in [
        "const toggle = true;",
        "const toggle = 1;",
        "const callbacks = true;",
        "const Valves = #{ priority: 99999 };",
        "const security = false;",
        "fn inlet(body) { body }",
        "import \"nowhere\" as n;",
        "throw 1;",
    ] {
        all.push(content(format!("with {code}"), format!("{GUARD}\n{code}\n"), false));
    }
    let constant = GUARD.replace("security: true", "license: MIT") + "const security = true;\n";
    all.push(content("with a constant instead of the key".into(), constant, true));
    for (from, to) in [
        ("fn inlet(body, valves)", "fn inlet(bodi)"),
        ("fn inlet", "fn  inlet"),
        ("fn inlet", "private fn inlet"),
        ("fn inlet", "// fn inlet"),
        ("fn ", "fun "),
        ("{", "["),
        ("}", ""),
        ("priority: 5", "priority: \"x\""),
        ("priority: 5", "priority: 1e300"),
    ] {
        all.push(content(format!("{from:?} becomes {to:?}"), GUARD.replace(from, to), false));
    }
    for text in [
        "",
        " ",
        "\n\n",
        "/*",
        "/*\n*/",
        "fn inlet(body) { body }",
        "/*\nsecurity: false\n*/\nfn inlet(body) { body }",
        "/*\nsecurity: true\n*/",
        "/*\nsecurity: true\n*/\nfn outlet(body) { body }",
    ] {
        all.push(content(format!("is {text:?}"), text, false));
    }
    all
}

/// A file with the guard's id that lets everything pass.
const WEAK: &str = "fn inlet(body) { body }";

#[cfg(unix)]
fn operations() -> Vec<Mutation> {
    use std::os::unix::fs::symlink;
    let file = |project: &Path| project.join("filters/guard.rhai");
    let moved = |to: &'static str, shows: bool| {
        files(&format!("moved to {to}"), shows, move |project| {
            let to = project.join(to);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::rename(file(project), to).unwrap();
        })
    };
    let beside = |place: &'static str, text: &'static str| {
        files(&format!("{text:?} in {place} beside it"), true, move |project| {
            let path = project.join(place);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        })
    };
    let linked = |to: &'static str, shows: bool| {
        files(&format!("a link to {to}"), shows, move |project| {
            std::fs::remove_file(file(project)).unwrap();
            symlink(to, file(project)).unwrap();
        })
    };
    let mut all: Vec<Mutation> = [
        "Guard.rhai",
        "GUARD.rhai",
        "gu ard.rhai",
        "guard.RHAI",
        "guard.Rhai",
        "_guard.rhai",
        "lib/guard.rhai",
        "sub/guard.rhai",
        "other.rhai",
        "guard-.rhai",
        "wächter.rhai",
        "a.b.rhai",
    ]
    .into_iter()
    .map(|name| moved(Box::leak(format!("filters/{name}").into_boxed_str()), true))
    .collect();
    all.extend([
        moved("filters/guard.rhai.bak", false),
        moved("filters/guard.txt", false),
        moved("filters/.guard.rhai", false),
        moved("filters/_off/guard.rhai", false),
        moved("filters/guard.rhai~", false),
        moved("elsewhere/guard.rhai", false),
        moved("tools/guard.rhai", false),
        beside("filters/sub/guard.rhai", WEAK),
        beside("filters/zzz/guard.rhai", WEAK),
        beside("filters/aaa/guard.rhai", WEAK),
        beside("filters/zzz/guard.rhai", ""),
        beside("filters/zzz/guard.rhai", "/*\nsecurity: true\n*/\nfn outlet(body) { body }"),
        beside("tools/guard.rhai", "fn handler(args) { 1 }"),
        beside("filters/skips.rhai", "const Valves = #{ priority: 6 };\nfn inlet(body) { body }"),
        linked("/nowhere/at/all", true),
        linked("/dev/null", true),
        linked("/proc/self/mem", true),
        linked(".", true),
        linked("guard.rhai", true),
        files("deleted", false, move |project| std::fs::remove_file(file(project)).unwrap()),
        files("a folder in its place", true, move |project| {
            std::fs::remove_file(file(project)).unwrap();
            std::fs::create_dir(file(project)).unwrap();
        }),
        files("a pipe in its place", true, move |project| {
            std::fs::remove_file(file(project)).unwrap();
            assert!(std::process::Command::new("mkfifo").arg(file(project)).status().unwrap().success());
        }),
        files("its folder deleted", false, |project| {
            std::fs::remove_dir_all(project.join("filters")).unwrap()
        }),
        files("its folder renamed", false, |project| {
            std::fs::rename(project.join("filters"), project.join("filter")).unwrap();
        }),
        files("a file in place of its folder", true, |project| {
            std::fs::rename(project.join("filters"), project.join("filter")).unwrap();
            std::fs::write(project.join("filters"), "x").unwrap();
        }),
        files("an empty folder in place of its folder", false, |project| {
            std::fs::rename(project.join("filters"), project.join("filter")).unwrap();
            std::fs::create_dir(project.join("filters")).unwrap();
        }),
    ]);
    all
}

/// Returns files with the guard's id beside it, which load or do not load, and with a guard that cannot be read.
#[cfg(unix)]
fn second_files() -> Vec<Mutation> {
    use std::os::unix::fs::symlink;
    let broken = [GUARD, "\0"].concat();
    let texts: [(&str, &[u8]); 15] = [
        ("weak", WEAK.as_bytes()),
        ("weak and listed", b"/*\nglobal: false\n*/\nfn inlet(body) { body }"),
        ("cut short", b"fn inlet(body) {"),
        ("of a missing value", b"fn inlet(body) { let x = ; }"),
        ("empty", b""),
        ("not UTF-8", b"fn inlet(body) { \xff }"),
        ("with a NUL", b"fn inlet(body) { \0 }"),
        ("for a later host", b"/*\nrequired_host_version: 99\n*/\nfn inlet(body) { body }"),
        ("without its grant", b"/*\nrequirements: shell\n*/\nfn inlet(body) { shell::run([\"x\"]); body }"),
        ("of wrong valves", b"const Valves = #{ on: #{ type: \"nothing\" } };\nfn inlet(body) { body }"),
        ("of computed valves", b"const Valves = 1 + x;\nfn inlet(body) { body }"),
        ("of a missing module", b"import \"nowhere\" as n;\nfn inlet(body) { body }"),
        ("without hooks", b"fn other(body) { body }"),
        ("of wrong parameters", b"fn inlet(bodi) { bodi }"),
        ("another guard", b"/*\nsecurity: true\n*/\nfn outlet(body) { body }"),
    ];
    let write = |path: &Path, text: &[u8]| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let mut all = Vec::new();
    for place in ["a", "sub", "zz"] {
        let path = Path::new("filters").join(place).join("guard.rhai");
        for (what, text) in texts {
            for first in [None, Some(broken.clone())] {
                let beside = if first.is_some() { "one that cannot be read" } else { "it" };
                let path = path.clone();
                all.push(files(&format!("a file {what} in {place} beside {beside}"), true, move |project| {
                    write(&project.join(&path), text);
                    first
                        .iter()
                        .for_each(|first| write(&project.join("filters/guard.rhai"), first.as_bytes()));
                }));
            }
        }
        let (folder, link) = (path.clone(), path);
        all.push(files(&format!("a folder in {place} beside it"), true, move |project| {
            std::fs::create_dir_all(project.join(&folder)).unwrap();
        }));
        all.push(files(&format!("a link to nothing in {place} beside it"), true, move |project| {
            std::fs::create_dir_all(project.join(&link).parent().unwrap()).unwrap();
            symlink("/nowhere/at/all", project.join(&link)).unwrap();
        }));
    }
    all
}

/// Returns unusual changes.
#[cfg(unix)]
fn oddities() -> Vec<Mutation> {
    use std::os::unix::fs::symlink;
    let file = |project: &Path| project.join("filters/guard.rhai");
    let wide = |big: bool, mark: bool| {
        let bytes = |unit: u16| if big { unit.to_be_bytes() } else { unit.to_le_bytes() };
        let text: Vec<u8> = GUARD.encode_utf16().flat_map(bytes).collect();
        if mark { [bytes(0xfeff).to_vec(), text].concat() } else { text }
    };
    let mut all = vec![
        content("in UTF-16 with a mark".into(), wide(false, true), true),
        content("in UTF-16, the other way round".into(), wide(true, false), true),
        content("in UTF-16 with a mark, the other way round".into(), wide(true, true), true),
        content("with a NUL in the key".into(), GUARD.replace("security", "secu\0rity"), true),
        content("compressed".into(), [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3], false),
        content("overwritten by zeros".into(), vec![0; GUARD.len()], false),
        content("overwritten by zeros in part".into(), [&GUARD.as_bytes()[..40], &[0; 200]].concat(), false),
        content(
            "with conflict marks".into(),
            format!("<<<<<<< HEAD\n{GUARD}=======\n{WEAK}\n>>>>>>> other\n"),
            true,
        ),
        content(
            "commented out".into(),
            GUARD.lines().map(|line| format!("// {line}\n")).collect::<String>(),
            true,
        ),
        content("in a block comment".into(), format!("/*\n{}\n*/", GUARD.replace("*/", "* /")), false),
        content("twice".into(), format!("{GUARD}{GUARD}"), true),
        content("as JSON".into(), serde_json::Value::from(GUARD).to_string(), false),
        content("in base64".into(), "LyoKdGl0bGU6IEd1YXJk", false),
        content(
            "as a patch".into(),
            GUARD.lines().map(|line| format!("+{line}\n")).collect::<String>(),
            true,
        ),
        content("with typographic quotes".into(), GUARD.replace('"', "\u{201c}"), true),
        content(
            "with indented lines".into(),
            GUARD.lines().map(|line| format!("\t{line}\n")).collect::<String>(),
            false,
        ),
        content(
            "with its hook in another one".into(),
            GUARD.replace("fn inlet(body, valves) {", "fn other() {\nfn inlet(body, valves) {"),
            true,
        ),
        content(
            "with a second, empty hook of one parameter".into(),
            format!("{GUARD}\nfn inlet(body) {{ }}"),
            false,
        ),
        files("a link to a weak file", false, move |project| {
            std::fs::write(project.join("weak.txt"), WEAK).unwrap();
            std::fs::remove_file(file(project)).unwrap();
            symlink(project.join("weak.txt"), file(project)).unwrap();
        }),
        files("a link to another filter", false, move |project| {
            std::fs::write(project.join("filters/weak.rhai"), WEAK).unwrap();
            std::fs::remove_file(file(project)).unwrap();
            symlink("weak.rhai", file(project)).unwrap();
        }),
        files("a weak file of its size, saved at its time", false, move |project| {
            let saved = std::fs::metadata(file(project)).unwrap().modified().unwrap();
            let weak = format!("{WEAK}{}", " ".repeat(GUARD.len() - WEAK.len()));
            std::fs::write(file(project), weak).unwrap();
            std::fs::File::options().write(true).open(file(project)).unwrap().set_modified(saved).unwrap();
        }),
        files("a weak file from the past", false, move |project| {
            std::fs::write(file(project), WEAK).unwrap();
            let long_ago = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1);
            std::fs::File::options().write(true).open(file(project)).unwrap().set_modified(long_ago).unwrap();
        }),
        files("a weak file from the future", false, move |project| {
            std::fs::write(file(project), WEAK).unwrap();
            let some_time = std::time::SystemTime::now() + Duration::from_secs(1 << 30);
            std::fs::File::options()
                .write(true)
                .open(file(project))
                .unwrap()
                .set_modified(some_time)
                .unwrap();
        }),
        files("a folder of its name with a weak file of its name", false, move |project| {
            std::fs::remove_file(file(project)).unwrap();
            std::fs::create_dir(file(project)).unwrap();
            std::fs::write(file(project).join("guard.rhai"), WEAK).unwrap();
        }),
        files("a link in place of its folder, to an empty one", false, |project| {
            std::fs::rename(project.join("filters"), project.join("filter")).unwrap();
            std::fs::create_dir(project.join("empty")).unwrap();
            symlink(project.join("empty"), project.join("filters")).unwrap();
        }),
        files("a link in place of its folder, to nothing", false, |project| {
            std::fs::rename(project.join("filters"), project.join("filter")).unwrap();
            symlink("/nowhere/at/all", project.join("filters")).unwrap();
        }),
        files("a link in place of its folder, to itself", false, |project| {
            std::fs::rename(project.join("filters"), project.join("filter")).unwrap();
            symlink("filters", project.join("filters")).unwrap();
        }),
        files("a link to the folder within it", true, |project| {
            symlink("..", project.join("filters/loop")).unwrap();
        }),
        files("its folder away and back with a weak file", false, move |project| {
            std::fs::rename(project.join("filters"), project.join("filter")).unwrap();
            std::thread::sleep(Duration::from_millis(400));
            std::fs::rename(project.join("filter"), project.join("filters")).unwrap();
            std::fs::write(file(project), WEAK).unwrap();
        }),
        files("deleted, and later a weak file", false, move |project| {
            std::fs::remove_file(file(project)).unwrap();
            std::thread::sleep(Duration::from_millis(700));
            std::fs::write(file(project), WEAK).unwrap();
        }),
        files("renamed, and a weak file in its place", false, move |project| {
            std::fs::rename(file(project), project.join("filters/guard2.rhai")).unwrap();
            std::fs::write(file(project), WEAK).unwrap();
        }),
        files("a list of quarantined versions that cannot be read", true, |project| {
            std::fs::create_dir_all(project.join(".valvehouse")).unwrap();
            std::fs::write(project.join(".valvehouse/quarantine.json"), "{").unwrap();
        }),
        files("a list of quarantined versions of another form", true, |project| {
            std::fs::create_dir_all(project.join(".valvehouse")).unwrap();
            std::fs::write(
                project.join(".valvehouse/quarantine.json"),
                r#"{"guard": true, "versions": ["guard"]}"#,
            )
            .unwrap();
        }),
    ];
    for name in [
        "guard.rhai ",
        "guard .rhai",
        "guard.rhai.rhai",
        ".rhai",
        "guard",
        "guard.rhai\n",
        "-guard.rhai",
        "g\u{fc}ard.rhai",
    ] {
        all.push(files(&format!("moved to {name:?}"), false, move |project| {
            std::fs::rename(file(project), project.join("filters").join(name)).unwrap();
        }));
    }
    let words = |project: &Path| project.join("filters/lib/words.rhai");
    let module = |name: &str, change: Box<dyn Fn(&Path)>| Mutation {
        name: format!("its module {name}"),
        change: Change::Module(change),
        shows: false,
    };
    let written = |text: &'static str| -> Box<dyn Fn(&Path)> {
        Box::new(move |project| std::fs::write(words(project), text).unwrap())
    };
    all.extend([
        module("is deleted", Box::new(move |project| std::fs::remove_file(words(project)).unwrap())),
        module("is emptied", written("")),
        module("is broken", written("fn is_bad(text) {")),
        module("has another function", written("fn is_bed(text) { true }")),
        module("has it with two parameters", written("fn is_bad(text, more) { true }")),
        module("has it as a private one", written("private fn is_bad(text) { true }")),
        module("gives nothing", written("fn is_bad(text) { }")),
        module("gives a text", written("fn is_bad(text) { \"no\" }")),
        module("throws", written("fn is_bad(text) { throw \"x\" }")),
        module("imports the guard", written("import \"../guard\" as guard;\nfn is_bad(text) { true }")),
        module("imports itself", written("import \"lib/words\" as words;\nfn is_bad(text) { true }")),
        module("runs for ever", written("fn is_bad(text) { loop { } }")),
        module(
            "is not text",
            Box::new(move |project| std::fs::write(words(project), b"\xff\xfe\x00").unwrap()),
        ),
        module(
            "is a folder",
            Box::new(move |project| {
                std::fs::remove_file(words(project)).unwrap();
                std::fs::create_dir(words(project)).unwrap();
            }),
        ),
        module(
            "lies elsewhere",
            Box::new(move |project| {
                std::fs::rename(project.join("filters/lib"), project.join("filters/libs")).unwrap();
            }),
        ),
        module(
            "lies in a hidden folder",
            Box::new(move |project| {
                std::fs::rename(project.join("filters/lib"), project.join("filters/.lib")).unwrap();
            }),
        ),
        module(
            "is a link to nothing",
            Box::new(move |project| {
                std::fs::remove_file(words(project)).unwrap();
                symlink("/nowhere", words(project)).unwrap();
            }),
        ),
    ]);
    let moved = |to: &'static str| Mutation {
        name: format!("its own folder becomes {to}"),
        change: Change::Folder(Box::new(move |project| {
            let to = project.join(to);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::rename(project.join("filters/own"), to).unwrap();
        })),
        shows: false,
    };
    all.extend(
        [
            "filters/other",
            "filters/Own",
            "filters/_own",
            "filters/.own",
            "filters/lib",
            "own",
            "filters/a/b/c/own",
            "tools/own",
        ]
        .map(moved),
    );
    all
}

fn settings() -> Vec<Mutation> {
    let all = [
        "[filters.guard]\nenabled = false",
        "[filters.guard]\nvalves = { wrod = \"x\" }",
        "[filters.guard]\nvalves = { priority = 99999 }",
        "[filters.guard]\nvalves = { priority = \"x\" }",
        "[filters.guard]\nvalves = { word = [] }",
        "[filters.guard]\nbudget = { operations = 1000 }",
        "[filters.gaurd]\nenabled = false",
        "[tools.guard]\nenabled = false",
        "[grants.guard]\nhttp = [\"example.com\"]",
        "[breaker]\nfailure_threshold = 1",
        "[folders]\nfilters = \"other\"",
        "[folders]\nfilters = \"tools\"\ntools = \"filters\"",
    ];
    all.into_iter()
        .map(|toml| Mutation {
            name: format!("settings {toml:?}"),
            change: Change::Settings(toml),
            shows: false,
        })
        .collect()
}

/// Returns direct changes of the store: mistakes at its prompt, an older copy, or a damaged block.
fn rows() -> Vec<Mutation> {
    let all: [&[&str]; 33] = [
        &["DELETE FROM last_good"],
        &["DELETE FROM last_good WHERE id = 'guard'"],
        &["UPDATE last_good SET security = 0"],
        &["UPDATE last_good SET source = ''"],
        &["UPDATE last_good SET source = 'fn inlet(body) { body }'"],
        &["UPDATE last_good SET source = 'fn inlet(body) { body }', security = 0"],
        &["UPDATE last_good SET source = substr(source, 1, 60)"],
        &["UPDATE last_good SET hash = ''"],
        &["UPDATE last_good SET path = '/nowhere/guard.rhai'"],
        &["UPDATE last_good SET imports = 'null'"],
        &["UPDATE last_good SET imports = 'x'"],
        &["UPDATE last_good SET id = 'other'"],
        &["UPDATE last_good SET saved_at = 0"],
        &["INSERT INTO switches VALUES ('guard', 0, NULL)"],
        &["INSERT INTO switches VALUES ('guard', NULL, 0)"],
        &["INSERT INTO switches VALUES ('guard', 0, 0)"],
        &["INSERT INTO switches VALUES ('guard', 7, 7)"],
        &["INSERT INTO confirmed VALUES ('guard', 'gone', 'x', 0)"],
        &["INSERT INTO confirmed VALUES ('guard', 'off', 'x', 0)"],
        &["DELETE FROM versions"],
        &["DELETE FROM versions WHERE version = (SELECT max(version) FROM versions)"],
        &["UPDATE versions SET source = NULL"],
        &["UPDATE versions SET plugin = 'other'"],
        &["INSERT INTO valves VALUES ('guard', NULL, '{')"],
        &["INSERT INTO valves VALUES ('guard', NULL, '{\"word\": 5}')"],
        &["INSERT INTO valves VALUES ('guard', NULL, '{\"priority\": \"x\"}')"],
        &["INSERT INTO valves VALUES ('guard', 'ann', 'x')"],
        &["INSERT INTO grants VALUES ('guard', '{\"http\": 1}')"],
        &["INSERT INTO grants VALUES ('guard', 'x')"],
        &["INSERT INTO set_aside VALUES ('guard', 1, 0, 0)"],
        &["UPDATE store SET generation = 0"],
        &[
            "DELETE FROM confirmed",
            "DELETE FROM hosts",
            "DELETE FROM set_aside",
            "DELETE FROM guarded_models",
        ],
        &[
            "DROP TABLE guarded_models",
            "DROP TABLE set_aside",
            "DROP TABLE confirmed",
            "DELETE FROM _sqlx_migrations WHERE version >= 10",
        ],
    ];
    let mutation = |statements: &[&'static str], is_held: bool| Mutation {
        name: format!("{statements:?}{}", if is_held { ", while a change waits" } else { "" }),
        change: Change::Store { statements: statements.to_vec(), is_held },
        shows: false,
    };
    all.iter().flat_map(|statements| [false, true].map(|is_held| mutation(statements, is_held))).collect()
}

/// Returns grants for a guard that needs one.
fn grants() -> Vec<Mutation> {
    let all = [
        "",
        "[grants.gaurd]\nenv = [\"PATH\"]",
        "[grants.Guard]\nenv = [\"PATH\"]",
        "[grants.guard]\nenv = []",
        "[grants.guard]\nenv = [\"PAHT\"]",
        "[grants.guard]\nenv = [\"path\"]",
        "[grants.guard]\nhttp = [\"example.com\"]",
        "[grants.guard]\nshell = [\"PATH\"]",
        "[grants.guard]\nkv = true",
    ];
    all.into_iter()
        .map(|toml| Mutation { name: format!("grants {toml:?}"), change: Change::Grants(toml), shows: false })
        .collect()
}

/// Returns further mistakes: of editors, of tools that copy and convert, and of rewritten settings.
#[cfg(unix)]
fn slips() -> Vec<Mutation> {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let file = |project: &Path| project.join("filters/guard.rhai");
    let head = |head: &str| GUARD.replace("security: true", head);
    let slip = |name: &str, text: String, shows: bool| content(format!("slip: {name}"), text, shows);
    let done =
        |name: &str, shows: bool, change: Box<dyn Fn(&Path)>| files(&format!("slip: {name}"), shows, change);
    let mut all = vec![
        // Frontmatter.
        slip("a key with a comma behind it", head("security: true,\n"), true),
        slip("a key in braces", head("{security: true}"), true),
        slip("a key of JSON", head("\"security\": true,"), true),
        slip("a nested key", head("guard:\n  security: true"), true),
        slip("a list", head("security:\n  - true"), true),
        slip("a folded value", head("security: >\n  true"), true),
        slip("a tagged value", head("security: !!bool true"), true),
        slip("an anchor", head("security: &on true"), true),
        slip("a value in single quotes", head("security: 'true'"), true),
        slip("a value in typographic quotes", head("security: \u{201c}true\u{201d}"), true),
        slip("a value in capitals", head("security: TRUE"), true),
        slip("a value of another language", head("security: wahr"), true),
        slip("a value with a hidden mark", head("security: true\u{feff}"), true),
        slip("a value with a narrow blank", head("security:\u{a0}true"), true),
        slip("a tab in front", head("\tsecurity: true"), true),
        slip("the key twice, once false", head("security: true\nsecurity: no"), true),
        slip("the key of a fence", GUARD.replacen("/*\n", "/*\n---\n", 1).replacen("*/", "---\n*/", 1), true),
        slip(
            "a fence in place of the comment",
            GUARD.replacen("/*", "---", 1).replacen("*/", "---", 1),
            true,
        ),
        slip("a comment within the comment", head("/* security: true */"), false),
        slip("a bang comment", GUARD.replacen("/*", "/*!", 1), true),
        slip("a comment of HTML", GUARD.replacen("/*", "<!--", 1).replacen("*/", "-->", 1), true),
        slip("a comment of a shell", GUARD.replacen("/*", "#", 1).replacen("*/", "#", 1), true),
        slip("the comment behind a constant", format!("const X = 1;\n{GUARD}"), true),
        slip("the comment behind a blank that is none", format!("\u{200b}\n{GUARD}"), true),
        slip(
            "the comment at the end",
            {
                let (comment, rest) = GUARD.split_at(GUARD.find("*/").unwrap() + 2);
                format!("{rest}\n{comment}\n")
            },
            false,
        ),
        // Hooks.
        slip(
            "its hook in a string",
            GUARD.replace(
                "fn inlet(body, valves)",
                "const OLD = `fn inlet(body, valves)`;\nfn x(body, valves)",
            ),
            false,
        ),
        slip(
            "its hook with a typed parameter",
            GUARD.replace("fn inlet(body, valves)", "fn inlet(body: map, valves)"),
            true,
        ),
        slip(
            "its hook as a closure",
            GUARD.replace("fn inlet(body, valves)", "const inlet = |body, valves|"),
            false,
        ),
        slip("its hook a letter of another script", GUARD.replace("fn inlet", "fn inl\u{435}t"), false),
        slip("its end behind a mark of the end", format!("{GUARD}\u{1a}"), true),
        // Saves.
        done(
            "saved in pieces, the hook last",
            false,
            Box::new(move |project| {
                use std::io::Write as _;
                let at = GUARD.find("fn inlet").unwrap();
                let mut open = std::fs::File::create(file(project)).unwrap();
                for part in [&GUARD[..at], &GUARD[at..]] {
                    open.write_all(part.as_bytes()).unwrap();
                    open.sync_all().unwrap();
                    std::thread::sleep(Duration::from_millis(350));
                }
            }),
        ),
        done(
            "truncated, and written again later",
            false,
            Box::new(move |project| {
                let open = std::fs::File::options().write(true).open(file(project)).unwrap();
                open.set_len(0).unwrap();
                std::thread::sleep(Duration::from_millis(700));
                std::fs::write(file(project), GUARD).unwrap();
            }),
        ),
        done(
            "a weak file renamed over it, with the old one as a backup",
            false,
            Box::new(move |project| {
                std::fs::copy(file(project), project.join("filters/guard.rhai.orig")).unwrap();
                std::fs::write(project.join("filters/.guard.rhai.swp"), WEAK).unwrap();
                std::fs::rename(project.join("filters/.guard.rhai.swp"), file(project)).unwrap();
            }),
        ),
        done(
            "exchanged with a weak one",
            false,
            Box::new(move |project| {
                std::fs::write(project.join("filters/weak.rhai"), WEAK).unwrap();
                std::fs::rename(file(project), project.join("filters/tmp")).unwrap();
                std::fs::rename(project.join("filters/weak.rhai"), file(project)).unwrap();
                std::fs::rename(project.join("filters/tmp"), project.join("filters/weak.rhai")).unwrap();
            }),
        ),
        done(
            "in a folder of its own name, an empty file beside it",
            true,
            Box::new(move |project| {
                std::fs::create_dir_all(project.join("filters/guard")).unwrap();
                std::fs::rename(file(project), project.join("filters/guard/guard.rhai")).unwrap();
                std::fs::write(file(project), "").unwrap();
            }),
        ),
        done(
            "nested deeply, with a weak one in its place",
            false,
            Box::new(move |project| {
                std::fs::create_dir_all(project.join("filters/a/b/c/d/e/f")).unwrap();
                std::fs::rename(file(project), project.join("filters/a/b/c/d/e/f/guard.rhai")).unwrap();
                std::fs::write(file(project), WEAK).unwrap();
            }),
        ),
        done(
            "a hard link to a weak one",
            false,
            Box::new(move |project| {
                std::fs::write(project.join("weak.txt"), WEAK).unwrap();
                std::fs::remove_file(file(project)).unwrap();
                std::fs::hard_link(project.join("weak.txt"), file(project)).unwrap();
            }),
        ),
        done(
            "a link in a chain of links to a weak one",
            false,
            Box::new(move |project| {
                std::fs::write(project.join("weak.txt"), WEAK).unwrap();
                symlink(project.join("weak.txt"), project.join("one")).unwrap();
                symlink(project.join("one"), project.join("two")).unwrap();
                std::fs::remove_file(file(project)).unwrap();
                symlink(project.join("two"), file(project)).unwrap();
            }),
        ),
        done(
            "nobody may read it",
            false,
            Box::new(move |project| {
                std::fs::set_permissions(file(project), std::fs::Permissions::from_mode(0o000)).unwrap();
            }),
        ),
        done(
            "nobody may read its folder",
            false,
            Box::new(move |project| {
                std::fs::set_permissions(project.join("filters"), std::fs::Permissions::from_mode(0o000))
                    .unwrap();
            }),
        ),
        done(
            "a second one in capitals with a weak text",
            true,
            Box::new(move |project| {
                std::fs::write(project.join("filters/GUARD.rhai"), WEAK).unwrap();
            }),
        ),
        done(
            "its settings' file is empty",
            true,
            Box::new(|project| {
                std::fs::write(project.join("valvehouse.toml"), "").unwrap();
            }),
        ),
        done(
            "its settings' file is gone",
            true,
            Box::new(|project| {
                std::fs::remove_file(project.join("valvehouse.toml")).unwrap();
            }),
        ),
        done(
            "its settings' file is cut in the middle",
            true,
            Box::new(|project| {
                let path = project.join("valvehouse.toml");
                let text = std::fs::read_to_string(&path).unwrap();
                std::fs::write(path, &text[..text.len() / 2]).unwrap();
            }),
        ),
        done(
            "the folder of the store is gone",
            true,
            Box::new(|project| {
                drop(std::fs::remove_dir_all(project.join(".valvehouse")));
            }),
        ),
    ];
    for (name, encode) in [
        ("base64 with a mark", "77u/LyoKc2VjdXJpdHk6IHRydWUKKi8K".to_owned()),
        ("a form of MIME", GUARD.replace('=', "=3D").replace('\n', "=\n")),
        ("entities of HTML", GUARD.replace('"', "&quot;").replace('>', "&gt;")),
        ("Latin-1 escapes", GUARD.replace("bad", "b\\xe4d")),
    ] {
        all.push(slip(&format!("as {name}"), encode, false));
    }
    let latin: Vec<u8> = GUARD.replace("Guard", "W\u{e4}chter").chars().map(|letter| letter as u8).collect();
    all.push(content("slip: in Latin-1".into(), latin, true));
    for toml in [
        "[filters]\nguard = false",
        "[filters.guard]\nenabled = \"no\"",
        "[filters.guard]\nglobal = false",
        "[filters.guard]\nsecurity = false",
        "[filters.guard]\nvalves = { word = \"\" }\nenabled = true\n[filters.guard.budget]\nms = 1",
        "[filters.\"guard.rhai\"]\nenabled = false",
        "[filters.GUARD]\nenabled = false",
        "[folders]\nfilters = \"filters/\"",
        "[folders]\nfilters = \"./filters/../other\"",
        "[folders]\nfilters = \"\"",
        "[server]\nclient_variables = [\"*\"]",
        "[[models]]\nname = \"listing2\"\nprovider = \"mock\"\nmodel = \"mock-1\"\nfilters = []",
        "[store]\nurl = \"sqlite::memory:\"",
        "[breaker]\nfailure_threshold = 1\ncool_down_ms = 600000",
    ] {
        all.push(Mutation {
            name: format!("slip: settings {toml:?}"),
            change: Change::Settings(toml),
            shows: false,
        });
    }
    all
}

fn mutations() -> Vec<Mutation> {
    [operations(), oddities(), settings(), rows(), grants(), spellings(), reach(), letters(), lines()]
        .into_iter()
        .flatten()
        .collect()
}

/// The requests to which a guard applies.
#[derive(Clone, Copy, PartialEq)]
enum Reach {
    /// Requests to every model.
    Every,
    /// Requests to the one model that lists it.
    Listed,
}

/// A model that lists the guard.
const LISTING: &str =
    "[[models]]\nname = \"listing\"\nprovider = \"mock\"\nmodel = \"mock-1\"\nfilters = [\"guard\"]\n";

impl Reach {
    /// Returns a text of the guard with that reach.
    fn of(self, text: &[u8]) -> Vec<u8> {
        let (from, to) = (b"version: 1.0.0", b"global: false\n");
        let mut text = text.to_vec();
        if self == Self::Listed {
            while let Some(at) = text.windows(from.len()).position(|window| window == from) {
                text[at..at + from.len()].copy_from_slice(to);
            }
        }
        text
    }

    fn model(self) -> &'static str {
        match self {
            Self::Every => MODEL,
            Self::Listed => "listing",
        }
    }
}

/// Sends a forbidden request to every chat endpoint, streamed and not.
async fn probe(host: &TestHost, name: &str, when: &str, reach: Reach) {
    let model = reach.model();
    let ask = async |path: &str, body: serde_json::Value| {
        let request =
            host.request("POST", path).header("content-type", "application/json").body(body.to_string());
        Answer::of(request).await
    };
    let message = |stream: bool| json!({"model": model, "max_tokens": 9, "stream": stream, "messages": [{"role": "user", "content": "bad"}]});
    for (path, body) in [
        ("/v1/chat/completions", chat_body(model, "bad")),
        ("/v1/chat/completions", streaming(model, "bad")),
        ("/v1/messages", message(false)),
        ("/v1/messages", message(true)),
        ("/v1/responses", json!({"model": model, "input": "bad"})),
        ("/v1/responses", json!({"model": model, "input": "bad", "stream": true, "store": false})),
        ("/api/v1/agents/remembers/runs", json!({"input": "bad", "chat_id": "c"})),
    ] {
        let answer = ask(path, body).await;
        assert_ne!(answer.status, 200, "{name}, {when}: {path} lets it pass: {}", answer.body());
    }
    // The provider's own name leads to the same model.
    let upstream = ask("/v1/chat/completions", chat_body("mock/mock-1", "bad")).await;
    assert_ne!(upstream.status, 200, "{name}, {when}: its provider's name lets it pass: {}", upstream.body());
    // A pipelines client calls the filter itself: it refuses or does not exist; in the latter case the chat
    // refuses.
    let sent =
        json!({"model": model, "messages": [{"role": "user", "content": "bad"}], "id": "m", "chat_id": "c"});
    let inlet =
        ask("/guard/filter/inlet", json!({"body": sent, "user": {"id": "ann", "role": "user"}})).await;
    if inlet.status == 200 {
        let passed = ask("/chat/completions", inlet.json()).await;
        assert_ne!(passed.status, 200, "{name}, {when}: pipelines let it pass: {}", passed.body());
    }
    // A trial reports its result with status 200.
    ask("/api/v1/try", json!({"model": model, "text": "bad"})).await;
    let reached =
        host.upstream.requests().into_iter().filter(|request| request.last_text().contains("bad")).count();
    assert_eq!(reached, 0, "{name}, {when}: it reached the model");
}

fn apply(change: &Change, project: &Path, reach: Reach) {
    match change {
        Change::Content(bytes) => {
            std::fs::write(project.join("filters/guard.rhai"), reach.of(bytes)).unwrap();
        }
        Change::Files(change) | Change::Module(change) | Change::Folder(change) => change(project),
        Change::Settings(_) | Change::Store { .. } | Change::Grants(_) => {}
    }
}

/// Returns a guard that depends on an environment variable.
fn granted() -> String {
    GUARD
        .replace("version:", "requirements: env\nversion:")
        .replace("text.contains(valves.word)", "env::get(\"PATH\").len() > 0 && text.contains(valves.word)")
}

/// Returns a guard that uses a module.
fn importing() -> String {
    let end = GUARD.find("fn is_bad").unwrap();
    let guard = GUARD[..end]
        .replace("is_bad(body.messages[-1].text, valves)", "words::is_bad(body.messages[-1].text)");
    guard.replace("const Valves", "import \"lib/words\" as words;\nconst Valves")
}

/// Returns a weaker version of the guard, without a hook.
fn weaker() -> String {
    GUARD.replace("fn inlet", "fn looks")
}

/// Changes the store directly and makes the host read it again.
async fn run(host: &TestHost, statements: &[&'static str]) {
    let file = format!("sqlite://{}", host.folder().join(".valvehouse/state.db").display());
    let store = sqlx::SqlitePool::connect(&file).await.unwrap();
    for statement in statements.iter().copied().chain(["UPDATE store SET generation = generation + 1000"]) {
        sqlx::query(statement).execute(&store).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    store.close().await;
}

/// Starts a host with the guard of a mutation.
async fn guarded(mutation: &Mutation, reach: Reach) -> TestHost {
    let of = |text: &str| reach.of(text.as_bytes());
    let setup = TestHost::new().config(LISTING);
    let host = match mutation.change {
        Change::Grants(_) => setup.filter("guard", of(&granted())).config(GRANT).start().await,
        Change::Module(_) => {
            let module = "fn is_bad(text) { text.contains(\"bad\") }";
            setup.filter("guard", of(&importing())).filter("lib/words", module).start().await
        }
        Change::Folder(_) => setup.filter("own/guard", of(GUARD)).start().await,
        _ => setup.filter("guard", of(GUARD)).start().await,
    };
    host.chat(&chat_body(reach.model(), "bad")).await.refused(403, "guarded");
    host
}

const GRANT: &str = "[grants.guard]\nenv = [\"PATH\"]";

/// Tries one mutation on a running host, and after a restart.
async fn holds(mutation: &Mutation, reach: Reach) {
    let name = &mutation.name;
    let mut host = guarded(mutation, reach).await;
    match &mutation.change {
        Change::Store { statements, is_held } => {
            if *is_held {
                host.save("guard", reach.of(weaker().as_bytes()));
                host.stands("guard", "stale").await;
            }
            run(&host, statements).await;
        }
        Change::Grants(toml) => {
            let settings = host.settings().replace(GRANT, toml);
            // An invalid configuration is rejected as a whole, and the previous one stays.
            if host.try_reconfigure(&settings).await.is_err() {
                return;
            }
        }
        Change::Settings(toml) => {
            let settings = format!("{}\n{toml}\n", host.settings());
            // As above.
            if host.try_reconfigure(&settings).await.is_err() {
                return;
            }
        }
        change => apply(change, host.folder(), reach),
    }
    probe(&host, name, "at once", reach).await;
    host.app().host.reload().await;
    probe(&host, name, "when it is looked at", reach).await;
    // A host that does not start answers no requests.
    if host.try_restart().await.is_err() {
        return;
    }
    probe(&host, name, "after a restart", reach).await;
    // Another save must not reset the guard.
    if std::fs::write(host.folder().join("filters/zz.rhai"), WEAK).is_ok() {
        host.app().host.reload().await;
        probe(&host, name, "after another save", reach).await;
    }
    host.restart().await;
    probe(&host, name, "after another restart", reach).await;
}

/// Tries one mutation while the host is stopped.
async fn holds_asleep(mutation: &Mutation, reach: Reach) {
    let mut host = guarded(mutation, reach).await;
    host.stop().await;
    apply(&mutation.change, host.folder(), reach);
    for when in ["while it was stopped", "while it was stopped, after another restart"] {
        host.restart().await;
        probe(&host, &mutation.name, when, reach).await;
        host.app().host.reload().await;
        probe(&host, &mutation.name, when, reach).await;
    }
}

/// Tries one mutation with an empty store.
async fn holds_anew(mutation: &Mutation) {
    let mut host = TestHost::new().start().await;
    host.stop().await;
    std::fs::remove_dir_all(host.folder().join(".valvehouse")).unwrap();
    std::fs::create_dir_all(host.folder().join("filters")).unwrap();
    std::fs::write(host.path_of("guard"), GUARD).unwrap();
    apply(&mutation.change, host.folder(), Reach::Every);
    host.restart().await;
    probe(&host, &mutation.name, "on a new store", Reach::Every).await;
    host.restart().await;
    probe(&host, &mutation.name, "on a new store after a restart", Reach::Every).await;
}

fn sampled<T>(all: Vec<T>, most: usize) -> Vec<T> {
    // An odd step takes another of the eight changes of each letter.
    let step = all.len().div_ceil(most) | 1;
    valvehouse_testkit::sampled(all, step).collect()
}

/// The number of concurrent hosts, which wait most of the time.
const SIDE_BY_SIDE: usize = 4;

/// Tries all mutations and fails with a list of those that let a request pass.
async fn all_hold(mutations: Vec<Mutation>, holds: impl AsyncFn(&Mutation)) {
    let (count, passed) = (mutations.len(), Mutex::new(Vec::new()));
    futures::stream::iter(&mutations)
        .for_each_concurrent(SIDE_BY_SIDE, async |mutation| {
            if AssertUnwindSafe(holds(mutation)).catch_unwind().await.is_err() {
                passed.lock().unwrap().push(&mutation.name);
            }
        })
        .await;
    let passed = passed.into_inner().unwrap();
    eprintln!("{count} mutations, {} of them failed", passed.len());
    assert!(passed.is_empty(), "{} of {count} mutations: {passed:#?}", passed.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changing_a_guard_lets_no_request_pass() {
    all_hold(sampled(mutations(), SAMPLE), async |mutation| holds(mutation, Reach::Every).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mistakes_with_a_guard_let_no_request_pass() {
    all_hold(sampled(slips(), SAMPLE / 3), async |mutation| holds(mutation, Reach::Every).await).await;
    let shown = slips().into_iter().filter(|mutation| mutation.shows).collect();
    all_hold(sampled(shown, SAMPLE / 4), holds_anew).await;
    let of_files = |mutation: &Mutation| !matches!(mutation.change, Change::Settings(_));
    let all = slips().into_iter().filter(of_files).collect();
    all_hold(sampled(all, SAMPLE / 4), async |mutation| holds_asleep(mutation, Reach::Listed).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changing_a_guard_of_one_model_lets_no_request_pass() {
    all_hold(sampled(mutations(), SAMPLE / 2), async |mutation| holds(mutation, Reach::Listed).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_while_a_host_is_stopped_let_no_request_pass() {
    let of_files = |mutation: &Mutation| {
        !matches!(mutation.change, Change::Store { .. } | Change::Settings(_) | Change::Grants(_))
    };
    let all = mutations().into_iter().filter(of_files).collect();
    all_hold(sampled(all, SAMPLE / 2), async |mutation| holds_asleep(mutation, Reach::Every).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_claims_to_be_a_guard_rejects_on_a_new_store() {
    let shown = mutations().into_iter().filter(|mutation| mutation.shows).collect();
    all_hold(sampled(shown, SAMPLE), holds_anew).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_file_of_a_guard_lets_no_request_pass() {
    all_hold(sampled(second_files(), SAMPLE), holds_anew).await;
    all_hold(sampled(second_files(), SAMPLE / 4), async |mutation| holds(mutation, Reach::Every).await).await;
    let listed = async |mutation: &Mutation| holds_asleep(mutation, Reach::Listed).await;
    all_hold(sampled(second_files(), SAMPLE / 4), listed).await;
}

/// Saves in two writes while requests are sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn saving_a_guard_in_two_writes_lets_no_request_pass() {
    use std::io::Write;
    let host = Arc::new(TestHost::new().filter("guard", GUARD).start().await);
    let done = Arc::new(AtomicBool::new(false));
    let asking = {
        let (host, done) = (host.clone(), done.clone());
        tokio::spawn(async move {
            let mut attempts = 0;
            while !done.load(Relaxed) {
                let answer = host.ask("bad").await;
                assert_ne!(answer.status, 200, "{}", answer.body());
                attempts += 1;
            }
            attempts
        })
    };
    let next = GUARD.replace("1.0.0", "1.0.1");
    let cuts: Vec<usize> = (1..next.len()).step_by(next.len() / 60).collect();
    for (number, cut) in sampled(cuts, 10).into_iter().enumerate() {
        let mut file = std::fs::File::create(host.path_of("guard")).unwrap();
        file.write_all(&next.as_bytes()[..cut]).unwrap();
        if number % 2 == 0 {
            // Two saves and not a slow one.
            drop(file);
            file = std::fs::File::options().append(true).open(host.path_of("guard")).unwrap();
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        file.write_all(&next.as_bytes()[cut..]).unwrap();
        drop(file);
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    done.store(true, Relaxed);
    assert!(asking.await.unwrap() > 10);
    host.stands("guard", "live").await;
    assert_eq!(
        with(host.posting(chat_body(MODEL, "good").to_string()), &[]).await.text(),
        "hello from upstream"
    );
}
