use super::*;
use crate::chat::Fold;
use compact_str::CompactString;
use proptest::prelude::*;
use std::convert::Infallible;
use valvehouse_json::Json;

/// Replaces every `secret-42` and, as a trap, every `aa`.
struct Blot(usize);

impl WindowVisitor for Blot {
    type Error = Infallible;

    fn changed(&mut self, text: &str) -> Result<CompactString, Infallible> {
        Ok(text.replace("secret-42", "[x]").replace("aa", "b").into())
    }

    fn unfinished(&mut self, text: &str) -> Result<usize, Infallible> {
        Ok(last_words(text, self.0))
    }
}

const MAX_LENGTH: usize = 9;

fn through(events: &[Json]) -> Vec<Json> {
    let kept = Json::object();
    for event in events {
        pass(event, &kept, MAX_LENGTH, &mut Blot(MAX_LENGTH)).unwrap();
    }
    let mut all = events.to_vec();
    for choice in waiting(&kept) {
        end(&kept, choice);
        let event = delta_of(choice, Json::object(), None);
        pass(&event, &kept, MAX_LENGTH, &mut Blot(MAX_LENGTH)).unwrap();
        all.push(event);
    }
    assert!(waiting(&kept).is_empty());
    all
}

fn delta_of(index: i64, delta: Json, finish: Option<&str>) -> Json {
    let choice = Json::from([("index", index.into()), ("delta", delta), ("finish_reason", finish.into())]);
    Json::from([("id", "a".into()), ("choices", vec![choice].into())])
}

fn parsed(texts: &[&str]) -> Vec<Json> {
    texts.iter().map(|text| Json::parse(text.as_bytes()).unwrap()).collect()
}

fn folded(events: &[Json]) -> Json {
    let mut fold = Fold::default();
    events.iter().for_each(|event| fold.push(event));
    fold.finish()
}

/// Returns the deltas and their neighboring fields, one line for each event.
fn shown(events: &[Json]) -> Vec<String> {
    events.iter().map(|event| event.at_path("choices.0").to_string()).collect()
}

/// The places of a text in a delta, each with the path of the complete text.
const PLACES: [(&str, &str); 7] = [
    (r#"{"content":TEXT}"#, "content"),
    (r#"{"content":[{"type":"text","text":TEXT}]}"#, "content.0.text"),
    (r#"{"reasoning_content":TEXT}"#, "reasoning_content"),
    (
        r#"{"reasoning_details":[{"index":0,"type":"reasoning.text","text":TEXT}]}"#,
        "reasoning_details.0.text",
    ),
    (r#"{"refusal":TEXT}"#, "refusal"),
    (r#"{"audio":{"id":"a","transcript":TEXT}}"#, "audio.transcript"),
    (r#"{"tool_calls":[{"index":0,"function":{"arguments":TEXT}}]}"#, "tool_calls.0.function.arguments"),
];

fn chunk(place: &str, text: &str) -> Json {
    Json::parse(place.replace("TEXT", &Json::from(text).to_string()).as_bytes()).unwrap()
}

#[test]
fn a_match_is_found_across_chunks_in_every_text_field() {
    let text = "before secret-42, after. secret-42secret-42 end";
    let expected = "before [x], after. [x][x] end";
    for (place, whole) in PLACES {
        for first in 0..=text.len() {
            for second in [first, (first + 3).min(text.len()), text.len()] {
                for finish in [Some("stop"), None].into_iter().take(if first == second { 2 } else { 1 }) {
                    let cut = [&text[..first], &text[first..second], &text[second..]];
                    let mut events: Vec<Json> =
                        cut.iter().map(|text| delta_of(0, chunk(place, text), None)).collect();
                    events.extend(finish.map(|why| delta_of(0, Json::object(), Some(why))));
                    let all = through(&events);
                    for event in &all {
                        assert!(!event.to_string().contains("secret-42"), "{place} {cut:?}");
                    }
                    let message = folded(&all).at_path("choices.0.message");
                    assert_eq!(
                        message.at_path(whole),
                        expected.into(),
                        "{place} {cut:?} {finish:?} {message}"
                    );
                }
            }
        }
    }
}

fn call(index: i64, text: &str) -> Json {
    let call = Json::from([("index", index.into()), ("function", Json::from([("arguments", text.into())]))]);
    delta_of(0, Json::from([("tool_calls", vec![call].into())]), None)
}

#[test]
fn a_call_waits_for_the_withheld_end_of_an_earlier_one() {
    let events = [call(0, "{\"a\":\"secret"), call(1, "{}"), call(0, "-42\"}")];
    let calls =
        through(&events).into_iter().flat_map(|event| event.at_path("choices.0.delta").list("tool_calls"));
    let mut order: Vec<i64> = calls.filter_map(|call| call.integer("index")).collect();
    order.dedup();
    assert_eq!(order, [0, 1]);
}

#[test]
fn an_escape_that_a_service_cuts_off_is_not_lost() {
    let events = [call(0, "{\"a\":\"x\\u00"), delta_of(0, Json::object(), Some("length"))];
    let arguments = folded(&through(&events)).at_path("choices.0.message.tool_calls.0.function.arguments");
    assert_eq!(arguments, "{\"a\":\"x\\u00".into());
}

#[test]
fn each_choice_and_each_call_is_matched_separately() {
    let content = |index: i64, text: &str| delta_of(index, Json::from([("content", text.into())]), None);
    let events = [
        content(0, "sec"),
        content(1, "secr"),
        call(0, "secret"),
        call(1, "-42"),
        call(0, "-42"),
        content(0, "ret-42"),
        content(1, "et-4"),
        delta_of(1, Json::object(), Some("stop")),
        delta_of(0, Json::object(), Some("tool_calls")),
    ];
    let answer = folded(&through(&events));
    assert_eq!(answer.at_path("choices.0.message.content"), "[x]".into());
    assert_eq!(answer.at_path("choices.1.message.content"), "secret-4".into());
    assert_eq!(answer.at_path("choices.0.message.tool_calls.0.function.arguments"), "[x]".into());
    assert_eq!(answer.at_path("choices.0.message.tool_calls.1.function.arguments"), "-42".into());
}

#[test]
fn buffered_text_is_sent_with_the_event_that_ends_its_choice() {
    let events = parsed(&[
        r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"Hello you"},"finish_reason":null}]}"#,
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
        r#"{"choices":[],"usage":{"total_tokens":3}}"#,
    ]);
    assert_eq!(
        shown(&through(&events)),
        [
            r#"{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}"#,
            r#"{"index":0,"delta":{"content":""},"finish_reason":null}"#,
            r#"{"index":0,"delta":{"content":"Hello you"},"finish_reason":"stop"}"#,
            "null",
        ]
    );
}

#[test]
fn buffered_reasoning_is_flushed_when_the_answer_begins() {
    let events = parsed(&[
        r#"{"choices":[{"index":0,"delta":{"reasoning":"hm"},"finish_reason":null}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"A long beginning. "},"finish_reason":null}]}"#,
    ]);
    let passed = through(&events);
    assert_eq!(passed[1].at_path("choices.0.delta.reasoning"), "hm".into());
}

#[test]
fn log_probabilities_follow_their_text() {
    let events = parsed(&[
        r#"{"choices":[{"index":0,"delta":{"content":"Tell me what is secr"},"logprobs":{"content":[{"token":"Tell "},{"token":"me "},{"token":"what ","bytes":[119,104,97,116,32]},{"token":"is "},{"token":"secr"}]},"finish_reason":null}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"et-42 there and everywhere"},"logprobs":{"content":[{"token":"et-42"},{"token":" there"},{"token":" and everywhere"}]},"finish_reason":null}]}"#,
        r#"{"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}"#,
    ]);
    let passed = through(&events);
    assert_eq!(
        shown(&passed),
        [
            r#"{"index":0,"delta":{"content":"Tell me "},"logprobs":{"content":[{"token":"Tell "},{"token":"me "}]},"finish_reason":null}"#,
            // The tokens of a secret are removed.
            r#"{"index":0,"delta":{"content":"what is [x] there"},"logprobs":{"content":[]},"finish_reason":null}"#,
            r#"{"index":0,"delta":{"content":" and everywhere"},"logprobs":{"content":[{"token":" and everywhere"}]},"finish_reason":"stop"}"#,
        ]
    );
}

#[test]
fn cumulative_text_shows_no_more_than_the_chunks() {
    let events = parsed(&[
        r#"{"choices":[{"index":0,"delta":{"content":"it is secret"},"message":{"content":"it is secret"},"finish_reason":null}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"-42."},"message":{"content":"it is secret-42."},"finish_reason":"stop"}]}"#,
    ]);
    let passed = through(&events);
    assert_eq!(passed[0].at_path("choices.0.message.content"), "it ".into());
    assert_eq!(passed[1].at_path("choices.0.message.content"), "it is [x].".into());
    assert_eq!(passed[1].at_path("choices.0.delta.content"), "is [x].".into());
}

#[test]
fn a_complete_text_without_a_match_passes_unchanged() {
    let text = r#"{"choices":[{"index":0,"delta":{"content":"Hi","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},"logprobs":{"content":[{"token":"Hi"}]},"finish_reason":"stop"}],"citations":[{"url":"u"}]}"#;
    let events = parsed(&[text]);
    let passed = through(&events);
    assert_eq!(passed[0].to_string(), text);
    assert!(!passed[0].is_changed());
}

#[test]
fn the_window_cuts_at_a_nearby_word_boundary() {
    assert_eq!(last_words("one two three", 4), "three".len());
    assert_eq!(last_words("grün ist es", 4), "ist es".len());
    assert_eq!(last_words("onetwothree", 4), 4);
    assert_eq!(last_words("abc", 9), 3);
    assert_eq!(last_words("abc", 0), 0);
    assert_eq!(last_words("", 9), 0);
}

proptest! {
    #[test]
    fn a_chunked_text_equals_the_filtered_complete_text(
        chunks in prop::collection::vec("(secret-42|secret|-42|a|aa|ü| |, |x{1,12}){0,4}", 1..8),
        finishes in any::<bool>(),
    ) {
        let mut events: Vec<Json> =
            chunks.iter().map(|text| delta_of(0, Json::from([("content", text.as_str().into())]), None)).collect();
        if finishes {
            events.push(delta_of(0, Json::object(), Some("stop")));
        }
        let text = chunks.concat();
        let answer = folded(&through(&events)).at_path("choices.0.message.content");
        let expected = Blot(MAX_LENGTH).changed(&text).unwrap();
        prop_assert_eq!(answer.as_str().unwrap_or_default(), expected.as_str());
    }
}

/// Removes words of ten or more digits.
struct LongNumbers;

impl WindowVisitor for LongNumbers {
    type Error = Infallible;

    fn changed(&mut self, text: &str) -> Result<CompactString, Infallible> {
        let words = text.split_inclusive(|letter: char| !letter.is_alphanumeric());
        let clean = |word: &'_ str| -> String {
            let bare = word.trim_end_matches(|letter: char| !letter.is_alphanumeric());
            let is_number = bare.len() >= 10 && bare.bytes().all(|byte| byte.is_ascii_digit());
            word[if is_number { bare.len() } else { 0 }..].to_owned()
        };
        Ok(words.map(clean).collect())
    }

    fn unfinished(&mut self, text: &str) -> Result<usize, Infallible> {
        Ok(last_words(text, 60))
    }
}

#[test]
fn text_before_an_interruption_is_sent_once_although_its_end_looks_like_a_match() {
    let events = parsed(&[
        r#"{"choices":[{"index":0,"delta":{"content":"K and8991279919130151258493812915 25265027258584747Ab26408730414146"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content_blocks":[{"type":"text"}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"and a 37690953965771 b"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
    ]);
    let kept = Json::object();
    for event in &events {
        pass(event, &kept, 60, &mut LongNumbers).unwrap();
    }
    let text = folded(&events).at_path("choices.0.message.content");
    assert_eq!(
        text,
        Json::from("K and8991279919130151258493812915 25265027258584747Ab26408730414146and a  b")
    );
}

/// Replaces each `cut` with its number, so that the result of a part depends on what precedes it.
struct Numbers;

impl WindowVisitor for Numbers {
    type Error = Infallible;

    fn changed(&mut self, text: &str) -> Result<CompactString, Infallible> {
        let parts = text.split("cut").enumerate();
        let numbered = parts.map(|(at, part)| if at == 0 { part.to_owned() } else { format!("{at}{part}") });
        Ok(numbered.collect())
    }

    fn unfinished(&mut self, text: &str) -> Result<usize, Infallible> {
        Ok(last_words(text, MAX_LENGTH))
    }
}

#[test]
fn a_text_that_cannot_be_divided_without_another_result_is_withheld() {
    let event = |text: &str| delta_of(0, Json::from([("content", text.into())]), None);
    let events = [event("cut and nothing else here then cut"), event(" off")];
    let kept = Json::object();
    pass(&events[0], &kept, MAX_LENGTH, &mut Numbers).unwrap();
    assert_eq!(events[0].at_path("choices.0.delta.content").as_str().unwrap_or_default(), "");
    pass(&events[1], &kept, MAX_LENGTH, &mut Numbers).unwrap();
    end(&kept, 0);
    let last = delta_of(0, Json::object(), None);
    pass(&last, &kept, MAX_LENGTH, &mut Numbers).unwrap();
    let text = folded(&[events[0].clone(), events[1].clone(), last]).at_path("choices.0.message.content");
    assert_eq!(text, Json::from("1 and nothing else here then 2 off"));
}

/// Counts the visits of stored texts, calls and deltas.
#[derive(Default)]
struct Visits(usize);

impl WindowVisitor for Visits {
    type Error = Infallible;

    fn changed(&mut self, text: &str) -> Result<CompactString, Infallible> {
        Ok(text.into())
    }

    fn unfinished(&mut self, text: &str) -> Result<usize, Infallible> {
        Ok(last_words(text, MAX_LENGTH))
    }

    fn visits(&mut self, count: usize) {
        self.0 += count;
    }
}

/// Returns the events of a stream of this length.
type Stream<'a> = &'a dyn Fn(i64) -> Vec<Json>;

#[test]
fn an_event_visits_what_it_continues_however_much_came_before() {
    let end = || delta_of(0, Json::object(), Some("stop"));
    let delta = |text: String| delta_of(0, Json::parse(text.as_bytes()).unwrap(), None);
    let named = |at: i64, text: &str| {
        delta(format!(
            r#"{{"tool_calls":[{{"index":{at},"id":"c{at}","function":{{"name":"f","arguments":{}}}}}]}}"#,
            Json::from(text)
        ))
    };
    let both = |first: Vec<Json>, then: Vec<Json>| [first, then].concat();
    let streams: [(&str, Stream<'_>); 9] = [
        ("calls", &|n| (0..n).flat_map(|at| [named(at, r#"{"a":"secr"#), call(at, r#"et"}"#)]).collect()),
        ("calls that never end", &|n| (0..n).map(|at| named(at, r#"{"a":"secr"#)).collect()),
        ("calls that end late", &|n| {
            both(
                (0..n).map(|at| named(at, r#"{"a":"secr"#)).collect(),
                (0..n).map(|at| call(at, r#"et"}"#)).collect(),
            )
        }),
        ("calls that end late in reverse", &|n| {
            both(
                (0..n).map(|at| named(at, r#"{"a":"secr"#)).collect(),
                (0..n).rev().map(|at| call(at, r#"et"}"#)).collect(),
            )
        }),
        ("one call after another one", &|n| {
            both(vec![named(0, "{\"a")], (0..n).map(|_| call(1, "secr")).collect())
        }),
        ("unknown fields", &|n| (0..n).map(|at| delta(format!(r#"{{"k{at}":"secr"}}"#))).collect()),
        ("thinking", &|n| {
            let detail = |at| {
                format!(r#"{{"reasoning_details":[{{"index":{at},"type":"reasoning.text","text":"secr"}}]}}"#)
            };
            (0..n).map(|at| delta(detail(at))).collect()
        }),
        ("signatures after many texts", &|n| {
            let part = |at| format!(r#"{{"type":"text","index":{at},"text":"secr"}}"#);
            let parts: Vec<String> = (0..n).map(part).collect();
            let signature = || delta(r#"{"signature":"s"}"#.to_owned());
            both(
                vec![delta(format!(r#"{{"content":[{}]}}"#, parts.join(",")))],
                (0..n).map(|_| signature()).collect(),
            )
        }),
        ("many ends", &|n| {
            let field = |at| delta(format!(r#"{{"k{at}":"secr"}}"#));
            both((0..n).map(field).collect(), (0..n).map(|_| end()).collect())
        }),
    ];
    for (name, stream) in streams {
        let visits = |n: i64| {
            let (kept, mut look) = (Json::object(), Visits::default());
            for event in both(stream(n), vec![end()]) {
                if ends_lanes(&event, &kept) {
                    pass(&delta_of(0, Json::object(), None), &kept, MAX_LENGTH, &mut look).unwrap();
                }
                pass(&event, &kept, MAX_LENGTH, &mut look).unwrap();
            }
            assert!(waiting(&kept).is_empty(), "{name}");
            look.0
        };
        let (few, many) = (visits(100), visits(1_000));
        assert!(few >= 100 && many <= 11 * few, "{name}: {few} of 100, {many} of 1,000");
    }
}
