//! One request whose scripts start many calls: each call stays within its budget, and so does their sum.

use super::host::Host;
use super::{Hostile, Limits};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// The number of bytes that the waiting calls of one request may hold together: four times the memory of one
/// call.
const HELD: u64 = 256 << 20;

/// Returns the configuration of a model with these tools.
fn settings(tools: &[(String, String)]) -> String {
    let names: Vec<&str> = tools.iter().map(|(name, _)| name.as_str()).collect();
    format!(
        "[breaker]\nfailure_threshold = 0\n\n[[models]]\nname = \"demo\"\nprovider = \"demo\"\nmodel = \"demo\"\ntools = {names:?}\n"
    )
}

/// Returns a tool that runs a piece of code 64 times in parallel.
fn many(requirements: &str, seconds: u32, part: &str) -> String {
    format!(
        "/*\ndescription: many at once\nrequirements: {requirements}\ntimeout: {seconds}000\n*/\nfn handler(args) {{\n    \
         let parts = [];\n    for i in 0..64 {{ parts.push(|| {part}); }}\n    parallel(parts, #{{ limit: 64, settle: true \
         }}).len()\n}}\n"
    )
}

fn asks(tool: &str) -> String {
    format!("llm::chat(#{{ messages: [#{{ role: \"user\", content: \"/{tool}\" }}] }}).text")
}

/// Returns the increase of the host's peak resident memory during one request that calls a tool. Other
/// requests run at the same time, and all are answered.
fn peak(grants: &str, tools: impl IntoIterator<Item = (String, String)>, prompt: &str) -> u64 {
    let limits = Limits::beside_harmless();
    let tools: Vec<_> = tools.into_iter().collect();
    let settings = settings(&tools);
    let files = tools.into_iter().map(|(name, text)| (format!("tools/{name}.rhai"), text));
    let mut host = Host::start_with(&format!("{grants}{settings}"), 1 << 32, files);
    host.ask("calm", "hello", false);
    let is_over = Arc::new(AtomicBool::new(false));
    let address = host.address();
    let others = std::thread::spawn({
        let is_over = is_over.clone();
        move || {
            let mut wrong = Vec::new();
            while !is_over.load(SeqCst) {
                let answer = super::host::ask(&address, "calm", "hello", false);
                if !answer.is(200) || !answer.text.contains("still here") {
                    wrong.push(answer);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            wrong
        }
    });
    let answer = host.ask("demo", &format!("/{prompt}"), false);
    is_over.store(true, SeqCst);
    let (wrong, resident) = (others.join().unwrap(), host.resident());
    let log = host.end();
    if std::env::var_os("SHOW").is_some() {
        println!("{prompt}: {} MB above, {}", resident.saturating_sub(limits.resident) >> 20, answer.text);
    }
    assert!(answer.is(200), "{prompt}: {answer:?}\n{log}");
    assert!(wrong.is_empty(), "{prompt}: {} others failed: {:?}\n{log}", wrong.len(), wrong.first());
    resident.saturating_sub(limits.resident)
}

#[test]
fn mutually_recursive_tools_and_models_are_bounded() {
    let tools = (0..4).map(|number| {
        let next = format!("tree{}x", (number + 1) % 4);
        (format!("tree{number}x"), many("llm", 20, &asks(&next)))
    });
    let above = peak("", tools, "tree0x");
    assert!(above <= HELD, "{} MB", above >> 20);
}

#[test]
fn concurrent_waiting_calls_hold_bounded_memory() {
    let hold: String = (0..20).map(|n| format!("let a{n} = []; a{n}.pad(90_000, {n}); ")).collect();
    let leaf = format!(
        "/*\ndescription: holds much\ntimeout: 20000\n*/\nfn handler(args) {{ {hold} time::sleep(3_000); 1 }}"
    );
    let tools = [("leafx".to_owned(), leaf), ("leafroot".to_owned(), many("llm", 20, &asks("leafx")))];
    let above = peak("", tools, "leafroot");
    assert!(above <= HELD, "{} MB", above >> 20);
}

#[test]
fn nested_parallel_calls_stay_within_the_memory_of_one_call() {
    let inner = |part: &str| {
        format!(
            "{{ let parts = []; for i in 0..64 {{ parts.push(|| {part}); }} parallel(parts, #{{ limit: 64, settle: true }}).len() }}"
        )
    };
    let tool = many("", 5, &inner(&inner("time::sleep(4_000)")));
    let above = peak("", [("nested".to_owned(), tool)], "nested");
    assert_eq!(above, 0, "{} MB", above >> 20);
}

#[test]
fn concurrent_responses_stay_within_the_memory_of_the_call() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 4_096]);
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close";
                let _ = write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n", 8 << 20);
                let _ = stream.write_all(&vec![b'x'; 8 << 20]);
            });
        }
    });
    let url = format!("http://{address}/");
    let part = format!("http::get(\"{url}\", #{{ max_bytes: 8_388_608 }}).status");
    let grants = format!("[grants.large]\nhttp = [\"{address}\"]\n\n");
    let above = peak(&grants, [("large".to_owned(), many("http", 20, &part))], "large");
    assert_eq!(above, 0, "{} MB", above >> 20);
}

/// Natives that traverse megabytes within the few milliseconds of a stream hook.
pub(super) fn all() -> impl Iterator<Item = Hostile> {
    const STREAM: &[&str] = &[super::TIME, "limit of 50000 operations"];
    let natives = [
        ("html::text of a page of signs", "html::text(s)"),
        ("html::unescape of entities", "html::unescape(s)"),
        ("html::escape of signs", "html::escape(s)"),
        ("url::encode of signs", "url::encode(s)"),
        ("replace of each letter", "s.replace(\"<\", \">\")"),
        ("text::replace of each letter", "text::replace(s, \"<\", \">\")"),
        ("crop of a long text", "s.crop(1)"),
        ("lines of a long text", "text::lines(s)"),
        ("tokens of a long text", "tokens::count(s, \"gpt-4\")"),
    ];
    natives.into_iter().map(|(name, code)| Hostile {
        says: "many words ".repeat(5),
        streams: true,
        deadline: super::STREAM / valvehouse_testkit::slowness(),
        ..Hostile::filter(
            name,
            format!("fn stream(event) {{ let s = \"\"; s.pad(4_000_000, \"<\"); {code}; event }}"),
            super::Comes::Breaks(STREAM),
        )
    })
}
