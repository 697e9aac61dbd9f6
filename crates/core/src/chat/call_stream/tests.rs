use super::*;
use crate::chat::Fold;

const TOOLS: &str = r#"[{"type":"function","function":{"name":"bash"}},{"type":"function","function":{"name":"read"}},
    {"type":"function","function":{"name":"read_file"}}]"#;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

/// Corrects a stream of deltas of calls that ends with a finish reason; each text is the `tool_calls` of one event.
fn corrected(deltas: &[&str]) -> Result<Vec<Json>, BadCall> {
    let mut stream = CallStream::new(&json(TOOLS));
    let event =
        |calls: &str| json(&format!(r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{calls}]}}}}]}}"#));
    let end = json(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#);
    let events: Vec<Json> = deltas.iter().map(|calls| event(calls)).chain([end]).collect();
    for event in &events {
        stream.correct(event)?;
    }
    assert!(!stream.is_holding() && stream.rest() == Ok(None));
    Ok(events)
}

/// Returns the calls as OpenAI's SDK assembles them, `name(arguments)`, after checking the form of each delta.
fn calls(deltas: &[&str]) -> Vec<String> {
    let events = corrected(deltas).unwrap();
    let (mut begun, mut ids) = (0, Vec::new());
    for part in events.iter().flat_map(|event| event.at_path("choices.0.delta.tool_calls").items()) {
        let index = part.integer("index").unwrap();
        let given = |key: &str| part.at_path(key).as_str().map(str::to_owned);
        if index == begun {
            begun += 1;
            ids.push(given("id").filter(|id| !id.is_empty()).unwrap());
            assert!(
                given("type").is_some() && given("function.name").is_some_and(|name| !name.is_empty()),
                "{part}"
            );
            assert!(given("function.arguments").is_some(), "{part}");
        } else {
            assert!(index < begun, "{part}");
            assert!(part.get("id").is_none() && part.field("function").get("name").is_none(), "{part}");
            assert!(part.get("type").is_none_or(|kind| kind.as_str().is_some()), "{part}");
            assert!(
                part.field("function").get("arguments").is_none_or(|given| given.as_str().is_some()),
                "{part}"
            );
        }
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len() as i64, begun, "each call has its own id");
    let mut fold = Fold::default();
    events.iter().for_each(|event| fold.push(event));
    let calls = fold.finish().at_path("choices.0.message.tool_calls").items();
    let text = |call: &Json| {
        let function = call.field("function");
        format!("{}({})", function.text_or_empty("name"), function.text_or_empty("arguments"))
    };
    calls.iter().map(text).collect()
}

#[test]
fn a_usual_stream_is_not_changed() {
    let mut stream = CallStream::new(&json(TOOLS));
    for calls in [
        r#"{"index":0,"id":"a","type":"function","function":{"name":"bash","arguments":""}}"#,
        r#"{"index":0,"function":{"arguments":"{\"n\":"}}"#,
        r#"{"index":0,"function":{"arguments":"1}"}},{"index":1,"id":"b","type":"function","function":{"name":"read","arguments":"{}"}}"#,
    ] {
        let event = json(&format!(r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{calls}]}}}}]}}"#));
        assert_eq!(stream.correct(&event), Ok(false), "{calls}");
    }
}

#[test]
fn a_name_behind_its_arguments_begins_the_call_with_all_of_them() {
    let late = [
        r#"{"index":0,"id":"a","type":"function","function":{"arguments":"{\"n\":"}}"#,
        r#"{"index":1,"id":"b","function":{"arguments":"{\"n\":"}}"#,
        r#"{"index":0,"function":{"arguments":"1}"}},{"index":1,"function":{"arguments":"2}"}}"#,
        r#"{"index":1,"function":{"name":"read"}}"#,
        r#"{"index":0,"function":{"name":"bash"}}"#,
    ];
    assert_eq!(calls(&late), [r#"bash({"n":1})"#, r#"read({"n":2})"#]);
}

#[test]
fn the_parts_of_a_name_are_joined_and_a_repeated_name_is_not() {
    let part = |name: &str, arguments: &str| {
        format!(r#"{{"index":0,"id":"a","function":{{"name":"{name}","arguments":"{arguments}"}}}}"#)
    };
    for (parts, expected) in [
        ([("ba", ""), ("sh", ""), ("", "{}")], "bash({})"),
        ([("ba", "{"), ("sh", "}"), ("", "")], "bash({})"),
        ([("read", ""), ("_file", "{"), ("", "}")], "read_file({})"),
        ([("read", ""), ("", "{"), ("", "}")], "read({})"),
        ([("bash", "{"), ("bash", "}"), ("bash", "")], "bash({})"),
        ([("ba", ""), ("bash", "{"), ("bash", "}")], "bash({})"),
        ([("other", "{"), ("", "}"), ("", "")], "other({})"),
    ] {
        let parts = parts.map(|(name, arguments)| part(name, arguments));
        assert_eq!(calls(&parts.each_ref().map(String::as_str)), [expected], "{parts:?}");
    }
}

#[test]
fn calls_are_told_apart_without_an_index_and_with_equal_ones() {
    let two = ["bash({\"n\":1})", "bash({\"n\":2})"];
    for deltas in [
        [
            r#"{"function":{"name":"bash","arguments":{"n":1}}}"#,
            r#"{"function":{"name":"bash","arguments":{"n":2}}}"#,
        ],
        [
            r#"{"index":0,"id":"a","function":{"name":"bash","arguments":"{\"n\":1}"}}"#,
            r#"{"index":0,"id":"b","function":{"name":"bash","arguments":"{\"n\":2}"}}"#,
        ],
        [
            r#"{"index":0,"function":{"name":"bash","arguments":"{\"n\":1}"}}"#,
            r#"{"index":0,"function":{"name":"bash","arguments":"{\"n\":2}"}}"#,
        ],
        [
            r#"{"index":3,"id":"a","function":{"name":"bash","arguments":"{\"n\":1}"}}"#,
            r#"{"index":5,"id":"a","function":{"name":"bash","arguments":"{\"n\":2}"}}"#,
        ],
    ] {
        assert_eq!(calls(&deltas), two, "{deltas:?}");
    }
    let other_index = [
        r#"{"index":0,"id":"a","function":{"name":"bash","arguments":"{\"n\""}}"#,
        r#"{"index":1,"id":"a","function":{"arguments":":1}"}}"#,
    ];
    assert_eq!(calls(&other_index), two[..1]);
}

#[test]
fn null_and_empty_fields_of_later_deltas_are_removed() {
    let deltas = [
        r#"{"index":1,"id":"a","type":"function","function":{"name":"bash","arguments":""}}"#,
        r#"{"index":1,"id":null,"type":null,"function":{"name":null,"arguments":"{\"p\":"}}"#,
        r#"{"index":1,"id":"","type":"","function":{"name":"","arguments":"1}"}}"#,
        r#"{"index":1,"id":"new","function":{"arguments":null}}"#,
        r#"{"index":1,"function":null}"#,
    ];
    assert_eq!(calls(&deltas), [r#"bash({"p":1})"#]);
}

#[test]
fn a_call_without_a_readable_name_is_an_error() {
    for name in [r#"{"text":"f"}"#, "1", "[]", "true"] {
        let call = format!(r#"{{"index":0,"id":"a","function":{{"name":{name},"arguments":"{{}}"}}}}"#);
        assert!(matches!(corrected(&[&call]), Err(BadCall::NameKind(_))), "{name}");
    }
    let nameless = r#"{"index":0,"id":"a","function":{"arguments":"{}"}}"#;
    assert_eq!(corrected(&[nameless]).unwrap_err(), BadCall::NoName);
    // A call without anything is not one.
    assert_eq!(calls(&[r#"{"index":0}"#]), [""; 0]);
}
