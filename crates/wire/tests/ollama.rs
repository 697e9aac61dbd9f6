//! Requests to Ollama's API.

#![allow(clippy::unwrap_used)]

use valvehouse_json::Json;
use valvehouse_wire::ollama::request::write;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

fn chat_body(body: &str) -> String {
    write(&json(body), true).unwrap_or_else(|error| panic!("{error}")).to_string()
}

#[test]
fn a_request_keeps_its_messages_and_moves_its_options_for_ollama() {
    assert_eq!(
        chat_body(
            r#"{"model":"llama3","messages":[{"role":"developer","content":"Be brief."},{"role":"user","content":"hi"}],
               "temperature":0.70,"top_p":1e0,"max_tokens":5,"max_completion_tokens":6,"seed":7,"stop":"END","n":1,
               "user":"ann","stream_options":{"include_usage":true}}"#
        ),
        concat!(
            r#"{"model":"llama3","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"hi"}],"#,
            r#""stream":true,"options":{"temperature":0.70,"top_p":1e0,"seed":7,"num_predict":6,"stop":["END"]}}"#
        )
    );
    assert_eq!(
        chat_body(
            r#"{"model":"m","messages":[],"stop":["a","b"],"temperature":1,"options":{"temperature":0,"mirostat":1},
               "keep_alive":"5m","think":true,"reasoning_effort":"low","format":"json","max_tokens":null}"#
        ),
        concat!(
            r#"{"model":"m","messages":[],"stream":true,"#,
            r#""options":{"temperature":0,"stop":["a","b"],"mirostat":1},"think":true,"format":"json","keep_alive":"5m"}"#
        )
    );
}

#[test]
fn response_formats_and_thinking_are_translated_for_ollama() {
    let schema = r#"{"model":"m","messages":[],"reasoning_effort":"none",
        "response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}}}"#;
    assert!(
        chat_body(schema).ends_with(r#""format":{"type":"object"},"think":false}"#),
        "{}",
        chat_body(schema)
    );
    let object = r#"{"model":"m","messages":[],"reasoning_effort":"minimal","response_format":{"type":"json_object"}}"#;
    assert!(chat_body(object).ends_with(r#""format":"json","think":true}"#), "{}", chat_body(object));
}

#[test]
fn inline_images_are_sent_and_image_urls_are_rejected() {
    let with = |url: &str| {
        format!(
            r#"{{"model":"m","messages":[{{"role":"user","content":[{{"type":"text","text":"what is "}},
               {{"type":"image_url","image_url":{{"url":"{url}"}}}},{{"type":"text","text":"this?"}}]}}]}}"#
        )
    };
    let body = chat_body(&with("data:image/png;base64,iVBOR/+8="));
    assert!(
        body.contains(r#"{"role":"user","content":"what is \n\nthis?","images":["iVBOR/+8="]}"#),
        "{body}"
    );
    let error = write(&json(&with("https://example.com/a.png")), true).unwrap_err().to_string();
    assert_eq!(
        error,
        "messages[0].content[1] is the URL of an image; Ollama needs the image itself: data:image/png;base64,…"
    );
    let audio = r#"{"model":"m","messages":[{"role":"user","content":[{"type":"input_audio"}]}]}"#;
    let error = write(&json(audio), true).unwrap_err().to_string();
    assert_eq!(error, "messages[0].content[0] has the type input_audio; Ollama supports text and images");
}

#[test]
fn a_result_has_texts_and_images_and_names_the_rest() {
    let parts = r#"{"type":"text","text":"one"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},
        {"type":"text","text":"two"},{"type":"image_url","image_url":{"url":"https://x.example/a.png"}},
        {"type":"input_audio","input_audio":{"data":"BBBB","format":"wav"}},
        {"type":"file","file":{"filename":"a.txt","file_data":"data:text/plain;base64,aGk="}}"#;
    let message = format!(r#"{{"role":"tool","tool_call_id":"c","content":[{parts}]}}"#);
    let sent = json(&chat_body(&format!(r#"{{"model":"m","messages":[{message}]}}"#)));
    assert_eq!(sent.at_path("messages.0.images").to_string(), r#"["AAAA"]"#);
    let text = sent.at_path("messages.0.content");
    let lines: Vec<&str> = text.str_or_empty().lines().collect();
    assert_eq!((lines[0], lines[1], &lines[4..]), ("one", "two", &["a.txt:", "hi"][..]), "{text}");
    assert!(lines[2].contains("An image") && lines[3].contains("Audio"), "{text}");
    // The failure of a client of Anthropic's API.
    let failed = r#"{"model":"m","anthropic":{},"messages":[{"role":"tool","tool_call_id":"c","content":"no","is_error":true}]}"#;
    assert_eq!(json(&chat_body(failed)).at_path("messages.0.content"), Json::from("Error: no"));
}

#[test]
fn calls_have_objects_as_arguments_and_results_the_names_of_their_tools() {
    let body = chat_body(
        r#"{"model":"m","tools":[{"type":"function","function":{"name":"weather"}}],"messages":[
            {"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[
                {"id":"c1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Bonn\",\"days\":2}"}},
                {"id":"c2","type":"function","function":{"name":"clock","arguments":""}},
                {"id":"c3","type":"function","function":{"name":"odd","arguments":"{\"cut"}}]},
            {"role":"tool","tool_call_id":"c2","content":"noon"},
            {"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"rain"}]}]}"#,
    );
    for expected in [
        r#""content":"","thinking":"hm","tool_calls":[{"id":"c1","function":{"name":"weather","arguments":{"city":"Bonn","days":2}}}"#,
        r#"{"id":"c2","function":{"name":"clock","arguments":{}}}"#,
        r#"{"id":"c3","function":{"name":"odd","arguments":{"unreadable_arguments":"{\"cut"}}}"#,
        r#"{"role":"tool","content":"noon","tool_name":"clock","tool_call_id":"c2"}"#,
        r#"{"role":"tool","content":"rain","tool_name":"weather","tool_call_id":"c1"}"#,
        r#""tools":[{"type":"function","function":{"name":"weather"}}]"#,
    ] {
        assert!(body.contains(expected), "{expected} is not in {body}");
    }
    let none = chat_body(r#"{"model":"m","messages":[],"tools":[{}],"tool_choice":"none"}"#);
    assert!(!none.contains("tools"), "{none}");
}
