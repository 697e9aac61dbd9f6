//! A client's request reaches a service of the same protocol as the client wrote it.

use crate::cases;
use crate::fields::{Fill, fill};
use crate::protocol::{read_request, write_request};
use proptest::prelude::*;
use valvehouse_json::Json;
use valvehouse_wire::service::Protocol;

/// The parts of a request of a protocol: its beginning, settings, and turns of its conversation.
struct Native {
    protocol: Protocol,
    /// The request; `$M` are its messages and `$S` its settings.
    request: &'static str,
    first: &'static str,
    settings: &'static [&'static str],
    turns: &'static [&'static str],
}

const MESSAGES: Native = Native {
    protocol: Protocol::Messages,
    request: r#"{"model":"claude-next","max_tokens":$N,"messages":[$M],"stream":false$S}"#,
    first: r#"{"role":"user","content":[{"type":"text","text":$T}]}"#,
    settings: &[
        r#""system":$T"#,
        r#""system":[{"type":"text","text":$T,"cache_control":{"type":"ephemeral"}},{"type":"text","text":$T}]"#,
        r#""temperature":$F"#,
        r#""top_p":$F"#,
        r#""top_k":$N"#,
        r#""stop_sequences":[$T,"\n\nHuman:"]"#,
        r#""metadata":{"user_id":$T}"#,
        r#""service_tier":"standard_only""#,
        r#""service_tier":"auto""#,
        r#""container":"container_1""#,
        r#""inference_geo":"us""#,
        r#""context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]}"#,
        r#""mcp_servers":[{"type":"url","url":"https://x.example","name":"x"}]"#,
        r#""thinking":{"type":"disabled"}"#,
        r#""output_config":{"effort":"low"}"#,
        r#""output_config":{"effort":"max"}"#,
        r#""output_config":{"effort":"high","format":{"type":"json_schema","schema":SCHEMA}}"#,
        r#""tools":[{"name":"f","description":$T,"input_schema":SCHEMA,"cache_control":{"type":"ephemeral"}},{"name":"g","input_schema":SCHEMA,"strict":true}]"#,
        r#""tools":[{"type":"web_search_20250305","name":"web_search","max_uses":3},{"type":"bash_20250124","name":"bash"}],"tool_choice":{"type":"auto","disable_parallel_tool_use":true}"#,
        r#""tools":[{"name":"f","input_schema":SCHEMA}],"tool_choice":{"type":"any"}"#,
        r#""tools":[{"name":"f","input_schema":SCHEMA}],"tool_choice":{"type":"tool","name":"f"}"#,
        r#""tools":[{"name":"f","input_schema":SCHEMA}],"tool_choice":{"type":"none"}"#,
    ],
    turns: &[
        r#"{"role":"assistant","content":[{"type":"text","text":$T}]},USER[{"type":"text","text":$T,"cache_control":{"type":"ephemeral","ttl":"1h"}}]}"#,
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":$T,"signature":"s1"},{"type":"redacted_thinking","data":"x"},{"type":"text","text":$T},{"type":"tool_use","id":"t$I","name":"f","input":{"x":$N}}]},USER[{"type":"tool_result","tool_use_id":"t$I","content":$T}]}"#,
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"t$I","name":"f","input":{}},{"type":"tool_use","id":"u$I","name":"g","input":{"a":[1,{"b":null}]}}]},USER[{"type":"tool_result","tool_use_id":"t$I","content":[{"type":"text","text":$T},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}],"is_error":true},{"type":"tool_result","tool_use_id":"u$I","content":"","cache_control":{"type":"ephemeral"}},{"type":"text","text":$T}]}"#,
        r#"{"role":"assistant","content":[{"type":"server_tool_use","id":"s$I","name":"web_search","input":{"query":$T}},{"type":"web_search_tool_result","tool_use_id":"s$I","content":[{"type":"web_search_result","url":"https://x.example","title":"X","encrypted_content":"e"}]},{"type":"text","text":$T,"citations":[{"type":"web_search_result_location","url":"https://x.example","title":"X","encrypted_index":"i","cited_text":"c"}]}]},USER[{"type":"text","text":$T}]}"#,
        r#"{"role":"assistant","content":[{"type":"text","text":$T}]},USER[{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"aGk="}},{"type":"image","source":{"type":"url","url":"https://x.example/a.png"},"cache_control":{"type":"ephemeral"}},{"type":"image","source":{"type":"file","file_id":"file_1"}},{"type":"text","text":$T}]}"#,
        r#"{"role":"assistant","content":[{"type":"text","text":$T}]},USER[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"aGk="},"title":$T,"context":$T,"citations":{"enabled":true}},{"type":"document","source":{"type":"url","url":"https://x.example/a.pdf"}},{"type":"document","source":{"type":"file","file_id":"file_1"},"title":"t"},{"type":"document","source":{"type":"text","media_type":"text/plain","data":$T}},{"type":"document","source":{"type":"content","content":[{"type":"text","text":$T}]}}]}"#,
        r#"{"role":"assistant","content":[{"type":"text","text":$T}]},USER[{"type":"search_result","source":"s","title":$T,"content":[{"type":"text","text":$T}],"citations":{"enabled":true}},{"type":"text","text":$T}]}"#,
    ],
};

const RESPONSES: Native = Native {
    protocol: Protocol::Responses,
    request: r#"{"model":"gpt-5.1","input":[$M],"store":false,"stream":false$S}"#,
    first: r#"{"type":"message","role":"user","content":$T}"#,
    settings: &[
        r#""temperature":$F"#,
        r#""top_p":$F"#,
        r#""max_output_tokens":$N"#,
        r#""parallel_tool_calls":false"#,
        r#""reasoning":{"effort":"high","summary":"auto"}"#,
        r#""reasoning":{"effort":"none"}"#,
        r#""text":{"format":{"type":"json_schema","name":$T,"schema":SCHEMA,"strict":true},"verbosity":"low"}"#,
        r#""text":{"format":{"type":"json_object"}}"#,
        r#""truncation":"auto""#,
        r#""context_management":[{"type":"compaction","compact_threshold":9}]"#,
        r#""max_tool_calls":3"#,
        r#""service_tier":"flex""#,
        r#""prompt_cache_key":$T"#,
        r#""prompt_cache_retention":"24h""#,
        r#""safety_identifier":$T"#,
        r#""user":$T"#,
        r#""tools":[{"type":"function","name":"f","description":$T,"parameters":SCHEMA,"strict":true}],"tool_choice":"required""#,
        r#""tools":[{"type":"function","name":"f","parameters":SCHEMA,"strict":false},{"type":"custom","name":"c","description":$T,"format":{"type":"grammar","syntax":"lark","definition":"x"}}],"tool_choice":{"type":"custom","name":"c"}"#,
        r#""tools":[{"type":"web_search_preview","search_context_size":"low"},{"type":"file_search","vector_store_ids":["v"]},{"type":"mcp","server_label":"m","server_url":"https://x.example"}],"tool_choice":{"type":"web_search_preview"}"#,
        r#""tools":[{"type":"function","name":"f","parameters":SCHEMA,"strict":false}],"tool_choice":{"type":"function","name":"f"}"#,
    ],
    turns: &[
        r#"MODEL$T,"annotations":[]}]},{"type":"message","role":"user","content":[{"type":"input_text","text":$T},{"type":"input_image","image_url":"data:image/png;base64,aGk=","detail":"low"}]}"#,
        r#"MODEL$T,"annotations":[]}]},{"type":"message","role":"user","content":[{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,aGk="},{"type":"input_file","file_id":"file_1"},{"type":"input_file","file_url":"https://x.example/a.pdf"}]}"#,
        r#"{"type":"reasoning","id":"rs_$I","encrypted_content":"gAAA","summary":[]},{"type":"function_call","call_id":"c$I","name":"f","arguments":"{\"x\": $N}"},{"type":"function_call_output","call_id":"c$I","output":$T}"#,
        r#"MODEL$T,"annotations":[]}]},{"type":"function_call","call_id":"c$I","name":"f","arguments":"{}"},{"type":"custom_tool_call","call_id":"d$I","name":"c","input":$T},{"type":"function_call_output","call_id":"c$I","output":[{"type":"input_text","text":$T},{"type":"input_image","image_url":"https://x.example/a.png","detail":"auto"}]},{"type":"custom_tool_call_output","call_id":"d$I","output":$T}"#,
        r#"{"type":"web_search_call","id":"ws_$I","status":"completed","action":{"type":"search","query":$T}},MODEL$T,"annotations":[]}]},{"type":"message","role":"user","content":$T}"#,
        r#"{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":$T}]},{"type":"message","role":"user","content":$T}"#,
        r#"{"type":"message","role":"system","content":$T},{"type":"message","role":"user","content":$T}"#,
    ],
};

const OLLAMA: Native = Native {
    protocol: Protocol::Ollama,
    request: r#"{"model":"qwen3","messages":[$M],"stream":false$S}"#,
    first: r#"{"role":"user","content":$T}"#,
    settings: &[
        r#""options":{"temperature":$F,"top_p":$F,"seed":$N,"num_predict":$N,"stop":[$T],"num_ctx":8192}"#,
        r#""options":{"top_k":$N,"min_p":$F,"repeat_penalty":1.1,"mirostat":1,"num_gpu":2,"typical_p":$F}"#,
        r#""format":"json""#,
        r#""format":SCHEMA"#,
        r#""think":true"#,
        r#""think":false"#,
        r#""keep_alive":"5m""#,
        r#""keep_alive":-1,"truncate":false,"shift":false"#,
        r#""logprobs":true,"top_logprobs":2"#,
        r#""tools":[{"type":"function","function":{"name":"f","description":$T,"parameters":SCHEMA}}]"#,
    ],
    turns: &[
        r#"{"role":"assistant","content":$T,"thinking":$T},{"role":"user","content":$T,"images":["iVBORw0KGgo="]}"#,
        r#"{"role":"assistant","content":"","tool_calls":[{"id":"c$I","function":{"name":"f","arguments":{"x":$N,"y":[true]}}}]},{"role":"tool","content":$T,"tool_name":"f","tool_call_id":"c$I"}"#,
        r#"{"role":"system","content":$T},{"role":"user","content":$T}"#,
    ],
};

/// Returns a client's request of each protocol besides OpenAI's.
pub(crate) fn all(fill: &Fill, settings: &[usize], turns: &[usize]) -> [(Protocol, Json); 3] {
    [MESSAGES, RESPONSES, OLLAMA].map(|native| (native.protocol, native.request(fill, settings, turns)))
}

impl Native {
    fn request(&self, fill: &Fill, settings: &[usize], turns: &[usize]) -> Json {
        let mut names: Vec<&str> = Vec::new();
        let mut more = String::new();
        for at in settings {
            let sample = self.settings[at % self.settings.len()];
            let name = sample.split('"').nth(1).unwrap();
            if !names.contains(&name) {
                names.push(name);
                more.push_str(&format!(",{sample}"));
            }
        }
        let turns = turns.iter().enumerate();
        let turns = turns.map(|(at, turn)| fill.sample(self.turns[turn % self.turns.len()], at));
        let first = fill.sample(self.first, 0);
        let messages: Vec<String> = [first].into_iter().chain(turns).collect();
        let request = self.request.replace("$S", &more);
        let request = fill.sample(&request, 0).replace("$M", &messages.join(","));
        crate::json(&request)
    }

    fn prove(&self, fill: &Fill, settings: &[usize], turns: &[usize]) -> Result<(), TestCaseError> {
        let sent = self.request(fill, settings, turns);
        let chat =
            read_request(self.protocol, &sent).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let written =
            write_request(self.protocol, &chat).map_err(|error| TestCaseError::fail(error.to_string()))?;
        if self.protocol == Protocol::Responses {
            // The writer always asks for what the service needs back.
            written.remove("include");
            // An id may be one of this host, and encrypted content belongs to that of its service.
            let items = sent.list("input").into_iter().filter(|item| item.is_text("type", "reasoning"));
            items.for_each(|item| drop(item.remove("id")));
        }
        prop_assert_eq!(&written, &sent, "\n{}\n{}\n{}", sent, written, chat);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn a_request_of_messages_reaches_its_service_unchanged(
        fill in fill(),
        settings in prop::collection::vec(any::<usize>(), 0..6),
        turns in prop::collection::vec(any::<usize>(), 0..4),
    ) {
        MESSAGES.prove(&fill, &settings, &turns)?;
    }

    #[test]
    fn a_request_of_responses_reaches_its_service_unchanged(
        fill in fill(),
        settings in prop::collection::vec(any::<usize>(), 0..6),
        turns in prop::collection::vec(any::<usize>(), 0..4),
    ) {
        RESPONSES.prove(&fill, &settings, &turns)?;
    }

    #[test]
    fn a_request_of_ollama_reaches_its_service_unchanged(
        fill in fill(),
        settings in prop::collection::vec(any::<usize>(), 0..6),
        turns in prop::collection::vec(any::<usize>(), 0..4),
    ) {
        OLLAMA.prove(&fill, &settings, &turns)?;
    }
}
