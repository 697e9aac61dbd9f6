//! Official clients assemble streams that passed filters: parallel calls, text, thinking, refusals and
//! several choices.

use super::events::{Call, Speech, cut_everywhere};
use super::{Shape, folded};
use crate::host::TestHost;
use crate::upstream::Reply;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use valvehouse::json::Json;

/// Returns the streams, each cut at every place.
fn streams() -> Vec<Vec<Json>> {
    let call = |name, place: &str| Call::function(name, &format!(r#"{{"location":"{place} secret-42"}}"#));
    let all = [
        vec![Speech::Calls(vec![call("f0", "Seattle, WA"), call("f1", "Bonn"), call("f0", "Paris")])],
        vec![Speech::Text("Let me look at secret-42. ".into()), Speech::Calls(vec![call("f0", "Rome")])],
        vec![
            Speech::Thinking("hm, secret-42 ".into()),
            Speech::Text("It is secret-42 again, and more.".into()),
        ],
        vec![Speech::Refusal("I will not tell secret-42 to you.".into())],
    ];
    all.iter().flat_map(|speech| cut_everywhere(speech)).step_by(3).collect()
}

fn wire(events: &[Json]) -> String {
    let lines: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    lines + "data: [DONE]\n\n"
}

async fn host(streams: Arc<Vec<Vec<Json>>>) -> TestHost {
    let mut setup = TestHost::new();
    for shape in Shape::ALL {
        let mut names = Vec::new();
        for (n, text) in shape.scripts().into_iter().enumerate() {
            let name = format!("{}_{n}", format!("{shape:?}").to_lowercase());
            let text = match text.strip_prefix("/*\n") {
                Some(rest) => format!("/*\nglobal: false\n{rest}"),
                None => format!("/*\nglobal: false\n*/\n{text}"),
            };
            setup = setup.filter(&name, text);
            names.push(name);
        }
        setup = setup.config(&format!(
            "[[models]]\nname = \"{shape:?}\"\nprovider = \"mock\"\nmodel = \"m\"\nfilters = {}",
            json!(names)
        ));
    }
    let host = setup.start().await;
    host.upstream.script(move |request| {
        let number: usize = request.last_text().parse().unwrap();
        Reply::raw("text/event-stream", wire(&streams[number]))
    });
    host
}

async fn check(mut client: Command) {
    let streams = Arc::new(streams());
    let host = host(streams.clone()).await;
    let list = tempfile::NamedTempFile::new().unwrap();
    let lines: String = Shape::ALL
        .iter()
        .flat_map(|shape| (0..streams.len()).map(move |number| (shape, number)))
        .map(|(shape, number)| format!("{}\n", json!({"model": format!("{shape:?}"), "number": number})))
        .collect();
    std::fs::write(list.path(), lines).unwrap();
    client.env("NO_PROXY", "127.0.0.1").arg(host.url("/v1")).arg(list.path());
    let output = tokio::task::spawn_blocking(move || client.output()).await.unwrap().expect("a client runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    let seen: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(seen.len(), streams.len() * Shape::ALL.len());
    for seen in seen {
        let number = usize::try_from(seen["number"].as_u64().unwrap()).unwrap();
        let shape = Shape::ALL.into_iter().find(|shape| seen["model"] == format!("{shape:?}")).unwrap();
        let expected: Value =
            serde_json::from_str(&shape.expected(&folded(&streams[number])).to_string()).unwrap();
        let expected_message = &expected["choices"][0]["message"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let calls = |value: &Value| -> Vec<String> {
            let calls = value.as_array().cloned().unwrap_or_default();
            calls
                .iter()
                .map(|call| format!("{} {}", call["function"]["name"], call["function"]["arguments"]))
                .collect()
        };
        assert_eq!(seen["error"], Value::Null, "{shape:?}: {seen}");
        assert_eq!(
            text(&seen["message"]["content"]),
            text(&expected_message["content"]),
            "{shape:?}: {seen}"
        );
        assert_eq!(
            text(&seen["message"]["refusal"]),
            text(&expected_message["refusal"]),
            "{shape:?}: {seen}"
        );
        assert_eq!(
            calls(&seen["message"]["tool_calls"]),
            calls(&expected_message["tool_calls"]),
            "{shape:?}: {seen}"
        );
        // The order in which the calls end.
        let done: Vec<String> = seen["done"].as_array().unwrap().iter().map(text).collect();
        let whole = expected_message["tool_calls"].as_array().cloned().unwrap_or_default();
        let whole: Vec<String> = whole.iter().map(|call| text(&call["function"]["arguments"])).collect();
        assert_eq!(done, whole, "{shape:?}: {seen}");
    }
}

fn script(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_openai_python_sdk_assembles_filtered_streams() {
    let Some(python) = crate::python::python() else { return };
    let mut client = Command::new(python);
    client.env("PYTHONDONTWRITEBYTECODE", "1").arg(script("tests/python/lanes.py"));
    check(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_openai_javascript_sdk_assembles_filtered_streams() {
    let Some(mut client) = crate::javascript::node() else { return };
    client.arg(script("tests/javascript/lanes.cjs"));
    check(client).await;
}
