//! Growing conversations with a canned model.

use super::settings::{NAME, Summarization};
use proptest::prelude::*;
use std::sync::Arc;
use valvehouse_core::chat::history::is_role;
use valvehouse_core::chat::{ModelCall, message};
use valvehouse_core::context::{Context, Events, Turn, TurnFacts};
use valvehouse_core::error::Error;
use valvehouse_core::filter::{Chain, ChainOutcome, Hook};
use valvehouse_core::provider::{CannedProvider, Reply};
use valvehouse_json::{Json, Object};

const MODEL: &str = "gpt-4o";

fn turn() -> Turn {
    Turn::new(TurnFacts::default(), Context::default(), Events::default())
}

fn calls(ids: &[&str]) -> Json {
    let call = |id: &&str| ModelCall { id: (*id).into(), name: "f".into(), arguments: "{}".into() }.to_json();
    let calls: Vec<Json> = ids.iter().map(call).collect();
    Json::from([("role", "assistant".into()), ("content", Json::Null), ("tool_calls", calls.into())])
}

/// Returns a system message followed by `count` alternating user and assistant messages.
fn talk(count: usize) -> Vec<Json> {
    let message_at = |number: usize| match number % 2 {
        0 => message::user(format!("question {number}")),
        _ => message::assistant(format!("answer {number}")),
    };
    [message::system("be brief")].into_iter().chain((0..count).map(message_at)).collect()
}

/// Returns the messages that the model sees.
fn seen_in(settings: &Summarization, messages: &[Json], turn: &Turn) -> Vec<Json> {
    let chain = Chain::new(vec![settings.clone().filter()]);
    let messages: Vec<Json> = messages.iter().map(Json::deep_clone).collect();
    let ctx: Object =
        [("messages".into(), messages.into()), ("model".into(), MODEL.into())].into_iter().collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    match runtime.block_on(chain.run(Hook::PreChat, ctx.into(), turn)).unwrap() {
        ChainOutcome::Done(ctx) => ctx.get("messages").unwrap().items(),
        ChainOutcome::Skipped(_) => panic!("it answered"),
    }
}

fn written_by(replies: impl IntoIterator<Item = Reply>) -> (CannedProvider, Summarization) {
    let canned = CannedProvider::new(replies);
    let settings = Summarization { summarize: true, ..Summarization::default() };
    (canned.clone(), settings.with_model(Arc::new(canned), MODEL))
}

fn texts(messages: &[Json]) -> Vec<String> {
    messages.iter().map(|message| message::text_of(message).into()).collect()
}

fn state(turn: &Turn, key: &str) -> Json {
    turn.state(NAME).get(key).unwrap_or_default()
}

#[test]
fn only_a_conversation_above_a_threshold_is_summarized() {
    let settings = Summarization::default();
    let at = talk(29);
    assert_eq!(seen_in(&settings, &at, &turn()), at);
    let turn = turn();
    let seen = texts(&seen_in(&settings, &talk(30), &turn));
    assert_eq!(seen.len(), 22);
    assert_eq!(seen[0], "be brief");
    assert_eq!(seen[1], "[10 earlier messages of this conversation are left out here]");
    assert_eq!((seen[2].as_str(), seen[21].as_str()), ("question 10", "answer 29"));
    assert_eq!(state(&turn, "compressed"), Json::Bool(true));

    let long = vec![message::user("word ".repeat(3100)), message::user("new")];
    let tight = Summarization { max_tokens: 3050, ..Summarization::default() };
    assert_eq!(texts(&seen_in(&tight, &long, &self::turn()))[1], "new");
}

#[test]
fn a_summary_replaces_old_messages_and_is_extended_once_enough_are_old() {
    let (canned, settings) = written_by([Reply::text("first"), Reply::text("second")]);
    let turn = turn();
    let seen = texts(&seen_in(&settings, &talk(30), &turn));
    assert_eq!(seen.len(), 22);
    assert_eq!(seen[1], "[Summary of the first 10 messages of this conversation]\nfirst");
    assert_eq!((state(&turn, "summary"), state(&turn, "covers")), ("first".into(), 10_u64.into()));
    let prompt = canned.requests()[0].at_path("messages.1.content").to_string();
    assert!(prompt.contains("user: question 0") && prompt.contains("assistant: answer 9"), "{prompt}");
    assert!(!prompt.contains("question 10"), "{prompt}");

    // The summary is reused, and later messages are unchanged.
    let seen = texts(&seen_in(&settings, &talk(34), &turn));
    assert_eq!((seen.len(), canned.requests().len()), (26, 1));
    assert!(seen[1].ends_with("first") && seen[2] == "question 10", "{seen:?}");

    // There are 41 messages beside the summary: the 21 old ones are added to it.
    let seen = texts(&seen_in(&settings, &talk(51), &turn));
    assert_eq!(seen[1], "[Summary of the first 31 messages of this conversation]\nsecond");
    assert_eq!((seen[2].as_str(), seen.len()), ("answer 31", 22));
    let prompt = canned.requests()[1].at_path("messages.1.content").to_string();
    assert!(prompt.contains("first") && prompt.contains("question 10") && prompt.contains("question 30"));
    assert!(!prompt.contains("answer 9") && !prompt.contains("answer 31"), "{prompt}");
}

#[test]
fn the_first_summary_covers_what_does_not_fit_beside_it() {
    let (_, settings) = written_by([Reply::text("so far")]);
    let settings = Summarization {
        window_size: 7,
        max_tokens: 292,
        compress_threshold: 1,
        token_threshold: 98,
        ..settings
    };
    let (mut messages, turn) = (vec![message::system("be brief")], turn());
    for words in [1, 17, 32, 26, 38, 34, 1, 44] {
        messages.push(message::user("word ".repeat(words)));
        let seen = texts(&seen_in(&settings, &messages, &turn));
        assert!(seen.iter().all(|text| !text.contains("left out")), "{words}: {seen:?}");
    }
    assert!(state(&turn, "covers").as_i64() > Some(1));
}

#[test]
fn a_conversation_without_its_summarized_messages_still_shows_the_summary() {
    let (canned, settings) = written_by([Reply::text("first")]);
    let turn = turn();
    seen_in(&settings, &talk(30), &turn);
    turn.state(NAME).set("offset", 10_u64).unwrap();
    let rest: Vec<Json> = [&talk(32)[..1], &talk(32)[11..]].concat();
    let seen = texts(&seen_in(&settings, &rest, &turn));
    assert_eq!((seen.len(), seen[2].as_str()), (24, "question 10"));
    assert!(seen[1].ends_with("first") && canned.requests().len() == 1);
}

#[test]
fn a_summary_that_covers_more_messages_than_exist_is_discarded() {
    let (_, settings) = written_by([Reply::text("first")]);
    let turn = turn();
    seen_in(&settings, &talk(30), &turn);
    assert_eq!(seen_in(&settings, &talk(5), &turn), talk(5));
    assert_eq!(state(&turn, "covers"), 0_u64.into());
}

#[test]
fn a_failed_summary_falls_back_to_the_window_and_is_retried_later() {
    let down = Error::Unanswered { message: "it is down".into(), sent: false, timeout: false };
    let (canned, settings) = written_by([Reply::error(down), Reply::text("late")]);
    let turn = turn();
    let seen = texts(&seen_in(&settings, &talk(30), &turn));
    assert_eq!(seen[1], "[10 earlier messages of this conversation are left out here]");
    assert_eq!(state(&turn, "failed"), "it is down".into());
    seen_in(&settings, &talk(31), &turn);
    assert_eq!(canned.requests().len(), 1, "not at every call");
    let seen = texts(&seen_in(&settings, &talk(36), &turn));
    assert!(seen[1].ends_with("first 16 messages of this conversation]\nlate"), "{seen:?}");
    assert!(state(&turn, "failed").is_null());
}

#[test]
fn a_failed_summary_keeps_the_parts_summarized_so_far() {
    let down = Error::Unanswered { message: "it is down".into(), sent: false, timeout: false };
    let (canned, settings) =
        written_by([Reply::text("the first part"), Reply::error(down), Reply::text("all")]);
    let long = |number: usize| message::user(format!("{number} {}", "word ".repeat(700)));
    let messages: Vec<Json> = (0..12).map(long).collect();
    let turn = turn();
    let seen = texts(&seen_in(&settings, &messages, &turn));
    assert_eq!(seen[0], "[Summary of the first 7 messages of this conversation]\nthe first part");
    assert_eq!((seen.len(), canned.requests().len()), (6, 2));
    assert!(seen[1].starts_with("7 "), "{}", seen[1]);
    assert_eq!(state(&turn, "covers"), 7_u64.into());
    assert_eq!(state(&turn, "failed"), "it is down".into());
}

#[test]
fn an_empty_summary_counts_as_a_failure() {
    let (_, settings) = written_by([Reply::text(" ")]);
    let turn = turn();
    seen_in(&settings, &talk(40), &turn);
    assert_eq!(state(&turn, "failed"), "model gpt-4o returned an empty summary".into());
}

#[test]
fn a_large_tool_result_is_cut_and_the_question_and_its_call_stay() {
    let settings = Summarization::default();
    let result = message::tool("a", "data ".repeat(50_000));
    let messages = [message::system("be brief"), message::user("look"), calls(&["a"]), result];
    let seen = seen_in(&settings, &messages, &turn());
    assert!(valvehouse_tokens::of_messages(&seen, MODEL).tokens <= 4000);
    let result = texts(&seen).pop().unwrap();
    assert!(result.starts_with("data data") && result.ends_with("… (250000 bytes)"), "{}", result.len());
    assert_eq!(ModelCall::all(&seen[seen.len() - 2]).len(), 1);
}

#[test]
fn long_arguments_of_a_call_are_cut_and_stay_valid_json() {
    let asks = calls(&["a", "b"]);
    let long = format!(r#"{{"text":"{}"}}"#, "data ".repeat(20_000));
    asks.at_path("tool_calls.0.function").set("arguments", long).unwrap();
    let messages =
        [message::user("write"), asks, message::tool("a", "done"), message::tool("b", "word ".repeat(9000))];
    let seen = seen_in(&Summarization::default(), &messages, &turn());
    assert!(valvehouse_tokens::of_messages(&seen, MODEL).tokens <= 4000);
    let calls = ModelCall::all(&seen[seen.len() - 3]);
    assert!(calls[0].parse().unwrap().text("shortened").unwrap().starts_with(r#"{"text":"data"#));
    assert_eq!(calls[1].arguments, "{}");
    assert_eq!(texts(&seen)[seen.len() - 2], "done");
}

#[test]
fn a_summary_is_cut_to_make_room_for_the_newest_message() {
    let (_, settings) = written_by([Reply::text(&"fact ".repeat(900))]);
    let turn = turn();
    seen_in(&settings, &talk(30), &turn);
    let with_newest = |words: usize| {
        let newest = message::user("word ".repeat(words));
        let seen = seen_in(&settings, &[talk(30), vec![newest]].concat(), &turn);
        assert!(valvehouse_tokens::of_messages(&seen, MODEL).tokens <= settings.max_tokens);
        texts(&seen)
    };
    let seen = with_newest(3300);
    assert_eq!(seen.len(), 3);
    assert!(
        seen[1].starts_with("[Summary of the first 30 messages") && seen[1].len() < 900 * 5,
        "{}",
        seen[1]
    );
    assert_eq!(with_newest(3950).len(), 2, "no room is left for any of it");
}

#[test]
fn malformed_messages_do_not_break_a_summary() {
    let odd = [
        "null",
        "7",
        "[]",
        "{}",
        r#"{"role":7}"#,
        r#"{"role":"tool","content":"x"}"#,
        r#"{"role":"assistant","tool_calls":[null,1,{"id":"a","function":{"name":"f"}}]}"#,
        r#"{"role":"user","content":[{"type":"image_url"},"text",7]}"#,
        r#"{"role":"tool","tool_call_id":"a"}"#,
    ];
    let odd: Vec<Json> = odd.iter().map(|text| Json::parse(text.as_bytes()).unwrap()).collect();
    let many: Vec<Json> = odd.iter().cycle().take(60).map(Json::deep_clone).collect();
    let (_, settings) = written_by([Reply::text("so far")]);
    for preserve_system in [true, false] {
        let settings = Summarization { preserve_system, ..settings.clone() };
        assert!(seen_in(&settings, &many, &turn()).len() <= 22);
        assert_eq!(seen_in(&settings, &odd, &turn()), odd);
    }
    assert!(seen_in(&settings, &[], &turn()).is_empty());
}

#[test]
fn system_messages_are_summarized_when_preserve_system_is_off() {
    let settings = Summarization { preserve_system: false, ..Summarization::default() };
    let seen = texts(&seen_in(&settings, &talk(30), &turn()));
    assert_eq!(seen.len(), 21);
    assert_eq!(seen[0], "[11 earlier messages of this conversation are left out here]");
}

#[test]
fn system_and_newest_messages_are_sent_even_over_the_token_limit() {
    let messages = [message::system("rule ".repeat(5000)), message::user("hi"), message::user("there")];
    let seen = seen_in(&Summarization::default(), &messages, &turn());
    assert_eq!(seen.first(), messages.first());
    assert_eq!(seen.last(), messages.last());
}

#[test]
fn summarization_accepts_its_documented_options_and_reports_typos() {
    let read = |text: &str| Summarization::read(&Json::parse(text.as_bytes()).unwrap());
    let all = r#"{"window_size":20,"max_tokens":4000,"summarize":true,"compress_threshold":30,"token_threshold":3000,"preserve_system":true}"#;
    assert!(read(all).unwrap().summarize);
    assert!(!read("{}").unwrap().summarize && read("null").is_ok());
    for (options, wrong) in [
        (r#"{"window_sise":1}"#, "has the unknown key `window_sise`; did you mean `window_size`?"),
        (r#"{"window_size":0}"#, "has an invalid option: `window_size` must be 1 or more, not 0"),
        (r#"{"summarize":"yes"}"#, "has an invalid option: `summarize` must be true or false, not \"yes\""),
        ("[]", "has [] as its options: give a map"),
    ] {
        let error = read(options).err().unwrap();
        assert!(error.starts_with(&format!("middleware summarization {wrong}")), "{error}");
    }
}

/// Generates one exchange: texts of varying length, or calls with their results.
fn exchange() -> impl Strategy<Value = Vec<Json>> {
    let text = || (1..60_usize).prop_map(|words| "word ".repeat(words));
    prop_oneof![
        3 => text().prop_map(|text| vec![message::user(text)]),
        3 => text().prop_map(|text| vec![message::assistant(text)]),
        1 => Just(vec![message::system("a rule")]),
        3 => prop::collection::vec(text(), 1..4).prop_map(|results| {
            let ids: Vec<String> = (0..results.len()).map(|id| format!("call_{id}")).collect();
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            let results = ids.iter().zip(&results).map(|(id, text)| message::tool(id, text.as_str()));
            [calls(&ids)].into_iter().chain(results).collect()
        }),
    ]
}

fn settings() -> impl Strategy<Value = Summarization> {
    let numbers = (1..12_usize, 200..1500_usize, 1..20_usize, 50..1500_usize, any::<bool>());
    numbers.prop_map(|(window_size, max_tokens, compress_threshold, token_threshold, summarize)| {
        let settings = Summarization {
            window_size,
            max_tokens,
            summarize,
            compress_threshold,
            token_threshold,
            ..Summarization::default()
        };
        settings.with_model(Arc::new(CannedProvider::new(["so far "])), MODEL)
    })
}

/// Returns `true` if calls and results are together.
fn is_whole(messages: &[Json]) -> bool {
    let mut open: Vec<String> = Vec::new();
    messages.iter().all(|message| {
        if is_role(message, "tool") {
            let id = message.text("tool_call_id").unwrap();
            let place = open.iter().position(|call| *call == *id);
            return place.map(|place| open.remove(place)).is_some();
        }
        let was_answered = open.is_empty();
        open = ModelCall::all(message).into_iter().map(|call| call.id.into()).collect();
        was_answered
    }) && open.is_empty()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_growing_conversation_is_sent_within_the_limit_and_in_order(
        exchanges in prop::collection::vec(exchange(), 1..40),
        settings in settings(),
    ) {
        let (turn, mut messages) = (turn(), vec![message::system("be brief")]);
        for exchange in exchanges {
            messages.extend(exchange);
            let seen = seen_in(&settings, &messages, &turn);
            let count = |messages: &[Json]| valvehouse_tokens::of_messages(messages, MODEL).tokens;
            let (system, rest): (Vec<Json>, Vec<Json>) =
                messages.iter().cloned().partition(|message| is_role(message, "system"));
            let is_compressed = state(&turn, "compressed") == Json::Bool(true);
            if !is_compressed {
                prop_assert_eq!(&seen, &messages);
                prop_assert!(messages.len() <= settings.compress_threshold);
                prop_assert!(count(&messages) <= settings.token_threshold.min(settings.max_tokens));
                continue;
            }
            prop_assert_eq!(&seen[..system.len()], &system[..]);
            let seen = &seen[system.len()..];
            let is_head = |message: &Json| message::text_of(message).starts_with('[');
            prop_assert!(seen.iter().skip(1).all(|message| !is_head(message)), "one summary");
            let raw: Vec<Json> = seen.iter().filter(|message| !is_head(message)).cloned().collect();
            prop_assert!(is_whole(&raw), "{:?}", raw);
            // The newest messages are present in order. Only the newest results may have been truncated.
            let newest = &rest[rest.len() - raw.len()..];
            let is_cut = raw.iter().zip(newest).any(|(seen, message)| seen != message);
            prop_assert!(!is_cut || raw.iter().skip(1).all(|message| is_role(message, "tool")));
            prop_assert!(!raw.is_empty() || rest.is_empty());
            let system_count = count(&system);
            if rest.last().is_none_or(|last| system_count + count(std::slice::from_ref(last)) <= settings.max_tokens) {
                let sent = [&system[..], seen].concat();
                prop_assert!(count(&sent) <= settings.max_tokens, "{} > {}", count(&sent), settings.max_tokens);
            }
            // With a summary, no message is missing between those covered and those sent.
            let covers = state(&turn, "covers").as_i64().unwrap() as usize;
            if settings.summarize && !is_cut && seen.first().is_some_and(is_head) {
                prop_assert_eq!(covers + raw.len(), rest.len());
            }
        }
    }
}
