//! Requests, both ways.

use super::json;
use valvehouse_core::chat::plain;
use valvehouse_core::error::Error;
use valvehouse_json::Json;
use valvehouse_wire::messages::answer;
use valvehouse_wire::messages::request::{MessagesRequest, read, write};

/// A chat request of these fields beside the model.
fn converted_request(fields: &str) -> Result<MessagesRequest, Error> {
    write(&json(&format!(r#"{{"model":"claude",{fields}}}"#)), false)
}

fn body(fields: &str) -> Json {
    converted_request(fields).unwrap_or_else(|error| panic!("{error}")).body
}

/// With a message of the user, so that only the other fields matter.
fn with(fields: &str) -> Result<MessagesRequest, Error> {
    converted_request(&format!(r#""messages":[{{"role":"user","content":"hi"}}],{fields}"#))
}

fn messages(list: &str) -> String {
    body(&format!(r#""messages":[{list}]"#)).at_path("messages").to_string()
}

#[test]
fn system_messages_at_any_position_are_joined() {
    let list = r#"{"role":"system","content":"Be brief."},{"role":"user","content":"hi"},{"role":"developer","content":[{"type":"text","text":"Be kind."}]}"#;
    let request = body(&format!(r#""messages":[{list}]"#));
    assert_eq!(request.text("system").unwrap(), "Be brief.\n\nBe kind.");
    assert_eq!(
        request.at_path("messages").to_string(),
        r#"[{"role":"user","content":[{"type":"text","text":"hi"}]}]"#
    );
    assert_eq!(request.at_path("max_tokens").as_i64(), Some(8192));
    let cached = r#"{"role":"system","content":[{"type":"text","text":"Long.","cache_control":{"type":"ephemeral"}}]},{"role":"user","content":"hi"}"#;
    let request = body(&format!(r#""messages":[{cached}]"#));
    assert_eq!(request.at_path("system.0.cache_control.type"), Json::from("ephemeral"));
    let only = converted_request(r#""messages":[{"role":"system","content":"x"}]"#).unwrap_err().to_string();
    assert!(only.contains("missing user message"), "{only}");
}

#[test]
fn roles_alternate_and_results_follow_their_calls() {
    let call = |id: &str, arguments: &str| {
        format!(r#"{{"id":"{id}","type":"function","function":{{"name":"t","arguments":"{arguments}"}}}}"#)
    };
    let list = format!(
        r#"{{"role":"user","content":"a"}},{{"role":"user","content":"b"}},
        {{"role":"assistant","content":null,"tool_calls":[{},{}]}},
        {{"role":"tool","tool_call_id":"c.1","content":"one"}},
        {{"role":"tool","tool_call_id":"c2","content":[{{"type":"text","text":"two"}}],"is_error":true}},
        {{"role":"assistant","content":""}},{{"role":"user","content":"go on"}}"#,
        call("c.1", r#"{\"n\":1}"#),
        call("c2", r#"{\"cut"#)
    );
    assert_eq!(
        messages(&list),
        concat!(
            r#"[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},"#,
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"c_1","name":"t","input":{"n":1}},"#,
            r#"{"type":"tool_use","id":"c2","name":"t","input":{"unreadable_arguments":"{\"cut"}}]},"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c_1","content":"one"},"#,
            r#"{"type":"tool_result","tool_use_id":"c2","content":[{"type":"text","text":"two"}],"is_error":true},"#,
            r#"{"type":"text","text":"go on"}]}]"#
        )
    );
}

#[test]
fn images_and_documents_are_translated_both_ways() {
    let parts = concat!(
        r#"{"type":"image_url","image_url":{"url":"data:image/jpg;base64,AAAA","detail":"low"}},"#,
        r#"{"type":"image_url","image_url":{"url":"https://x.example/a.png"},"cache_control":{"type":"ephemeral"}},"#,
        r#"{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,BBBB"}},"#,
        r#"{"type":"file","file":{"file_data":"data:text/plain;base64,aGk="}},"#,
        r#"{"type":"search_result","source":"s"}"#
    );
    let there = messages(&format!(r#"{{"role":"user","content":[{parts}]}}"#));
    assert_eq!(
        there,
        concat!(
            r#"[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"AAAA"}},"#,
            r#"{"type":"image","source":{"type":"url","url":"https://x.example/a.png"},"cache_control":{"type":"ephemeral"}},"#,
            r#"{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"BBBB"},"title":"a.pdf"},"#,
            r#"{"type":"document","source":{"type":"text","media_type":"text/plain","data":"hi"}},"#,
            r#"{"type":"search_result","source":"s"}]}]"#
        )
    );
    let back = read(&json(&format!(r#"{{"model":"m","max_tokens":1,"messages":{there}}}"#)), None).unwrap();
    let parts = back.at_path("messages.0.content");
    assert_eq!(parts.at_path("0.image_url.url"), Json::from("data:image/jpeg;base64,AAAA"));
    assert_eq!(parts.at_path("1.cache_control.type"), Json::from("ephemeral"));
    assert_eq!(parts.at_path("2.file.file_data"), Json::from("data:application/pdf;base64,BBBB"));
    assert_eq!(parts.at_path("3.source.data"), Json::from("hi"));
    assert_eq!(write(&back, false).unwrap().body.at_path("messages").to_string(), there);
}

#[test]
fn a_result_has_images_and_names_what_anthropic_does_not_accept() {
    let part = |kind: &str, fields: &str| format!(r#"{{"type":"{kind}","{kind}":{{{fields}}}}}"#);
    let parts = [
        part("image_url", r#""url":"data:image/png;base64,AAAA""#),
        part("input_audio", r#""data":"BBBB","format":"wav""#),
        part("file", r#""filename":"a.zip","file_data":"data:application/zip;base64,BBBB""#),
        part("file", r#""file_url":"https://x.example/a.pdf""#),
    ];
    let result =
        messages(&format!(r#"{{"role":"tool","tool_call_id":"c","content":[{}]}}"#, parts.join(",")));
    let result = json(&result);
    let blocks = result.at_path("0.content.0.content");
    let kinds: Vec<_> = blocks.items().iter().map(|block| block.text("type").unwrap()).collect();
    assert_eq!(kinds, ["image", "text", "text", "document"], "{blocks}");
    assert!(!blocks.to_string().contains("BBBB") && blocks.to_string().contains("`a.zip`"), "{blocks}");
    let user = converted_request(&format!(r#""messages":[{{"role":"user","content":[{}]}}]"#, parts[1]));
    assert!(user.unwrap_err().to_string().contains("audio"), "a user's audio is rejected");
}

#[test]
fn settings_are_translated() {
    let settings = r#""max_completion_tokens":5,"stop":"x","temperature":0.50,"top_p":0.9,"top_k":3,"user":"ann",
        "stream_options":{},"seed":1,"reasoning_effort":"minimal","parallel_tool_calls":false,"tool_choice":"required",
        "response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}},
        "thinking":{"type":"adaptive"},"anthropic":{"beta":["b1"],"container":"c"},"betas":["b0"],
        "tools":[{"type":"function","function":{"name":"t","description":"d","strict":true}},{"type":"web_search_20250305","name":"web_search"}]"#;
    let MessagesRequest { body, beta, .. } = with(settings).unwrap();
    body.remove("messages");
    assert_eq!(
        body.to_string(),
        concat!(
            r#"{"model":"claude","max_tokens":5,"tools":[{"name":"t","input_schema":{"type":"object","properties":{}},"#,
            r#""description":"d","strict":true},{"type":"web_search_20250305","name":"web_search"}],"#,
            r#""tool_choice":{"type":"any","disable_parallel_tool_use":true},"temperature":0.50,"stop_sequences":["x"],"#,
            r#""metadata":{"user_id":"ann"},"container":"c","top_p":0.9,"top_k":3,"thinking":{"type":"adaptive"},"#,
            r#""output_config":{"effort":"low","format":{"type":"json_schema","schema":{"type":"object"}}},"stream":false}"#
        )
    );
    assert_eq!(beta.as_deref(), Some("b0,b1"));
    let roomy = with(r#""thinking":{"type":"enabled","budget_tokens":1000}"#).unwrap().body;
    assert_eq!(roomy.at_path("max_tokens").as_i64(), Some(9192));
    for (choice, expected) in [
        (r#""auto""#, r#"{"type":"auto"}"#),
        (r#""none""#, r#"{"type":"none"}"#),
        (r#"{"type":"function","function":{"name":"t"}}"#, r#"{"type":"tool","name":"t"}"#),
    ] {
        let fields =
            format!(r#""tools":[{{"type":"function","function":{{"name":"t"}}}}],"tool_choice":{choice}"#);
        assert_eq!(with(&fields).unwrap().body.at_path("tool_choice").to_string(), expected);
    }
}

#[test]
fn json_without_a_schema_becomes_an_instruction() {
    let body = with(r#""response_format":{"type":"json_object"}"#).unwrap().body;
    assert!(body.field("system").to_string().contains("Answer with JSON only"), "{body}");
    assert!(body.get("output_config").is_none());
    let body = with(r#""response_format":{"type":"json_object","schema":{"type":"object"}}"#).unwrap().body;
    assert_eq!(body.at_path("output_config.format.type"), Json::from("json_schema"));
    assert!(!body.field("system").to_string().contains("Answer with JSON only"), "{body}");
}

#[test]
fn an_inexpressible_request_is_an_error_that_names_the_field() {
    for (fields, param, word) in [
        (r#""n":2"#, "n", "one choice"),
        (r#""logprobs":true"#, "logprobs", "probabilities"),
        (r#""logit_bias":{"1":2}"#, "logit_bias", "token weights"),
        (r#""presence_penalty":0.5"#, "presence_penalty", "leave it out"),
        (r#""temperature":1.5"#, "temperature", "from 0 to 1"),
        (r#""functions":[{"name":"f"}]"#, "functions", "tools"),
        (r#""modalities":["audio"]"#, "modalities", "text"),
        (r#""response_format":{"type":"grammar"}"#, "response_format", "json_schema"),
        (r#""tools":[{"type":"custom","custom":{"name":"c"}}]"#, "tools", "tools[0]"),
        (
            r#""tools":[{"type":"function","function":{"name":"c"}}],"tool_choice":"often""#,
            "tool_choice",
            "often",
        ),
    ] {
        match with(fields) {
            Err(Error::Request { message, param: Some(named), .. }) => {
                assert!(named == param && message.contains(word), "{named}: {message}");
            }
            other => panic!("{fields}: {other:?}"),
        }
    }
    for (message, place) in [
        (r#"{"role":"function","content":"x"}"#, "messages[0].role"),
        (r#"{"role":"user","content":[{"type":"input_audio"}]}"#, "cannot send messages[0].content[0] to"),
        (r#"{"role":"user","content":[{"type":"image_url"}]}"#, "messages[0].content[0].image_url.url"),
        (r#"{"role":"user","content":[{"type":"file","file":{"file_data":"data:a/b,c"}}]}"#, "got a/b"),
    ] {
        let error = converted_request(&format!(r#""messages":[{message}]"#)).unwrap_err().to_string();
        assert!(error.contains(place), "{error}");
    }
    // A tier is about price and speed alone.
    for (tier, sent) in [("flex", ""), ("priority", ""), ("default", "standard_only"), ("auto", "auto")] {
        let request = with(&format!(r#""service_tier":"{tier}""#)).unwrap();
        assert_eq!(request.body.text_or_empty("service_tier"), sent, "{tier}");
        assert_eq!(request.left_out.contains(&"service_tier"), sent.is_empty(), "{tier}");
    }
    // A default is not a wish.
    assert!(with(r#""n":1,"logprobs":false,"logit_bias":{},"presence_penalty":0,"functions":null"#).is_ok());
}

/// Everything a client of Anthropic's says in one request.
const FULL: &str = r#"{"model":"m","max_tokens":9,"system":[{"type":"text","text":"S","cache_control":{"type":"ephemeral"}}],
    "temperature":0.2,"top_p":0.5,"top_k":4,"stop_sequences":["a","b"],"metadata":{"user_id":"u"},
    "thinking":{"type":"enabled","budget_tokens":1024},"output_config":{"effort":"max","format":{"type":"json_schema","schema":{"type":"object"}}},
    "tools":[{"name":"t","description":"d","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}},{"type":"web_search_20250305","name":"web_search"}],
    "tool_choice":{"type":"tool","name":"t","disable_parallel_tool_use":true},
    "messages":[{"role":"user","content":[{"type":"text","text":"q","cache_control":{"type":"ephemeral"}}]},
    {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s1"},{"type":"redacted_thinking","data":"x"},{"type":"text","text":"I call."},{"type":"tool_use","id":"c1","name":"t","input":{"n":1}}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"r"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA"}}],"is_error":true},{"type":"text","text":"and?"}]},
    {"role":"assistant","content":[{"type":"server_tool_use","id":"v","name":"web_search","input":{"query":"k"}},{"type":"web_search_tool_result","tool_use_id":"v","content":[]},{"type":"text","text":"It is ","citations":[{"type":"web_search_result_location","url":"u"}]},{"type":"text","text":"so."}]},
    {"role":"user","content":[{"type":"text","text":"ok"}]}]}"#;

#[test]
fn an_anthropic_request_survives_a_round_trip() {
    let original = json(FULL);
    let chat = read(&original, Some("b1, b2")).unwrap();
    let MessagesRequest { body, beta, .. } = write(&chat, false).unwrap();
    assert_eq!(beta.as_deref(), Some("b1,b2"));
    body.remove("stream");
    assert_eq!(body, original);
}

#[test]
fn other_services_receive_only_standard_fields() {
    let chat = read(&json(FULL), Some("b1")).unwrap();
    let before = chat.to_string();
    let sent = plain(&chat);
    for mark in [
        "cache_control",
        "content_blocks",
        "is_error",
        "anthropic",
        "reasoning_content",
        "budget_tokens",
        "signature",
    ] {
        assert!(before.contains(mark) && !sent.to_string().contains(mark), "{mark}");
    }
    assert_eq!(chat.to_string(), before, "the request itself stays as it is");
    assert_eq!(sent.at_path("messages.0.content"), Json::from("S"));
    assert_eq!(sent.at_path("messages.2.tool_calls.0.function.name"), Json::from("t"));
    assert_eq!(sent.at_path("messages.3.role"), Json::from("tool"));
    assert_eq!(sent.at_path("messages.3.content.0.text"), Json::from("Error:"));
    assert_eq!(sent.at_path("messages.3.content.1.text"), Json::from("r"));
    assert_eq!(sent.at_path("messages.3.content.2.image_url.url"), Json::from("data:image/png;base64,AA"));
    assert_eq!(sent.at_path("tools.0.function.name"), Json::from("t"));
    // Options of OpenAI's clients are for the service to judge.
    let untouched = json(
        r#"{"model":"m","tools":[{"type":"function","function":{},"x":1}],"messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{}}]}]}"#,
    );
    assert!(plain(&untouched).ptr_eq(&untouched));
    let echoed = json(r#"{"model":"m","messages":[{"role":"assistant","content":"a","content_blocks":[]}]}"#);
    assert_eq!(
        plain(&echoed).to_string(),
        r#"{"model":"m","messages":[{"role":"assistant","content":"a"}]}"#
    );
}

#[test]
fn search_results_and_addresses_of_documents_reach_other_services() {
    let original = json(
        r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"search_result","source":"https://x","title":"T","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"citations":{"enabled":true}},{"type":"document","source":{"type":"url","url":"https://x/a.pdf"},"title":"A"}]}]}"#,
    );
    let chat = read(&original, None).unwrap();
    let sent = plain(&chat);
    assert_eq!(sent.at_path("messages.0.content.0.text").as_str(), Some("T\n\nhttps://x\n\na\n\nb"));
    assert_eq!(sent.at_path("messages.0.content.1.file.file_url").as_str(), Some("https://x/a.pdf"));
    let back = write(&chat, false).unwrap().body;
    assert_eq!(back.field("messages"), original.field("messages"));
}

#[test]
fn thinking_blocks_are_sent_back_unchanged_or_dropped() {
    let content_after = |edit: &dyn Fn(&Json)| {
        let answer = json(
            r#"{"content":[{"type":"thinking","thinking":"I think","signature":"s"},{"type":"text","text":"A","citations":[{"url":"u"}]}]}"#,
        );
        let message = answer::completion(&answer).at_path("choices.0.message");
        edit(&message);
        let request = Json::from([("model", "m".into()), ("messages", vec![message].into())]);
        write(&request, false).unwrap().body.at_path("messages.0.content").to_string()
    };
    let text = r#"{"type":"text","text":"A","citations":[{"url":"u"}]}"#;
    assert_eq!(
        content_after(&|_| {}),
        format!(r#"[{{"type":"thinking","thinking":"I think","signature":"s"}},{text}]"#)
    );
    assert_eq!(
        content_after(&|message| message.set("reasoning_content", "I *****").unwrap()),
        format!("[{text}]")
    );
    assert_eq!(
        content_after(&|message| message.set("content", "B").unwrap()),
        r#"[{"type":"thinking","thinking":"I think","signature":"s"},{"type":"text","text":"B"}]"#
    );
    assert_eq!(
        content_after(&|message| drop(message.remove("content_blocks"))),
        r#"[{"type":"text","text":"A"}]"#
    );
}

#[test]
fn a_call_without_its_thinking_block_disables_thinking() {
    let request = |thoughts: &str, last: &str| {
        let call = r#"{"id":"c","type":"function","function":{"name":"t","arguments":"{}"}}"#;
        let list = format!(
            r#"{{"role":"user","content":"q"}},{{"role":"assistant","tool_calls":[{call}]{thoughts}}},{{"role":"tool","tool_call_id":"c","content":"r"}}{last}"#
        );
        let thinking = r#""thinking":{"type":"enabled","budget_tokens":1024}"#;
        body(&format!(r#"{thinking},"messages":[{list}]"#)).at_path("thinking.type")
    };
    let kept = r#","content_blocks":[{"type":"redacted_thinking","data":"x"}]"#;
    assert_eq!(request(kept, ""), Json::from("enabled"));
    assert_eq!(request("", ""), Json::from("disabled"));
    let over = r#",{"role":"assistant","content":"a"},{"role":"user","content":"next"}"#;
    assert_eq!(request("", over), Json::from("enabled"));
}

#[test]
fn an_invalid_anthropic_request_is_an_error_that_names_the_field() {
    for (fields, expected) in [
        (r#""messages":[{"role":"user","content":"x"}]"#, "invalid max_tokens: "),
        (r#""max_tokens":1"#, "invalid messages: "),
        (r#""max_tokens":1,"messages":[{"role":"tool","content":"x"}]"#, "invalid messages[0].role: "),
        (r#""max_tokens":1,"messages":[{"role":"user"}]"#, "invalid messages[0].content: "),
    ] {
        let error = read(&json(&format!(r#"{{"model":"m",{fields}}}"#)), None).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}
