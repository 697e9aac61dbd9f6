//! Official clients assemble streams that passed filters: parallel calls, text, thinking, refusals and
//! several choices.

use super::events::{Call, Speech, cut_everywhere};
use super::raw::{Stream, hosts};
use super::{Shape, folded};
use crate::generator::clients as official;
use crate::kernel::value;
use serde_json::{Value, json};
use std::process::Command;
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

async fn check(client: Command) {
    let streams = streams();
    let of_service = |events: &Vec<Json>| Stream::chat("", &events.iter().map(value).collect::<Vec<_>>());
    let hosts = hosts(streams.iter().map(of_service).collect()).await;
    let numbers = |shape: Shape| (0..streams.len()).map(move |number| (shape, number));
    let requests = Shape::ALL.into_iter().flat_map(numbers);
    let requests: Vec<Value> =
        requests.map(|(shape, number)| json!({"model": format!("{shape:?}"), "number": number})).collect();
    let seen = official::read(client, hosts.host.url("/v1"), &requests).await;
    assert_eq!(seen.len(), requests.len());
    for seen in seen {
        let number = usize::try_from(seen["number"].as_u64().unwrap()).unwrap();
        let shape = Shape::ALL.into_iter().find(|shape| seen["model"] == format!("{shape:?}")).unwrap();
        let expected = value(&shape.expected(&folded(&streams[number])));
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: the_openai_python_sdk_sees_one_end_despite_any_filter"]
async fn the_openai_python_sdk_assembles_filtered_streams() {
    let Some(client) = official::python("tests/python/lanes.py") else { return };
    check(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_openai_javascript_sdk_assembles_filtered_streams() {
    let Some(client) = official::javascript("tests/javascript/lanes.cjs") else { return };
    check(client).await;
}
