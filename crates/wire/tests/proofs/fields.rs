//! The table of left-out fields is exact: each field of a chat is kept by a protocol, or lost as a row says; and chats of
//! any fields lose nothing else on their way through two protocols.

use crate::protocol::{ALL, read_request, settled, write_request};
use crate::{cases, json};
use proptest::prelude::*;
use valvehouse_json::Json;
use valvehouse_wire::left_out::{LOST_FIELDS, Loss, loss};
use valvehouse_wire::service::Protocol;

/// Fields of a chat as they stand after its messages. `$T` is any text, `$F` a number from 0 to 1, `$N` a whole number.
const SETTINGS: &[(&str, &str)] = &[
    ("max_completion_tokens", r#""max_completion_tokens":$N"#),
    ("max_tokens", r#""max_tokens":$N"#),
    ("temperature", r#""temperature":$F"#),
    ("top_p", r#""top_p":$F"#),
    ("top_k", r#""top_k":$N"#),
    ("min_p", r#""min_p":$F"#),
    ("repeat_penalty", r#""repeat_penalty":$F"#),
    ("num_ctx", r#""num_ctx":$N"#),
    ("seed", r#""seed":$N"#),
    ("stop", r#""stop":[$T,"\n\n"]"#),
    ("presence_penalty", r#""presence_penalty":0.5"#),
    ("frequency_penalty", r#""frequency_penalty":0.5"#),
    ("logit_bias", r#""logit_bias":{"50256":-100}"#),
    ("n", r#""n":2"#),
    ("logprobs", r#""logprobs":true"#),
    ("top_logprobs", r#""logprobs":true,"top_logprobs":3"#),
    ("user", r#""user":$T"#),
    ("safety_identifier", r#""safety_identifier":$T"#),
    ("prompt_cache_key", r#""prompt_cache_key":$T"#),
    ("prompt_cache_retention", r#""prompt_cache_retention":"24h""#),
    ("service_tier", r#""service_tier":"auto""#),
    ("store", r#""store":true"#),
    ("metadata", r#""metadata":{"team":$T}"#),
    ("verbosity", r#""verbosity":"low""#),
    ("reasoning_effort: \"low\"", r#""reasoning_effort":"low""#),
    ("reasoning_effort: \"medium\"", r#""reasoning_effort":"medium""#),
    ("reasoning_effort: \"none\"", r#""reasoning_effort":"none""#),
    ("modalities", r#""modalities":["text","audio"]"#),
    ("prediction", r#""prediction":{"type":"content","content":$T}"#),
    ("web_search_options", r#""web_search_options":{}"#),
    ("response_format: json_object", r#""response_format":{"type":"json_object"}"#),
    ("response_format.json_schema", r#""response_format":FORMAT{"name":"answer","schema":SCHEMA}}"#),
    (
        "response_format.json_schema.name",
        r#""response_format":FORMAT{"name":"mine","schema":SCHEMA,"strict":true}}"#,
    ),
    (
        "response_format.json_schema.description",
        r#""response_format":FORMAT{"name":"answer","schema":SCHEMA,"strict":true,"description":$T}}"#,
    ),
    (
        "response_format.json_schema.strict: true",
        r#""response_format":FORMAT{"name":"answer","schema":SCHEMA,"strict":true}}"#,
    ),
    ("tools", r#""tools":[TOOL]"#),
    (
        "tools[].function.strict",
        r#""tools":[{"type":"function","function":{"name":"f","description":$T,"parameters":SCHEMA,"strict":true}}]"#,
    ),
    ("tools[].custom", r#""tools":[{"type":"custom","custom":{"name":"c","description":$T}}]"#),
    ("tool_choice: \"auto\"", r#""tools":[TOOL],"tool_choice":"auto""#),
    ("tool_choice: \"none\"", r#""tools":[TOOL],"tool_choice":"none""#),
    ("tool_choice: \"required\"", r#""tools":[TOOL],"tool_choice":"required""#),
    (
        "tool_choice: a function",
        r#""tools":[TOOL],"tool_choice":{"type":"function","function":{"name":"f"}}"#,
    ),
    ("parallel_tool_calls", r#""tools":[TOOL],"parallel_tool_calls":false"#),
];

/// Messages after the first, which is the user's; those with `^` stand before it.
const TALKS: &[(&str, &str)] = &[
    ("message: system", r#"^{"role":"system","content":$T}"#),
    ("message: developer", r#"^{"role":"developer","content":$T}"#),
    (
        "message: system, in the middle",
        r#"{"role":"assistant","content":$T},{"role":"system","content":$T},{"role":"user","content":$T}"#,
    ),
    ("message: assistant", r#"{"role":"assistant","content":$T},{"role":"user","content":$T}"#),
    ("messages[].name", r#"{"role":"assistant","content":$T},{"role":"user","name":"ann","content":$T}"#),
    ("messages[].content: texts", r#"ASKED[{"type":"text","text":$T},{"type":"text","text":$T}]}"#),
    ("messages[].content[].image_url, in the request", r#"ASKED[{"type":"text","text":$T},IMAGE]}"#),
    (
        "messages[].content[].image_url, an address",
        r#"ASKED[{"type":"image_url","image_url":{"url":"https://x.example/a.png"}},{"type":"text","text":$T}]}"#,
    ),
    (
        "messages[].content[].image_url.detail",
        r#"ASKED[{"type":"text","text":$T},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo=","detail":"low"}}]}"#,
    ),
    (
        "messages[].content[].file, a PDF",
        r#"ASKED[{"type":"text","text":$T},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,aGk="}}]}"#,
    ),
    (
        "messages[].content[].file, a text",
        r#"ASKED[{"type":"text","text":$T},{"type":"file","file":{"filename":"a.txt","file_data":"data:text/plain;base64,aGk="}}]}"#,
    ),
    (
        "messages[].content[].file.file_id",
        r#"ASKED[{"type":"text","text":$T},{"type":"file","file":{"file_id":"file_1"}}]}"#,
    ),
    (
        "messages[].content[].input_audio",
        r#"ASKED[{"type":"input_audio","input_audio":{"data":"aGk=","format":"wav"}}]}"#,
    ),
    ("messages[].refusal", r#"{"role":"assistant","content":"","refusal":$T},{"role":"user","content":$T}"#),
    (
        "messages[].reasoning_content",
        r#"{"role":"assistant","content":$T,"reasoning_content":$T},{"role":"user","content":$T}"#,
    ),
    ("messages[].tool_calls", r#"{"role":"assistant","content":null,"tool_calls":[CALL]},RESULT"#),
    (
        "messages[].tool_calls, several",
        r#"{"role":"assistant","content":$T,"tool_calls":[CALL,{"id":"d$I","type":"function","function":{"name":"g","arguments":"{}"}}]},RESULT,{"role":"tool","tool_call_id":"d$I","content":$T},{"role":"user","content":$T}"#,
    ),
    (
        "messages[].tool_calls, no object as arguments",
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c$I","type":"function","function":{"name":"f","arguments":"{\"cut"}}]},RESULT"#,
    ),
    (
        "messages[].tool_calls[].custom",
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c$I","type":"custom","custom":{"name":"c","input":$T}}]},RESULT"#,
    ),
    (
        "message: tool, with texts",
        r#"{"role":"assistant","content":null,"tool_calls":[CALL]},{"role":"tool","tool_call_id":"c$I","content":[{"type":"text","text":$T},{"type":"text","text":$T}]}"#,
    ),
    (
        "message: tool, with an image",
        r#"{"role":"assistant","content":null,"tool_calls":[CALL]},{"role":"tool","tool_call_id":"c$I","content":[{"type":"text","text":$T},IMAGE]}"#,
    ),
];

const PARTS: &[(&str, &str)] = &[
    ("USER", r#"{"role":"user","content":"#),
    ("MODEL", r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"#),
    ("ASKED", r#"{"role":"assistant","content":$T},{"role":"user","content":"#),
    (
        "TOOL",
        r#"{"type":"function","function":{"name":"f","description":$T,"parameters":SCHEMA,"strict":false}}"#,
    ),
    ("CALL", r#"{"id":"c$I","type":"function","function":{"name":"f","arguments":"{\"x\":$N}"}}"#),
    ("RESULT", r#"{"role":"tool","tool_call_id":"c$I","content":$T}"#),
    ("IMAGE", r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}"#),
    ("FORMAT", r#"{"type":"json_schema","json_schema":"#),
    (
        "SCHEMA",
        r#"{"type":"object","properties":{"x":{"type":"number"}},"required":["x"],"additionalProperties":false}"#,
    ),
];

/// The values in the places of a sample.
#[derive(Debug, Clone)]
pub(crate) struct Fill {
    texts: Vec<String>,
    fraction: u8,
    number: u16,
}

pub(crate) fn fill() -> impl Strategy<Value = Fill> {
    let text = prop_oneof!["[a-z]{1,8}", "[a-zé \"\\\\\n]{0,6}[a-z]"];
    let texts = prop::collection::vec(text, 7);
    (texts, 0..100_u8, 1100..4096_u16).prop_map(|(texts, fraction, number)| Fill { texts, fraction, number })
}

impl Fill {
    /// Fills a sample; `at` makes its ids unique.
    pub(crate) fn sample(&self, sample: &str, at: usize) -> String {
        let mut text = sample.to_owned();
        for (name, part) in PARTS {
            text = text.replace(name, part);
        }
        text = text.replace("$I", &at.to_string()).replace("$N", &self.number.to_string());
        text = text.replace("$F", &(f64::from(self.fraction) / 100.0).to_string());
        let mut texts = self.texts.iter().cycle();
        while text.contains("$T") {
            text = text.replacen("$T", &Json::from(texts.next().unwrap()).to_string(), 1);
        }
        text
    }

    /// Returns a chat of these settings and messages.
    pub(crate) fn chat(&self, settings: &[&str], talks: &[&str]) -> Json {
        let settings: String = settings.iter().map(|sample| format!(",{}", self.sample(sample, 0))).collect();
        let user = r#"{"role":"user","content":"q"}"#.to_owned();
        let (first, after): (Vec<&str>, Vec<&str>) = talks.iter().partition(|talk| talk.starts_with('^'));
        let first = first.iter().map(|talk| self.sample(&talk[1..], 0));
        let after = after.iter().enumerate().map(|(at, talk)| self.sample(talk, at + 1));
        let messages: Vec<String> = first.chain([user]).chain(after).collect();
        json(&format!(r#"{{"model":"m","messages":[{}]{settings}}}"#, messages.join(",")))
    }
}

/// A request that goes to a service of a protocol and is read there.
fn through(protocol: Protocol, chat: &Json) -> Result<Json, String> {
    let body = write_request(protocol, chat).map_err(|error| format!("refused: {error}"))?;
    Ok(read_request(protocol, &body).unwrap_or_else(|error| panic!("{protocol:?}: {error}: {body}")))
}

/// Returns the limit of tokens that a protocol adds to a chat without one.
fn without_limit(chat: &Json, had_limit: bool) -> Json {
    let chat = settled(chat);
    if !had_limit {
        chat.remove("max_completion_tokens");
    }
    chat
}

#[test]
fn each_field_is_kept_or_lost_as_its_row_says() {
    let fill = Fill { texts: vec!["a \"b\"".into(), "c".into(), "d".into()], fraction: 25, number: 2000 };
    let mut wrong = Vec::new();
    let settings = SETTINGS.iter().map(|(field, sample)| (field, fill.chat(&[sample], &[])));
    let talks = TALKS.iter().map(|(field, sample)| (field, fill.chat(&[], &[sample])));
    let mut known = Vec::new();
    for (field, chat) in settings.chain(talks) {
        known.push(*field);
        let had_limit = field.starts_with("max_");
        let name = field.split([':', '.', '[']).next().unwrap();
        for protocol in ALL {
            let found = match through(protocol, &chat) {
                Err(_) => Some(Loss::Refused),
                Ok(back) if without_limit(&back, had_limit) == settled(&chat) => None,
                Ok(back) => {
                    let marks = ["anthropic", "responses"];
                    let is_own = marks.iter().any(|mark| back.field(mark).get(name) == chat.get(name));
                    let bare = without_limit(&back, had_limit);
                    let less = settled(&chat);
                    less.remove(name);
                    let expected = loss(field, protocol);
                    match expected {
                        Some(Loss::Becomes(_)) => expected,
                        Some(Loss::Own) if is_own || field.contains("none") => expected,
                        Some(Loss::LeftOut)
                            if bare == less
                                || field.contains('.')
                                || name == "parallel_tool_calls"
                                || name == "tool_choice" =>
                        {
                            expected
                        }
                        _ => Some(Loss::Becomes("unknown")),
                    }
                }
            };
            if found != loss(field, protocol) {
                let back = through(protocol, &chat);
                wrong.push(format!(
                    "{field} in {protocol:?}: {found:?}, {:?} expected\n  {chat}\n  {back:?}",
                    loss(field, protocol)
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for row in LOST_FIELDS {
        assert!(known.contains(&row.field), "no sample of {}", row.field);
    }
}

/// Returns the samples that two protocols keep, of those with these numbers, one of each name.
fn kept(
    samples: &[(&'static str, &'static str)],
    chosen: &[usize],
    ways: [Protocol; 2],
) -> Vec<&'static str> {
    let mut names = Vec::new();
    let chosen = chosen.iter().map(|at| samples[at % samples.len()]);
    let kept = chosen.filter(|(field, sample)| {
        let keys: Vec<&str> = sample
            .split('"')
            .filter(|key| key.starts_with(|c: char| c.is_ascii_lowercase()))
            .take(1)
            .collect();
        let is_new = sample.starts_with(['{', '^', 'A']) || !names.contains(&keys[0]);
        names.extend(keys);
        is_new && ways.iter().all(|way| loss(field, *way).is_none())
    });
    kept.map(|(_, sample)| sample).collect()
}

/// Returns a chat of the chosen fields that a protocol has.
pub(crate) fn kept_by(fill: &Fill, settings: &[usize], talks: &[usize], protocol: Protocol) -> Json {
    let ways = [protocol, protocol];
    let mut settings = kept(SETTINGS, settings, ways);
    // Fields of services that are not OpenAI's own.
    settings.retain(|sample| {
        !["top_k", "min_p", "repeat_penalty", "num_ctx"].iter().any(|own| sample.contains(own))
    });
    let mut talks = kept(TALKS, talks, ways);
    // OpenAI's types have neither thinking nor audio in messages, and a row of the services moves the images of results.
    let is_odd = |talk: &str| {
        talk.contains("reasoning_content")
            || talk.contains("input_audio")
            || talk.contains("IMAGE") && talk.contains("tool")
    };
    talks.retain(|talk| !talk.starts_with('^') && !is_odd(talk));
    fill.chat(&settings, &talks)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn a_chat_loses_nothing_else_through_two_protocols(
        fill in fill(),
        settings in prop::collection::vec(any::<usize>(), 0..8),
        talks in prop::collection::vec(any::<usize>(), 0..5),
        ways in (prop::sample::select(ALL.to_vec()), prop::sample::select(ALL.to_vec())),
    ) {
        let ways = [ways.0, ways.1];
        let settings = kept(SETTINGS, &settings, ways);
        let mut talks = kept(TALKS, &talks, ways);
        // Instructions are one message for some services.
        let mut has_first = false;
        talks.retain(|talk| !talk.starts_with('^') || !std::mem::replace(&mut has_first, true));
        let mut settings = settings;
        if ways.contains(&Protocol::Messages) && talks.iter().any(|talk| talk.contains("tool_calls")) {
            // Anthropic answers without thinking then, because the signed thinking of these calls is missing.
            settings.retain(|sample| !sample.contains("reasoning_effort"));
        }
        let chat = fill.chat(&settings, &talks);
        let had_limit = chat.contains_key("max_completion_tokens") || chat.contains_key("max_tokens");
        let mut now = chat.clone();
        for way in [ways[0], ways[1], ways[0]] {
            now = match through(way, &now) {
                Ok(back) => back,
                Err(error) => return Err(TestCaseError::fail(format!("{way:?}: {error}: {now}"))),
            };
            prop_assert_eq!(without_limit(&now, had_limit), settled(&chat), "{:?} {}", way, now);
        }
    }
}
