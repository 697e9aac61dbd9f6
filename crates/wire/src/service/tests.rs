//! Tests that every request satisfies every rule once it is adapted.

use super::formats::{is_accepted, is_strict, names_json};
use super::limit::{Letters, TextLimit};
use super::rule::Rule;
use super::schema::{are_types_moved, is_complete, is_valid};
use super::table::rules_of;
use super::{ServiceKind, adapt, may_apply};
use futures_util::StreamExt;
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::HashSet;
use valvehouse_core::chat::Outline;
use valvehouse_core::provider::{Answer, StreamChunk};
use valvehouse_json::Json;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn kinds() -> impl Iterator<Item = ServiceKind> {
    ServiceKind::ALL.into_iter().map(|(_, kind)| kind)
}

/// Texts at the limits of names and ids.
fn texts() -> Vec<String> {
    let lengths = [1, 8, 9, 10, 39, 40, 41, 63, 64, 65, 127, 128, 129, 300];
    let plain = lengths.map(|length| "aB3".chars().cycle().take(length).collect::<String>());
    let others = ["functions.f:0", "functions:f.0", "f g", "ä-ö", "9lives", "_x", "a/b", "call_1"];
    plain.into_iter().chain(others.map(str::to_owned)).collect()
}

fn content() -> impl Strategy<Value = Option<Json>> {
    let values = [
        r#""""#,
        r#"" ""#,
        r#""\n\t""#,
        r#""hi""#,
        r#""hi \n""#,
        "null",
        "[]",
        r#"[{"type":"text","text":""}]"#,
        r#"[{"type":"text","text":" "}]"#,
        r#"[{"type":"text","text":"a "},{"type":"text","text":" "}]"#,
        r#"[{"type":"text","text":" "},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]"#,
        r#"["a","b "]"#,
        r#"[{"type":"image_url","image_url":{"file_id":"file-1"}}]"#,
        r#"[{"type":"image","source":{"type":"file","file_id":"file_1"}}]"#,
        r#"[{"type":"image_url","image_url":{"url":"data:image/webp;base64,iVBORw0KGgo="}}]"#,
        r#"[{"type":"image_url","image_url":{"url":"data:image/png;base64,JVBERi0="}}]"#,
    ];
    prop_oneof![1 => Just(None), 9 => select(values.to_vec()).prop_map(|text| Some(json(text)))]
}

fn call() -> impl Strategy<Value = Json> {
    let id = prop_oneof![4 => select(texts()), 1 => Just(String::new())];
    let arguments = select(vec!["", " ", "{}", "{\"a\":1}", "{\"a", "[1]"]);
    (id, select(texts()), arguments, any::<bool>()).prop_map(|(id, name, arguments, custom)| {
        let (kind, key) = if custom { ("custom", "input") } else { ("function", "arguments") };
        let called = Json::from([("name", name.into()), (key, arguments.into())]);
        Json::from([("id", id.into()), ("type", kind.into()), (kind, called)])
    })
}

fn object(fields: Vec<(&str, Option<Json>)>) -> Json {
    let object = Json::object();
    for (key, value) in fields {
        if let Some(value) = value {
            object.put(key, value);
        }
    }
    object
}

fn message() -> impl Strategy<Value = Json> {
    let name = prop_oneof![3 => Just(None), 1 => select(texts()).prop_map(|text| Some(Json::from(text)))];
    let calls = prop_oneof![2 => Just(None), 3 => prop::collection::vec(call(), 0..3).prop_map(|calls| Some(Json::from(calls)))];
    let id = prop_oneof![1 => Just(None), 4 => select(texts()).prop_map(|text| Some(Json::from(text)))];
    let role = select(vec!["system", "developer", "user", "assistant", "assistant", "tool"]);
    let thinking = prop_oneof![4 => Just(None), 1 => Just(Some(Json::from("hm")))];
    (role, content(), name, calls, id, thinking).prop_map(|(role, content, name, calls, id, thinking)| {
        let thinking = thinking.filter(|_| role == "assistant");
        let (calls, id) = match role {
            "assistant" => (calls, None),
            "tool" => (None, id),
            _ => (None, None),
        };
        let role = Some(Json::from(role));
        object(vec![
            ("role", role),
            ("content", content),
            ("name", name),
            ("reasoning_content", thinking),
            ("tool_calls", calls),
            ("tool_call_id", id),
        ])
    })
}

/// A conversation in which each call has its result, and ids may be used again.
fn rounds() -> impl Strategy<Value = Json> {
    let round = (prop::collection::vec(call(), 1..4), any::<bool>()).prop_map(|(calls, is_reversed)| {
        let id = |call: &Json| format!("call {}", call.string("id"));
        calls.iter().for_each(|call| call.edit("id", id(call)));
        let mut results: Vec<Json> =
            calls.iter().map(|call| valvehouse_core::chat::message::tool(&call.string("id"), "1")).collect();
        if is_reversed {
            results.reverse();
        }
        let calling = Json::from([("role", "assistant".into()), ("tool_calls", calls.into())]);
        [vec![valvehouse_core::chat::message::user("x"), calling], results].concat()
    });
    let rounds = prop::collection::vec(round, 1..4);
    rounds.prop_map(|rounds| Json::from([("model", "m".into()), ("messages", rounds.concat().into())]))
}

fn tool() -> impl Strategy<Value = Json> {
    let schemas = [
        "{}",
        r#"{"type":"object"}"#,
        r#"{"type":"object","properties":{}}"#,
        r#"{"properties":{"a":{"type":"array"}}}"#,
        r#"{"type":"object","properties":{"a":{"type":["array","null"]},"b":{"anyOf":[{"type":"array"},{"type":"string"}]}}}"#,
        r#"{"type":"object","properties":{"a":{"type":"array","items":{"type":"array"}}},"$defs":{"x":{"type":"array"}}}"#,
        r#"{"type":"object","anyOf":[{"properties":{"a":{"type":"array"}},"required":["a"]},{"required":["b"]}]}"#,
        r#"{"allOf":[{"properties":{"a":{"type":"string"}},"required":["a"]}],"required":["b"]}"#,
        r#"{"type":"string"}"#,
        r#"{"type":"dict","properties":{"n":{"type":"int","required":true},"required":["n"],"m":"string","t":{"type":["str","any"]}},"required":null}"#,
        r#"{"type":"object","properties":{"a":{"type":"string","anyOf":[{"minLength":1},{"anyOf":[{"enum":["x"]}]}]},"b":{"oneOf":[{"enum":["x"]},{"properties":{"c":{"type":"list"}}},{}]}}}"#,
        r#"{"type":"object","properties":{"type":{"type":"string"},"items":{"type":"array","items":{"type":"string"}}}}"#,
    ];
    (select(texts()), select(schemas.to_vec()), any::<bool>()).prop_map(|(name, schema, custom)| match custom
    {
        true => Json::from([("type", "custom".into()), ("custom", Json::from([("name", name.into())]))]),
        false => {
            let function = Json::from([("name", name.into()), ("parameters", json(schema))]);
            Json::from([("type", "function".into()), ("function", function)])
        }
    })
}

fn choice() -> impl Strategy<Value = Option<Json>> {
    let named = |name: String| Json::from([("name", name.into())]);
    prop_oneof![
        Just(None),
        Just(Some("auto".into())),
        Just(Some("none".into())),
        select(texts())
            .prop_map(move |name| Some(Json::from([("type", "function".into()), ("function", named(name))]))),
        prop::collection::vec(select(texts()), 0..3).prop_map(move |names| {
            let tools = names
                .into_iter()
                .map(|name| Json::from([("type", "function".into()), ("function", named(name))]));
            let allowed = Json::from([("mode", "auto".into()), ("tools", tools.collect::<Vec<_>>().into())]);
            Some(Json::from([("type", "allowed_tools".into()), ("allowed_tools", allowed)]))
        }),
    ]
}

fn user() -> impl Strategy<Value = Option<Json>> {
    let own = ["ann@example.com", "+49 30 123456", "1234567890", "{\"account\":\"a\"}"].map(str::to_owned);
    let texts: Vec<String> = texts().into_iter().chain(own).collect();
    prop_oneof![2 => Just(None), 1 => select(texts).prop_map(|text| Some(Json::from(text)))]
}

fn request() -> impl Strategy<Value = Json> {
    let numbers = ["-2", "-1", "0", "1", "15", "16", "4096", "5.0", "1e2"];
    let number = || prop_oneof![2 => Just(None), 1 => select(numbers.to_vec()).prop_map(|n| Some(json(n)))];
    let flag = || prop_oneof![2 => Just(None), 1 => any::<bool>().prop_map(|flag| Some(Json::from(flag)))];
    let tools = prop_oneof![1 => Just(None), 3 => prop::collection::vec(tool(), 0..4).prop_map(|tools| Some(Json::from(tools)))];
    let stops =
        [r#""""#, r#""\n""#, r#"["\n","a"]"#, "[]", r#"["a"]"#, r#"["a","b","c","d","","e","f"]"#, "null"];
    let stop = prop_oneof![2 => Just(None), 1 => select(stops.to_vec()).prop_map(|text| Some(json(text)))];
    let about_tools = (tools, choice(), flag());
    let formats = [
        r#"{"type":"text"}"#,
        r#"{"type":"json_object"}"#,
        r#"{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object","properties":{"a":{"type":"integer","minimum":1},"b":{"type":"array","minItems":2,"items":{"type":"object","properties":{}}}},"required":["a"]}}}"#,
        r#"{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}}}"#,
    ];
    let format =
        prop_oneof![2 => Just(None), 1 => select(formats.to_vec()).prop_map(|text| Some(json(text)))];
    let effort = select(vec!["none", "high", "max"]);
    let effort = prop_oneof![2 => Just(None), 1 => effort.prop_map(|effort| Some(Json::from(effort)))];
    let others = (
        user(),
        user(),
        number(),
        number(),
        flag(),
        number(),
        stop,
        number(),
        effort,
        select(vec![
            "m",
            "o3",
            "gpt-4o",
            "gpt-5.4",
            "kimi-k2.6",
            "claude-sonnet-4-5",
            "claude-opus-4-6",
            "claude-sonnet-4-0",
        ]),
        format,
    );
    (prop::collection::vec(message(), 1..8), about_tools, others).prop_map(
        |(messages, about_tools, others)| {
            let (tools, choice, parallel) = about_tools;
            let (
                user,
                user_id,
                max_tokens,
                completion,
                logprobs,
                top_logprobs,
                stop,
                seed,
                effort,
                model,
                format,
            ) = others;
            object(vec![
                ("model", Some(model.into())),
                ("temperature", seed.clone()),
                ("messages", Some(messages.into())),
                ("tools", tools),
                ("tool_choice", choice),
                ("parallel_tool_calls", parallel),
                ("user", user),
                ("metadata", user_id.map(|id| Json::from([("user_id", id)]))),
                ("max_tokens", max_tokens),
                ("max_completion_tokens", completion),
                ("logprobs", logprobs),
                ("top_logprobs", top_logprobs),
                ("stop", stop),
                ("top_k", seed.clone()),
                ("seed", seed),
                ("reasoning_effort", effort),
                ("response_format", format),
            ])
        },
    )
}

/// Returns the rules of a service that a request breaks, each checked on its own.
fn faults(kind: ServiceKind, body: &Json) -> Vec<String> {
    let rows = rules_of(kind).iter().filter(|row| !is_kept(kind, &row.rule, body));
    rows.map(|row| row.rule.demand()).collect()
}

fn calls(body: &Json) -> Vec<Json> {
    body.list("messages").iter().flat_map(|message| message.list("tool_calls")).collect()
}

fn name_of(value: &Json) -> String {
    ["function.name", "custom.name"]
        .iter()
        .find_map(|path| value.at_path(path).as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn text_parts(message: &Json) -> Option<String> {
    match message.field("content") {
        Json::Text(text) => Some(text.as_str().to_owned()),
        Json::Array(parts) => {
            let text = |part: &Json| {
                part.as_str().map(str::to_owned).or_else(|| part.text("text").map(String::from))
            };
            Some(parts.items().iter().filter_map(text).collect())
        }
        _ => None,
    }
}

fn has_image(message: &Json) -> bool {
    let is_image = |part: &Json| matches!(&*part.string("type"), "image_url" | "file");
    message.list("content").iter().any(is_image)
}

fn schemas(of: &Json, visit: &mut dyn FnMut(&Json)) {
    visit(of);
    for key in ["properties", "$defs"] {
        of.field(key).entries().iter().for_each(|(_, inner)| schemas(inner, visit));
    }
    if of.field("items").is_object() {
        schemas(&of.field("items"), visit);
    }
    of.list("anyOf").iter().for_each(|inner| schemas(inner, visit));
}

fn is_array_without_items(schema: &Json) -> bool {
    let kind = schema.field("type");
    let is_array =
        kind.as_str() == Some("array") || kind.items().iter().any(|kind| kind.as_str() == Some("array"));
    is_array && schema.given("items").is_none()
}

fn format_schema(body: &Json) -> Option<valvehouse_json::Object> {
    body.at_path("response_format.json_schema.schema").as_object().cloned()
}

/// Returns `true` if each message with calls is followed by their results, in any order, and nothing else is a result.
fn is_paired(messages: &[Json]) -> bool {
    let mut rest = messages;
    while let Some((first, after)) = rest.split_first() {
        let mut calls: Vec<String> = first.list("tool_calls").iter().map(|call| call.string("id")).collect();
        let results = after.iter().take_while(|own| own.string("role") == "tool");
        let mut results: Vec<String> = results.map(|own| own.string("tool_call_id")).collect();
        rest = &after[results.len()..];
        calls.sort();
        results.sort();
        if first.string("role") == "tool" || calls != results {
            return false;
        }
    }
    true
}

fn is_kept(kind: ServiceKind, rule: &Rule, body: &Json) -> bool {
    let messages = body.list("messages");
    let role = |message: &Json| message.string("role");
    let parameters = || -> Vec<Json> {
        let own = body.list("tools").into_iter().map(|tool| tool.at_path("function.parameters"));
        own.filter(Json::is_object).collect()
    };
    let is_last =
        |at: usize| messages[at + 1..].iter().all(|own| matches!(&*role(own), "system" | "developer"));
    match rule {
        Rule::Functions => {
            let own = messages.iter().chain([body]);
            own.clone().all(|own| own.get("functions").is_none() && own.given("function_call").is_none())
                && messages.iter().all(|own| role(own) != "function")
        }
        Rule::PairedResults => {
            calls(body).iter().all(|call| !call.string("id").is_empty())
                && messages.iter().all(|own| role(own) != "tool" || !own.string("tool_call_id").is_empty())
        }
        Rule::Results => is_paired(&messages),
        Rule::Arguments => calls(body).iter().all(|call| {
            call.get("function").is_none_or(|function| !function.string("arguments").trim().is_empty())
        }),
        Rule::Pictures => {
            let text = body.to_string();
            !text.contains("webp;base64,iVBOR") && !text.contains("png;base64,JVBERi")
        }
        Rule::UserPictures => {
            messages.iter().all(|own| matches!(&*role(own), "user" | "tool") || !has_image(own))
        }
        Rule::ResultNames => {
            let named: HashSet<String> = calls(body)
                .iter()
                .filter(|call| !name_of(call).is_empty())
                .map(|call| call.string("id"))
                .collect();
            let is_unnamed = |own: &&Json| role(own) == "tool" && own.string("name").is_empty();
            messages.iter().filter(is_unnamed).all(|own| !named.contains(&own.string("tool_call_id")))
        }
        Rule::HasParameters => body.list("tools").iter().all(|tool| {
            let function = tool.field("function");
            !function.is_object() || function.given("parameters").is_some()
        }),
        Rule::Images => {
            let (of_openai, of_anthropic) = (r#""image_url":{"file_id""#, r#""source":{"type":"file""#);
            let has = |own| body.to_string().contains(own);
            (kind == ServiceKind::Responses || !has(of_openai))
                && (kind == ServiceKind::Anthropic || !has(of_anthropic))
        }
        Rule::TextResults => messages.iter().all(|own| role(own) != "tool" || !has_image(own)),
        Rule::Developer => messages.iter().all(|own| role(own) != "developer"),
        Rule::Order => messages.iter().map(role).collect::<Vec<_>>().windows(2).all(|pair| {
            let next = pair[1].as_str();
            match &*pair[0] {
                "tool" => matches!(next, "tool" | "assistant"),
                "assistant" => next != "system",
                _ => true,
            }
        }),
        Rule::AllowedTools => body.at_path("tool_choice.type").as_str() != Some("allowed_tools"),
        Rule::Foreign(names) => names.iter().all(|name| body.get(name).is_none()),
        Rule::Rename(name, _) => body.get(name).is_none(),
        Rule::Levels => {
            let effort = body.field("reasoning_effort");
            let known: &[&str] = match &*body.string("model") {
                "gpt-4o" => &[],
                "o3" => &["low", "medium", "high"],
                _ => &["none", "minimal", "low", "medium", "high", "xhigh", "odd"],
            };
            effort.as_str().is_none_or(|effort| known.contains(&effort))
        }
        Rule::NoPrefill => {
            body.string("model") != "claude-opus-4-6"
                || messages
                    .iter()
                    .rfind(|own| !matches!(&*role(own), "system" | "developer"))
                    .is_none_or(|own| role(own) != "assistant" || !own.list("tool_calls").is_empty())
        }
        Rule::NoEmptyTail => messages.last().is_none_or(|own| {
            role(own) != "assistant"
                || !own.list("tool_calls").is_empty()
                || has_image(own)
                || text_parts(own).is_some_and(|text| !text.is_empty())
        }),
        Rule::CallFields(names) => {
            calls(body).iter().all(|call| names.iter().all(|name| call.get(name).is_none()))
        }
        Rule::OneSystem => messages.iter().skip(1).all(|own| !matches!(&*role(own), "system" | "developer")),
        Rule::Thoughts => {
            body.text("reasoning_effort").is_some_and(|effort| effort == "none")
                || messages.iter().all(|own| {
                    let needs = !own.list("tool_calls").is_empty() || !body.list("tools").is_empty();
                    !needs || role(own) != "assistant" || !own.string("reasoning_content").is_empty()
                })
        }
        Rule::FreeChoice => {
            let choice = body.field("tool_choice");
            !(choice.as_object().is_some() || choice.as_str() == Some("required"))
                || body.string("reasoning_effort") == "none"
                || body.string("model") == "gpt-4o"
        }
        Rule::FormatWithoutTools => {
            body.list("tools").is_empty()
                || !body.at_path("response_format.type").str_or_empty().starts_with("json")
        }
        Rule::EffortWithTools => {
            body.string("model") != "gpt-5.4"
                || body.list("tools").is_empty()
                || matches!(&*body.string("reasoning_effort"), "" | "none")
        }
        Rule::ClaudeSampling => {
            body.string("model") != "claude-sonnet-4-5"
                || body.get("temperature").is_none()
                || body.get("top_p").is_none()
        }
        Rule::Sampling => {
            !["o3", "kimi-k2.6"].contains(&&*body.string("model"))
                || body.get("temperature").is_none_or(|own| own.as_f64() == Some(1.0))
        }
        Rule::ModelField(name) => body.string("model") != "o3" || body.get(name).is_none(),
        Rule::ThinkingLimit => body.string("model") != "o3" || body.get("max_tokens").is_none(),
        Rule::ClosedFormat => format_schema(body).is_none_or(|schema| is_accepted(&schema)),
        Rule::StrictFormat => {
            !body.at_path("response_format.json_schema").is_true("strict")
                || format_schema(body).is_none_or(|schema| is_strict(&schema))
        }
        Rule::NoSchemaForOldClaude => {
            body.string("model") != "claude-sonnet-4-0"
                || body.at_path("response_format.type").as_str() != Some("json_schema")
        }
        // The tools of this test are not strict.
        Rule::StrictTools => true,
        Rule::NotOnlySystem => {
            messages.is_empty() || messages.iter().any(|own| !matches!(&*role(own), "system" | "developer"))
        }
        Rule::NoSchema => body.at_path("response_format.type").as_str() != Some("json_schema"),
        Rule::JsonWord => {
            body.at_path("response_format.type").as_str() != Some("json_object")
                || names_json(messages.iter())
        }
        Rule::MostStops(most) => body.list("stop").len() <= *most,
        Rule::Whole(names) => names.iter().all(|name| match body.field(name) {
            Json::Number(number) => number.is_integer() || number.as_i64().is_none(),
            _ => true,
        }),
        Rule::Calls => messages.iter().all(|own| own.get("tool_calls").is_none_or(|calls| !calls.is_empty())),
        Rule::Turns => messages.iter().all(|own| {
            role(own) != "assistant"
                || !own.list("tool_calls").is_empty()
                || has_image(own)
                || text_parts(own).is_some_and(|text| !text.is_empty())
        }),
        Rule::BlankTexts => messages.iter().enumerate().all(|(at, own)| {
            let text = text_parts(own).unwrap_or_default();
            let is_blank = !text.is_empty() && text.trim().is_empty();
            let is_prefill = is_last(at) && role(own) == "assistant" && own.list("tool_calls").is_empty();
            role(own) == "tool" || !(is_blank || is_prefill && !has_image(own) && text.trim_end() != text)
        }),
        Rule::Content => messages.iter().all(|own| match own.field("content") {
            Json::Array(parts) => !parts.is_empty(),
            Json::Null => match &*role(own) {
                "assistant" => !own.list("tool_calls").is_empty(),
                role => role != "tool",
            },
            _ => true,
        }),
        Rule::CallIds { limit, is_unique } => {
            let ids: Vec<String> = calls(body).iter().map(|call| call.string("id")).collect();
            let results = messages.iter().map(|own| own.string("tool_call_id"));
            ids.iter().cloned().chain(results).all(|id| limit.fits(&id))
                && (!is_unique || ids.iter().collect::<HashSet<_>>().len() == ids.len())
        }
        Rule::ToolNames(limit) => {
            let tools = body.list("tools");
            let choice = body.field("tool_choice");
            let chosen = choice.at_path("allowed_tools.tools").items();
            let all = tools.iter().chain(&chosen).chain([&choice]).map(name_of);
            let results = messages.iter().filter(|own| role(own) == "tool").map(|own| own.string("name"));
            all.chain(calls(body).iter().map(name_of)).chain(results).all(|name| limit.fits(&name))
        }
        Rule::MessageFields(names) => {
            messages.iter().all(|own| names.iter().all(|name| own.get(name).is_none()))
        }
        Rule::Prefill(name) => messages.last().is_none_or(|own| {
            role(own) != "assistant" || !own.list("tool_calls").is_empty() || own.is_true(name)
        }),
        Rule::UniqueTools => {
            let names: Vec<String> = body.list("tools").iter().map(name_of).collect();
            names.iter().collect::<HashSet<_>>().len() == names.len()
        }
        Rule::Alternatives => parameters()
            .iter()
            .all(|own| ["allOf", "anyOf", "oneOf"].iter().all(|key| own.get(key).is_none())),
        Rule::Participants(limit) => {
            messages.iter().filter(|own| role(own) != "tool").all(|own| limit.fits(&own.string("name")))
        }
        Rule::Parameters => {
            let is_kept = |own: &Json| own.as_object().is_some_and(|own| is_valid(own) && is_complete(own));
            parameters().iter().all(is_kept)
        }
        Rule::BranchTypes => parameters().iter().all(|own| own.as_object().is_some_and(are_types_moved)),
        Rule::Items(_) => {
            let mut lacks = false;
            parameters()
                .iter()
                .for_each(|own| schemas(own, &mut |schema| lacks |= is_array_without_items(schema)));
            !lacks
        }
        Rule::ToolFields => {
            let names: Vec<String> = body.list("tools").iter().map(name_of).collect();
            let choice = body.field("tool_choice");
            let allowed = choice.at_path("allowed_tools.tools").items();
            let chosen = allowed.iter().chain([&choice]).map(name_of).filter(|name| !name.is_empty());
            let has_none =
                ["tools", "tool_choice", "parallel_tool_calls"].iter().all(|key| body.get(key).is_none());
            if names.is_empty() { has_none } else { chosen.into_iter().all(|name| names.contains(&name)) }
        }
        Rule::Field(path, limit) => body.at_path(path).as_str().is_none_or(|text| limit.fits(text)),
        Rule::Least(names, least) => names
            .iter()
            .all(|name| body.get(name).and_then(|own| own.as_i64()).is_none_or(|own| own >= *least)),
        Rule::Needs(name, needed) => body.get(name).is_none() || body.is_true(needed),
        Rule::Stops { blank } => match body.field("stop") {
            Json::Text(text) => !if *blank { text.as_str().trim().is_empty() } else { text.is_empty() },
            Json::Array(texts) => {
                let texts = texts.items();
                let is_empty = |text: &Json| {
                    if *blank { text.str_or_empty().trim().is_empty() } else { text.is_empty() }
                };
                !texts.is_empty() && !texts.iter().any(is_empty)
            }
            _ => true,
        },
    }
}

#[test]
fn the_list_of_kinds_is_in_their_order() {
    assert!(ServiceKind::ALL.iter().enumerate().all(|(at, (_, kind))| *kind as usize == at));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_global_rejects: 65_536, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_leaves_satisfies_every_rule(body in request()) {
        let before = body.to_string();
        for kind in kinds() {
            let before_faults = faults(kind, &body);
            let Ok(adapted) = adapt(kind, &body) else {
                prop_assert!(!before_faults.is_empty(), "{}: an error without a fault: {before}", kind.as_str());
                continue;
            };
            prop_assert_eq!(&body.to_string(), &before, "{}: the original was changed", kind.as_str());
            let Some(adapted) = adapted else {
                prop_assert_eq!(before_faults, Vec::<String>::new(), "{}: {}", kind.as_str(), before);
                continue;
            };
            prop_assert!(!before_faults.is_empty(), "{}: changed without a fault: {before} to {}", kind.as_str(), adapted.body);
            prop_assert!(!adapted.fields.is_empty());
            prop_assert_eq!(faults(kind, &adapted.body), Vec::<String>::new(), "{}: {} from {}", kind.as_str(), adapted.body, before);
            let again = adapt(kind, &adapted.body);
            prop_assert!(matches!(again, Ok(None)), "{}: changed twice: {}", kind.as_str(), adapted.body);
        }
    }

    #[test]
    fn ids_of_calls_and_results_stay_equal_and_apart(body in rounds()) {
        let pairs = |body: &Json| -> Vec<String> {
            let own = body.list("messages");
            own.iter().flat_map(|message| {
                let calls = message.list("tool_calls").into_iter().map(|call| call.string("id"));
                calls.chain(message.text("tool_call_id").map(String::from)).collect::<Vec<_>>()
            }).collect()
        };
        let old = pairs(&body);
        for kind in [ServiceKind::OpenAi, ServiceKind::Mistral, ServiceKind::Responses] {
            let Ok(Some(adapted)) = adapt(kind, &body) else { continue };
            let new = pairs(&adapted.body);
            prop_assert_eq!(new.len(), old.len());
            for (one, other) in (0..old.len()).flat_map(|one| (0..one).map(move |other| (one, other))) {
                prop_assert_eq!(old[one] == old[other], new[one] == new[other], "{:?} {:?}", &old, &new);
            }
        }
    }

    #[test]
    fn bytes_that_no_rule_can_change_are_recognized(body in request()) {
        for kind in kinds().filter(|kind| !kind.is_messages()) {
            let (text, model) = (body.to_string(), body.text_or_empty("model"));
            if !may_apply(kind, &Outline::read(text.as_bytes()).unwrap(), &model) {
                prop_assert!(matches!(adapt(kind, &body), Ok(None)), "{}: {body}", kind.as_str());
            }
        }
    }
}

#[test]
fn the_limits_are_those_of_the_services() {
    let word = TextLimit::most(64, Letters::Word);
    for (text, fits) in
        [("a".repeat(64), true), ("a".repeat(65), false), ("a.b".into(), false), ("a-b_1".into(), true)]
    {
        assert_eq!(word.fits(&text), fits, "{text}");
    }
    let mistral = TextLimit::most(9, Letters::Plain).exactly();
    for (text, fits) in
        [("abcdefgh1", true), ("abcdefgh", false), ("abcdefghij", false), ("abcd_fghi", false)]
    {
        assert_eq!(mistral.fits(text), fits, "{text}");
    }
    let user = TextLimit::most(256, Letters::Any).opaque();
    for (text, fits) in [
        ("ann@example.com", false),
        ("{\"mail\":\"ann@example.com\"}", false),
        ("+49 30 1234567", false),
        ("1234567890", true),
        ("3f1c0a52-5a0b-4a1e-9a55-2f6f0f3f6a10", true),
        ("user@home", true),
    ] {
        assert_eq!(user.fits(text), fits, "{text}");
    }
    assert!(user.shorten("ann@example.com", 0).starts_with("user_"));
    assert_eq!(word.shorten(&"a".repeat(80), 0), word.shorten(&"a".repeat(80), 0));
    assert_ne!(word.shorten(&"a".repeat(80), 0), word.shorten(&"a".repeat(81), 0));
}

#[test]
fn a_service_is_recognized_by_its_host_and_its_kind() {
    use super::Protocol::{Chat, Messages, Responses};
    for (protocol, host, kind, expected) in [
        (Chat, "api.openai.com", "openai", ServiceKind::OpenAi),
        (Chat, "lab.openai.azure.com", "openai", ServiceKind::Azure),
        (Chat, "127.0.0.1", "vllm", ServiceKind::Vllm),
        (Chat, "api.mistral.ai", "openai", ServiceKind::Mistral),
        (Chat, "notmistral.ai", "openai", ServiceKind::OpenAi),
        (Chat, "api.z.ai", "zai", ServiceKind::Zhipu),
        (Chat, "eu.api.openai.com", "openai", ServiceKind::OpenAi),
        (Chat, "openrouter.ai", "deepseek", ServiceKind::OpenRouter),
        (Chat, "api.cerebras.ai", "cerebras", ServiceKind::Cerebras),
        (Responses, "api.openai.com", "openai", ServiceKind::Responses),
        (Messages, "api.anthropic.com", "anthropic", ServiceKind::Anthropic),
        (Messages, "bedrock-runtime.us-east-1.amazonaws.com", "anthropic", ServiceKind::Bedrock),
    ] {
        assert_eq!(ServiceKind::of(protocol, host, kind), expected, "{host} {kind}");
    }
    for (name, kind) in ServiceKind::ALL {
        assert_eq!((ServiceKind::from_name(name), kind.as_str()), (Some(kind), name));
    }
}

#[test]
fn a_result_without_an_id_gets_that_of_its_call() {
    let talk = |results: &str| {
        json(&format!(
            r#"{{"messages":[{{"role":"user","content":"x"}},{{"role":"assistant","content":null,"tool_calls":[{{"id":"c1","type":"function","function":{{"name":"f","arguments":"{{}}"}}}},{{"id":"c2","type":"function","function":{{"name":"g","arguments":"{{}}"}}}}]}},{results}]}}"#
        ))
    };
    let ids = |results: &str| {
        let adapted =
            adapt(ServiceKind::Anthropic, &talk(results)).map(|adapted| adapted.expect("it is changed").body);
        adapted.map(|body| {
            body.list("messages")[2..].iter().map(|own| own.string("tool_call_id")).collect::<Vec<_>>()
        })
    };
    let named = r#"{"role":"tool","name":"g","content":"1"},{"role":"tool","content":"2"}"#;
    assert_eq!(ids(named).unwrap(), ["c2", "c1"]);
    assert_eq!(ids(r#"{"role":"tool","content":"1"},{"role":"tool","content":"2"}"#).unwrap(), ["c1", "c2"]);
    assert_eq!(
        ids(r#"{"role":"tool","tool_call_id":"c1","content":"1"},{"role":"tool","content":"2"}"#).unwrap(),
        ["c1", "c2"]
    );
    let unclear = ids(r#"{"role":"tool","content":"1"}"#).unwrap_err().to_string();
    assert!(unclear.contains("messages[2].tool_call_id"), "{unclear}");
}

#[test]
fn functions_become_tools() {
    let body = json(
        r#"{"functions":[{"name":"f"}],"function_call":{"name":"f"},"messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"1"}]}"#,
    );
    for kind in [ServiceKind::Responses, ServiceKind::Anthropic, ServiceKind::Ollama] {
        let adapted = adapt(kind, &body).unwrap().unwrap();
        let new = &adapted.body;
        assert!(new.at_path("tools.0.function.name") == new.at_path("tool_choice.function.name"), "{new}");
        let call = new.at_path("messages.1.tool_calls.0");
        assert_eq!(call.at_path("function.arguments"), Json::from("{}"));
        let result = new.at_path("messages.2");
        assert!(result.is_text("role", "tool") && result.field("tool_call_id") == call.field("id"), "{new}");
        assert!(call.string("id").starts_with("call_") && faults(kind, new).is_empty());
        let again = adapt(kind, &body).unwrap().unwrap().body;
        assert_eq!(again.to_string(), new.to_string());
    }
    let both = json(
        r#"{"functions":[{"name":"f"}],"tools":[{"type":"function","function":{"name":"g"}}],"messages":[]}"#,
    );
    let adapted = adapt(ServiceKind::Ollama, &both).unwrap().unwrap();
    assert_eq!(adapted.body.list("tools").len(), 2);
}

/// Writes a conversation: `u` for the user, `t` for a text of the model, `a(x)` for a call with the id `x`, `x` for its
/// result.
fn talk(words: &str) -> Json {
    let call = |id: &str| {
        json(&format!(r#"{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}"#))
    };
    let message = |word: &str| match word {
        "u" => valvehouse_core::chat::message::user("hi"),
        "t" => valvehouse_core::chat::message::assistant("hm"),
        word => match word.strip_prefix("a(") {
            Some(ids) => {
                let calls: Vec<Json> = ids.trim_end_matches(')').split(',').map(call).collect();
                Json::from([
                    ("role", "assistant".into()),
                    ("content", Json::Null),
                    ("tool_calls", calls.into()),
                ])
            }
            None => valvehouse_core::chat::message::tool(word, "1"),
        },
    };
    Json::from([("messages", words.split(' ').map(message).collect::<Vec<_>>().into())])
}

/// Writes a conversation as [`talk`] reads it; `-x` stands for a result that says that the call `x` has none.
fn as_words(body: &Json) -> String {
    let word = |message: &Json| match &*message.string("role") {
        "tool" if message.string("content") != "1" => format!("-{}", message.string("tool_call_id")),
        "tool" => message.string("tool_call_id"),
        "user" => "u".into(),
        _ => match message.list("tool_calls").iter().map(|call| call.string("id")).collect::<Vec<_>>() {
            ids if ids.is_empty() => "t".into(),
            ids => format!("a({})", ids.join(",")),
        },
    };
    body.list("messages").iter().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn each_call_is_followed_by_its_result_and_each_result_has_a_call() {
    for (sent, expected) in [
        ("u a(1,2) 2 1 t u", "u a(1,2) 2 1 t u"),
        // Canceled by the user, or the end of the conversation.
        ("u a(1,2) 1 u", "u a(1,2) 1 -2 u"),
        ("u a(1)", "u a(1) -1"),
        ("u a(1) a(2) 2", "u a(1) -1 a(2) 2"),
        // The results come late.
        ("u a(1) u 1 t u", "u a(1) 1 u t u"),
        ("u a(1) t 1", "u a(1) 1 t"),
        // Results without a call, and a second result.
        ("u 9 t u a(1) 1", "u t u a(1) 1"),
        ("u a(1) 1 1 t u", "u a(1) 1 t u"),
        // An id that is used again.
        ("u a(1) u a(1) 1 u", "u a(1) -1 u a(1) 1 u"),
        ("u a(1) 1 a(1) 1", "u a(1) 1 a(1) 1"),
    ] {
        let body = talk(sent);
        for kind in [ServiceKind::OpenAi, ServiceKind::Responses, ServiceKind::Bedrock] {
            let adapted = adapt(kind, &body).unwrap().map_or(body.clone(), |adapted| adapted.body);
            // Ids that are used again are renamed for some services.
            let words = as_words(&adapted);
            match words.contains("1_") {
                true => assert_eq!(words.split(' ').count(), expected.split(' ').count(), "{sent}: {words}"),
                false => assert_eq!(words, expected, "{sent}"),
            }
        }
        assert!(adapt(ServiceKind::Vllm, &body).unwrap().is_none(), "{sent}");
    }
    let last = adapt(ServiceKind::OpenAi, &talk("u t 9")).unwrap_err().to_string();
    assert!(last.contains("no call found for messages[2] with tool_call_id `9`"), "{last}");
    assert!(adapt(ServiceKind::Anthropic, &talk("9")).is_err());
    assert!(adapt(ServiceKind::Anthropic, &talk("u a(1) 1 9")).unwrap().is_some());
}

#[test]
fn mistral_gets_an_answer_after_results_and_instructions_only_before_answers() {
    let roles = |body: &Json| -> Vec<String> {
        body.list("messages").iter().map(|message| message.string("role")).collect()
    };
    let body = talk("u a(1) 1 u t u");
    let adapted = adapt(ServiceKind::Mistral, &body).unwrap().expect("it is changed").body;
    assert_eq!(roles(&adapted), ["user", "assistant", "tool", "assistant", "user", "assistant", "user"]);
    assert_eq!(adapted.at_path("messages.3.content").as_str(), Some("OK."));
    let late = json(
        r#"{"messages":[{"role":"developer","content":"a"},{"role":"user","content":"b"},{"role":"system","content":"c"},{"role":"assistant","content":"d"},{"role":"developer","content":"e"}]}"#,
    );
    let adapted = adapt(ServiceKind::Mistral, &late).unwrap().expect("it is changed").body;
    assert_eq!(roles(&adapted), ["system", "user", "system", "assistant", "user"]);
    assert!(adapt(ServiceKind::OpenAi, &late).unwrap().is_none());
}

#[test]
fn settings_that_a_service_does_not_know_are_renamed_or_left_out() {
    let settings = r#""max_completion_tokens":9,"seed":1,"stream":true,"stream_options":{"include_usage":true},"user":"u","top_k":40,"num_ctx":8192,"reasoning_effort":"max""#;
    let body = json(&format!(r#"{{"model":"m","messages":[{{"role":"user","content":"x"}}],{settings}}}"#));
    let sent = |kind| {
        let adapted = adapt(kind, &body).unwrap().map_or(body.clone(), |adapted| adapted.body);
        let settings =
            adapted.entries().into_iter().filter(|(key, _)| !matches!(&**key, "model" | "messages"));
        settings.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    for (kind, expected) in [
        (ServiceKind::Mistral, r#"stream=true reasoning_effort="high" max_tokens=9 random_seed=1"#),
        (
            ServiceKind::OpenAi,
            r#"max_completion_tokens=9 seed=1 stream=true stream_options={"include_usage":true} user="u" reasoning_effort="high""#,
        ),
        (
            ServiceKind::Compatible,
            r#"seed=1 stream=true stream_options={"include_usage":true} user="u" top_k=40 num_ctx=8192 reasoning_effort="max" max_tokens=9"#,
        ),
        (
            ServiceKind::Anthropic,
            r#"max_completion_tokens=9 seed=1 stream=true stream_options={"include_usage":true} user="u" top_k=40 reasoning_effort="max""#,
        ),
    ] {
        assert_eq!(sent(kind), expected, "{}", kind.as_str());
    }
}

#[test]
fn formats_are_written_as_each_service_takes_them() {
    let format = |format: &str| {
        json(&format!(
            r#"{{"model":"m","messages":[{{"role":"user","content":"x"}}],"response_format":{format}}}"#
        ))
    };
    let adapted = |kind, body: &Json| adapt(kind, body).unwrap().map_or(body.clone(), |adapted| adapted.body);
    let open = format(
        r#"{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object","properties":{"a":{"type":"integer","minimum":1},"b":{"type":"object","properties":{}}},"required":["a"]}}}"#,
    );
    let anthropic = adapted(ServiceKind::Anthropic, &open).at_path("response_format.json_schema.schema");
    assert_eq!(
        anthropic,
        json(
            r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"object","properties":{},"additionalProperties":false}},"required":["a"],"additionalProperties":false}"#
        )
    );
    let openai = adapted(ServiceKind::OpenAi, &open).at_path("response_format.json_schema");
    assert_eq!((openai.is_true("strict"), openai.at_path("schema.properties.a.minimum")), (false, 1.into()));
    let deepseek = adapted(ServiceKind::DeepSeek, &open);
    assert_eq!(deepseek.at_path("response_format"), json(r#"{"type":"json_object"}"#));
    assert!(deepseek.at_path("messages.0.content").str_or_empty().contains(r#""minimum":1"#));
    let object = adapted(ServiceKind::OpenAi, &format(r#"{"type":"json_object"}"#));
    assert_eq!(object.at_path("messages.0.content").as_str(), Some("Answer with JSON."));
}

#[test]
fn images_of_results_follow_them_for_services_of_chats() {
    let body = json(
        r#"{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[{"id":"call00001","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call00001","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}]}"#,
    );
    for kind in kinds() {
        let adapted = adapt(kind, &body).unwrap();
        let has_own = matches!(
            kind,
            ServiceKind::Anthropic | ServiceKind::Bedrock | ServiceKind::Responses | ServiceKind::Ollama
        );
        assert_eq!(adapted.is_none(), has_own, "{}", kind.as_str());
        if let Some(adapted) = adapted {
            assert_eq!(adapted.body.at_path("messages.2.content").as_str(), Some("a"));
            let last = adapted.body.list("messages").pop().unwrap();
            assert!(last.string("role") == "user" && last.to_string().contains("AA=="), "{last}");
        }
    }
}

#[test]
fn the_choice_of_a_tool_that_is_gone_goes() {
    let tool =
        r#"{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}"#;
    let choose = |choice: &str| {
        let body = json(&format!(
            r#"{{"messages":[{{"role":"user","content":"x"}}],"tools":[{tool}],"tool_choice":{choice}}}"#
        ));
        adapt(ServiceKind::OpenAi, &body)
            .unwrap()
            .map(|adapted| adapted.body.field("tool_choice").to_string())
    };
    assert_eq!(choose(r#"{"type":"function","function":{"name":"f"}}"#), None);
    assert_eq!(choose(r#"{"type":"function","function":{"name":"g"}}"#).as_deref(), Some("null"));
    assert_eq!(choose(r#""required""#), None);
    let allowed = |names: &[&str]| {
        let tools: Vec<String> = names
            .iter()
            .map(|name| format!(r#"{{"type":"function","function":{{"name":"{name}"}}}}"#))
            .collect();
        format!(
            r#"{{"type":"allowed_tools","allowed_tools":{{"mode":"auto","tools":[{}]}}}}"#,
            tools.join(",")
        )
    };
    assert_eq!(choose(&allowed(&["f", "g"])), Some(json(&allowed(&["f"])).to_string()));
    // Other services receive only the allowed tools.
    let tools = ["f", "g", "h"].map(|name| tool.replace("\"f\"", &format!("\"{name}\""))).join(",");
    let body = json(&format!(
        r#"{{"messages":[{{"role":"user","content":"x"}}],"tools":[{tools}],"tool_choice":{}}}"#,
        allowed(&["f", "h"]).replace("auto", "required")
    ));
    for kind in [ServiceKind::Anthropic, ServiceKind::Ollama, ServiceKind::Groq] {
        let adapted = adapt(kind, &body).unwrap().expect("it is changed").body;
        assert_eq!(adapted.list("tools").iter().map(name_of).collect::<Vec<_>>(), ["f", "h"]);
        assert_eq!(adapted.field("tool_choice").as_str(), Some("required"));
    }
    assert!(adapt(ServiceKind::OpenAi, &body).unwrap().is_none());
}

/// A long name and its short form at OpenAI.
fn long_name() -> (String, String, super::Names) {
    let name = "mcp__enterprise__".repeat(5);
    let body = json(&format!(
        r#"{{"messages":[{{"role":"user","content":"x"}}],"tools":[{{"type":"function","function":{{"name":"{name}"}}}}]}}"#
    ));
    let adapted = adapt(ServiceKind::OpenAi, &body).unwrap().expect("the name is too long");
    let short = adapted.body.at_path("tools.0.function.name").str_or_empty().to_owned();
    assert!(short.len() <= 64 && short.starts_with("mcp__enterprise__"), "{short}");
    (name, short, adapted.names)
}

#[test]
fn the_client_receives_its_own_name_in_a_complete_answer() {
    let (name, short, names) = long_name();
    let answer = json(&format!(
        r#"{{"choices":[{{"message":{{"tool_calls":[{{"id":"a","function":{{"name":"{short}"}}}},{{"id":"b","function":{{"name":"f"}}}}]}}}}]}}"#
    ));
    let Answer::Whole(answer) = names.restore(Answer::Whole(answer)) else { panic!("it was complete") };
    let calls = answer.at_path("choices.0.message.tool_calls").items();
    assert_eq!(calls.iter().map(name_of).collect::<Vec<_>>(), [name, "f".into()]);
}

#[tokio::test]
async fn the_client_receives_its_own_name_in_a_stream_however_it_is_cut() {
    for cut in [0, 1, 20, 63] {
        let (name, short, names) = long_name();
        let (start, end) = short.split_at(cut);
        let event = |name: &str| {
            json(&format!(
                r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,"function":{{"name":"{name}"}}}}]}}}}]}}"#
            ))
        };
        let arguments = json(
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}"#,
        );
        let mut events = vec![event(end), arguments];
        if cut > 0 {
            events.insert(0, event(start));
        }
        let chunks =
            futures_util::stream::iter(events.into_iter().map(|event| Ok(StreamChunk::new(event)))).boxed();
        let Answer::Stream(chunks) = names.restore(Answer::Stream(chunks)) else { panic!("it was streamed") };
        let names: Vec<String> = chunks
            .map(|chunk| name_of(&chunk.expect("no error").event.at_path("choices.0.delta.tool_calls.0")))
            .collect()
            .await;
        assert_eq!(names.concat(), name, "cut at {cut}");
    }
}

#[tokio::test]
async fn a_call_does_not_use_the_id_of_an_earlier_one_again() {
    let request = json(
        r#"{"messages":[{"role":"assistant","tool_calls":[{"id":"f_0"},{"id":"call_abc"}]},{"role":"assistant","tool_calls":[{"id":"f:1"}]}]}"#,
    );
    let names = || super::Names::default().with_calls_of(request.clone());
    let ids = |message: &Json| {
        message.list("tool_calls").iter().map(|call| call.string("id")).collect::<Vec<String>>()
    };
    let calls = r#""tool_calls":[{"index":0,"id":"f:0"},{"index":1,"id":"g:0"},{"index":2,"id":"call_abc"}]"#;
    let whole = json(&format!(r#"{{"choices":[{{"message":{{{calls}}}}}]}}"#));
    let Answer::Whole(whole) = names().restore(Answer::Whole(whole)) else { panic!("it was complete") };
    assert_eq!(ids(&whole.at_path("choices.0.message")), ["f:2", "g:0", "call_abc1"]);
    let event = json(&format!(r#"{{"choices":[{{"index":0,"delta":{{{calls}}}}}]}}"#));
    let events = [event.deep_clone(), event].map(|event| Ok(StreamChunk::new(event)));
    let chunks = futures_util::stream::iter(events).boxed();
    let Answer::Stream(chunks) = names().restore(Answer::Stream(chunks)) else { panic!("it was streamed") };
    let chunks: Vec<_> =
        chunks.map(|chunk| ids(&chunk.expect("no error").event.at_path("choices.0.delta"))).collect().await;
    assert_eq!(chunks, [["f:2", "g:0", "call_abc1"], ["f:2", "g:0", "call_abc1"]]);
}

#[test]
fn a_tool_is_strict_only_with_a_schema_that_its_service_enforces() {
    let is_strict = |kind: ServiceKind, schema: &str| {
        let function = format!(r#"{{"name":"f","strict":true,"parameters":{schema}}}"#);
        let tools = format!(r#"[{{"type":"function","function":{function}}}]"#);
        let body = json(&format!(r#"{{"messages":[{{"role":"user","content":"x"}}],"tools":{tools}}}"#));
        let adapted = adapt(kind, &body).unwrap().map_or(body, |adapted| adapted.body);
        adapted.at_path("tools.0.function").is_true("strict")
    };
    let closed = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}"#;
    let limited = closed.replace(r#""integer""#, r#""integer","minimum":1"#);
    let open = closed.replace(r#","additionalProperties":false"#, "");
    for (kind, schema, expected) in [
        (ServiceKind::Anthropic, closed, true),
        (ServiceKind::Anthropic, &*limited, false),
        (ServiceKind::OpenAi, &*limited, true),
        (ServiceKind::OpenAi, &*open, false),
        (ServiceKind::Vllm, &*open, true),
    ] {
        assert_eq!(is_strict(kind, schema), expected, "{} {schema}", kind.as_str());
    }
}

#[test]
fn pictures_have_the_types_of_their_data() {
    let sent = |kind: ServiceKind, image: &str| {
        let part = format!(r#"{{"type":"image_url","image_url":{image}}}"#);
        let body = json(&format!(r#"{{"messages":[{{"role":"user","content":[{part}]}}]}}"#));
        let adapted = adapt(kind, &body).unwrap().map_or(body, |adapted| adapted.body);
        adapted.at_path("messages.0.content.0").to_string()
    };
    for (given, expected) in [
        (r#"{"url":"data:image/png;base64,/9j/4AA="}"#, "data:image/jpeg;base64,/9j/4AA="),
        (r#"{"url":"data:;base64,iVBORw0KGgo="}"#, "data:image/png;base64,iVBORw0KGgo="),
        (r#""data:application/octet-stream;base64,R0lGODlh""#, "data:image/gif;base64,R0lGODlh"),
        (r#""https://example.com/a.png""#, "https://example.com/a.png"),
    ] {
        let part = sent(ServiceKind::OpenAi, given);
        assert_eq!(part, format!(r#"{{"type":"image_url","image_url":{{"url":"{expected}"}}}}"#));
    }
    let pdf = r#"{"url":"data:application/pdf;base64,JVBERi0="}"#;
    assert!(
        sent(ServiceKind::Anthropic, pdf).contains(r#""file_data":"data:application/pdf;base64,JVBERi0=""#)
    );
    assert!(sent(ServiceKind::Gemini, pdf).contains(r#""image_url":{"url":"data:application/pdf"#));
}

#[test]
fn alternatives_of_a_schema_become_one_object() {
    let body = json(
        r#"{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"anyOf":[{"properties":{"b":{"type":"array"}},"required":["b"]},{"properties":{"a":{},"c":{"type":"number"}}}]}}}]}"#,
    );
    let adapted = adapt(ServiceKind::Anthropic, &body).unwrap().expect("it is changed").body;
    let expected = r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"array"},"c":{"type":"number"}},"required":["a"]}"#;
    assert_eq!(adapted.at_path("tools.0.function.parameters"), json(expected));
    assert!(matches!(adapt(ServiceKind::Vllm, &body), Ok(None)));
}

/// Returns the schema of a tool as a service receives it.
fn schema_for(kind: ServiceKind, schema: &str) -> Json {
    let tool = format!(r#"{{"type":"function","function":{{"name":"f","parameters":{schema}}}}}"#);
    let body = json(&format!(r#"{{"messages":[{{"role":"user","content":"x"}}],"tools":[{tool}]}}"#));
    let adapted = adapt(kind, &body).unwrap().map_or(body, |adapted| adapted.body);
    adapted.at_path("tools.0.function.parameters")
}

#[test]
fn faults_of_schemas_with_a_clear_meaning_are_corrected() {
    let empty = r#"{"type":"object","properties":{}}"#;
    for (schema, expected) in [
        ("{}", empty),
        (r#"{"type":"string"}"#, empty),
        (r#"{"type":["object","null"],"properties":[]}"#, empty),
        (r#"{"type":"Any","required":null,"properties":null}"#, empty),
        (
            r#"{"type":"dict","properties":{"n":{"type":"int"},"s":{"type":["str","NULL"]},"a":{"type":"any"}}}"#,
            r#"{"type":"object","properties":{"n":{"type":"integer"},"s":{"type":["string","null"]},"a":{}}}"#,
        ),
        (
            r#"{"type":"object","properties":{"a":{"type":"string","required":true},"b":{"type":"bool","required":false},"o":{"type":"object","properties":{"c":{"type":"float","required":true}}}}}"#,
            r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"boolean"},"o":{"type":"object","properties":{"c":{"type":"number"}},"required":["c"]}},"required":["a"]}"#,
        ),
        (
            r#"{"type":"object","properties":{"coin":{"type":"string"},"city":"string","required":["coin"],"type":"object"}}"#,
            r#"{"type":"object","properties":{"coin":{"type":"string"},"city":{"type":"string"}},"required":["coin"]}"#,
        ),
    ] {
        assert_eq!(schema_for(ServiceKind::OpenAi, schema), json(expected), "{schema}");
        assert_eq!(schema_for(ServiceKind::Vllm, schema), json(schema));
    }
}

#[test]
fn types_beside_alternatives_move_into_them_for_moonshot() {
    let schema = r#"{"type":"object","properties":{"t":{"type":"array","items":{"type":"object","anyOf":[{"required":["a"]},{"type":"null"},{"anyOf":[{"required":["b"]}]}]}},"u":{"anyOf":[{"enum":["x"]},{"$ref":"d"}]}}}"#;
    let moved = r#"{"type":"object","properties":{"t":{"type":"array","items":{"anyOf":[{"required":["a"],"type":"object"},{"type":"null"},{"anyOf":[{"required":["b"],"type":"object"}]}]}},"u":{"anyOf":[{"enum":["x"],"type":"string"},{"$ref":"d"}]}}}"#;
    assert_eq!(schema_for(ServiceKind::Moonshot, schema), json(moved));
    assert_eq!(schema_for(ServiceKind::OpenAi, schema), json(schema));
    let top = r#"{"type":"object","anyOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{}}]}"#;
    let merged = r#"{"type":"object","properties":{"a":{"type":"string"}}}"#;
    assert_eq!(schema_for(ServiceKind::Moonshot, top), json(merged));
}
