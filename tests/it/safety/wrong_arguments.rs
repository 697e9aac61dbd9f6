//! A secret in the wrong argument of every function of the reference: neither the log nor a trace, a span or a
//! response shows a part of it.

use crate::cli::Project;
use crate::host::{TIMEOUT, client};
use crate::upstream::{Reply, Upstream};
use serde_json::{Value, json};
use std::fmt::Write as _;
use valvehouse_dialect::value::Type;
use valvehouse_script_std::reference::{Function, Param, functions};

/// Secrets as people store them: a token, and random bytes in base64, whose signs separate parts of a URL.
const SECRETS: [(&str, &str); 2] = [
    ("token", "tok_9F8e7D6c5B4a39281706f5E4d3C2b1A09988QwErTyUiOpAsDfGhJkLzXcVbNm4455667788"),
    ("key", "Zm9vYmFyLWJheg7/QuuxCorge9+GraultGarplyWaldo31/FredPlugh42XyzzyThud59AbCdEfGhIjKlMnOp=="),
];
/// The number of characters that no output may show.
const SHOWN: usize = 8;
/// The number of calls in one script.
const CALLS: usize = 200;

/// The options that take a text.
const OPTIONS: [&str; 9] =
    ["algorithm", "method", "read", "url", "timeout", "name", "columns", "model", "unknown option"];

/// The functions that send what they are given to the client or to a model.
const SENDING: [&str; 4] = ["emit", "skip", "deny", "error"];

/// Returns an argument that fits, as a script writes it.
fn fitting(param: &Param) -> Option<&'static str> {
    Some(match param.kind {
        Type::Any | Type::Text => "\"x\"",
        Type::Number | Type::Integer => "1",
        Type::Boolean => "true",
        Type::Array => "[\"x\"]",
        Type::Map => "#{ x: 1 }",
        Type::Closure => "|x| x",
        Type::Range => "0..2",
        Type::Blob => "\"x\".to_blob()",
        Type::Handle("messages") => "body.messages",
        Type::Handle("message") => "body.messages[-1]",
        Type::Nothing | Type::Instant | Type::Handle(_) | Type::ListOf(_) => return None,
    })
}

/// Returns the calls of a function with a secret in place of each text and of each option.
fn calls(function: &Function, secret: &str) -> Vec<String> {
    let Some(fitting) = function.params.iter().map(fitting).collect::<Option<Vec<_>>>() else {
        return Vec::new();
    };
    let call = |at: usize, value: &str| {
        let mut given = fitting.clone();
        given[at] = value;
        match function.is_method {
            true => format!("let it = {}; it.{}({});", given[0], function.name, given[1..].join(", ")),
            false if function.module.is_empty() => format!("{}({});", function.name, given.join(", ")),
            false => format!("{}::{}({});", function.module, function.name, given.join(", ")),
        }
    };
    let wrong = |(at, param): (usize, &Param)| match param.kind {
        Type::Text | Type::Any | Type::Number | Type::Integer => {
            vec![call(at, secret), call(at, &format!("`https://${{{secret}}}/x`"))]
        }
        Type::Map => {
            let named = OPTIONS.iter().map(|option| call(at, &format!("#{{ \"{option}\": {secret} }}")));
            named.chain([call(at, &format!("json::parse(`{{\"${{{secret}}}\": 1}}`)"))]).collect()
        }
        _ => vec![call(at, secret)],
    };
    function.params.iter().enumerate().flat_map(wrong).collect()
}

/// Returns a script whose hook makes the call whose number the last message has.
fn script(first: usize, calls: &[String]) -> String {
    let mut text = String::from(
        "/*\nglobal: false\nrequirements: http, files, env, kv, llm, tools, vectors, memories, chats, shell\n*/\n\
         const Valves = #{ token: #{ value: \"\", type: \"string\", secret: true }, key: #{ value: \"\", type: \"string\", secret: true } };\n\
         fn inlet(body, valves) {\n    switch parse_int(body.messages[-1].text) {\n",
    );
    for (number, call) in calls.iter().enumerate() {
        let _ = writeln!(text, "        {} => {{ {call} }}", first + number);
    }
    text + "        _ => { }\n    }\n    body\n}\n"
}

/// Returns a part of a secret that a text shows in any case of its letters.
fn leak(text: &str) -> Option<String> {
    let text = text.to_lowercase();
    SECRETS.iter().find_map(|(_, secret)| {
        let secret = secret.to_lowercase();
        let mut parts = (0..=secret.len() - SHOWN).map(|at| &secret[at..at + SHOWN]);
        parts.find(|part| text.contains(part)).map(str::to_owned)
    })
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_function_shows_a_part_of_a_secret_in_the_wrong_argument() {
    let (upstream, collector) = (Upstream::start().await, Upstream::start().await);
    collector.reply(Reply::json(&json!({})));
    let tried = functions().iter().filter(|function| !SENDING.contains(&&*function.name));
    let both = tried.flat_map(|function| SECRETS.map(|(name, _)| (function, name)));
    let all: Vec<String> =
        both.flat_map(|(function, name)| calls(function, &format!("valves.{name}"))).collect();
    assert!(all.len() > 1_000, "{}", all.len());
    let all: Vec<String> = valvehouse_testkit::sampled(all, 17).collect();
    let mut toml = format!(
        "[[providers]]\nname = \"mock\"\nkind = \"openai\"\nbase_url = \"{}\"\nmodels = \"*\"\n\
         retry = {{ max_attempts = 1 }}\nbreaker = {{ failure_threshold = 0 }}\n[breaker]\nfailure_threshold = 0\n\
         [trace]\nturns = {}\n[otlp]\nendpoint = \"{}\"\n",
        upstream.url(),
        all.len() + 1,
        collector.url().trim_end_matches("/v1"),
    );
    let mut project = Project::new();
    for (number, part) in all.chunks(CALLS).enumerate() {
        let valves: Vec<String> =
            SECRETS.iter().map(|(name, secret)| format!("{name} = \"{secret}\"")).collect();
        let _ = write!(
            toml,
            "[[models]]\nname = \"m{number}\"\nprovider = \"mock\"\nmodel = \"m\"\nfilters = [\"f{number}\"]\n\
             [filters.f{number}]\nvalves = {{ {} }}\nbudget = {{ ms = 1000 }}\n\
             [grants.f{number}]\nhttp = [\"example.invalid\"]\nfiles = [\".\"]\nenv = [\"PATH\"]\nshell = [\"true\"]\n\
             memories = true\nchats = true\n",
            valves.join(", "),
        );
        project = project.filter(&format!("f{number}"), &script(number * CALLS, part));
    }
    let project = project.with("valvehouse.toml", &toml).variable("VALVEHOUSE_LOG", "debug");
    let server = project.serve("");
    let (client, url) = (client(), server.url());
    let (mut wrong, mut failed) = (Vec::new(), 0);
    for (number, call) in all.iter().enumerate() {
        let body = json!({"model": format!("m{}", number / CALLS), "messages": [{"role": "user", "content": number.to_string()}]});
        let request = client.post(format!("{url}/v1/chat/completions")).body(body.to_string());
        let answer = request.timeout(TIMEOUT).send().await.unwrap();
        failed += usize::from(!answer.status().is_success());
        let id = answer.headers()["x-valvehouse-trace"].to_str().unwrap().to_owned();
        let shown = answer.text().await.unwrap();
        let trace =
            client.get(format!("{url}/api/v1/traces/{id}")).send().await.unwrap().text().await.unwrap();
        for (place, text) in [("the response", &shown), ("the trace", &trace)] {
            wrong.extend(leak(text).map(|part| format!("{call} shows {part} in {place}: {text}")));
        }
    }
    let log = server.last_words();
    wrong.extend(
        log.lines().filter_map(|line| leak(line).map(|part| format!("the log shows {part}: {line}"))),
    );
    let spans: Vec<Value> = collector
        .requests()
        .iter()
        .flat_map(|batch| {
            let batch = batch.json();
            batch["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().cloned().unwrap_or_default()
        })
        .collect();
    assert!(spans.len() >= all.len(), "{} spans", spans.len());
    wrong.extend(
        spans
            .iter()
            .filter_map(|span| leak(&span.to_string()).map(|part| format!("a span shows {part}: {span}"))),
    );
    eprintln!("{} calls of {} functions, {failed} failed", all.len(), functions().len());
    assert!(failed > all.len() / 12, "{failed} of {} failed", all.len());
    assert!(wrong.is_empty(), "{} leaks: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
}
