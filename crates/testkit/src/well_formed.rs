//! Says whether a streamed answer is well formed: what every client may rely on, whatever the model
//! sent and the filters did.

use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The shape of every event that is_set what it is.
static CHUNK: LazyLock<Value> = LazyLock::new(|| Value::from("chat.completion.chunk"));

/// A stream as a client has to find it: its events, `[DONE]` left out.
pub fn events_of(body: &str) -> Vec<Value> {
    let events = lines_of(body);
    if let Err(wrong) = check(&events) {
        panic!("{wrong}\n{body}");
    }
    events
}

/// The same without asking more than that every event is JSON and that `[DONE]` ends it: what a
/// service sent is passed on with its habits where nobody looks.
pub fn lines_of(body: &str) -> Vec<Value> {
    let mut data = data_of(body);
    assert_eq!(data.pop().as_deref(), Some("[DONE]"), "the end is [DONE]\n{body}");
    let parse = |data: String| {
        serde_json::from_str(&data).unwrap_or_else(|error| panic!("{error} in {data:?}\n{body}"))
    };
    data.into_iter().map(parse).collect()
}

/// The data of each event, after the rules of server-sent events.
pub fn data_of(body: &str) -> Vec<String> {
    let body = body.strip_prefix('\u{feff}').unwrap_or(body).replace("\r\n", "\n").replace('\r', "\n");
    assert!(body.ends_with("\n\n"), "the last event is complete\n{body}");
    let (mut all, mut open) = (Vec::new(), Vec::new());
    for line in body.split('\n') {
        match line.strip_prefix("data:") {
            Some(data) => open.push(data.strip_prefix(' ').unwrap_or(data)),
            None if line.is_empty() && !open.is_empty() => all.push(std::mem::take(&mut open).join("\n")),
            None => {}
        }
    }
    assert!(open.is_empty(), "the last event is complete\n{body}");
    all
}

/// The name and the data of each event, `[DONE]` left out. The name is empty if there is none.
pub fn named_events(body: &str) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for event in body.split_terminator("\n\n") {
        let part = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        if let Some(data) = part("data:").filter(|data| *data != "[DONE]") {
            let data = serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"));
            all.push((part("event:").unwrap_or_default().to_owned(), data));
        }
    }
    all
}

/// Returns the error in the events of a stream, if there is one.
pub fn check(events: &[Value]) -> Result<(), String> {
    let mut seen = StreamState::default();
    for (place, event) in events.iter().enumerate() {
        seen.take(event).map_err(|wrong| format!("event {place}: {wrong}: {event}"))?;
    }
    seen.end()
}

#[derive(Default)]
struct StreamState {
    id: Option<String>,
    choices: BTreeMap<i64, Choice>,
    usage: bool,
    error: bool,
}

#[derive(Default)]
struct Choice {
    calls: usize,
    ended: bool,
}

impl StreamState {
    fn take(&mut self, event: &Value) -> Result<(), String> {
        if event.get("event").is_some() {
            // The events that plugins emit are not part of the answer.
            return Ok(());
        }
        ensure(!self.error, "comes after an error")?;
        if !event["error"].is_null() {
            let is_whole = !self.choices.is_empty() && self.choices.values().all(|choice| choice.ended);
            self.error = true;
            return ensure(!is_whole, "an error after a proper end");
        }
        let choices = event["choices"].as_array().ok_or("it has no choices")?;
        let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
        ensure(!text("id").is_empty(), "it has no id")?;
        let object = event.get("object").unwrap_or(&CHUNK);
        ensure(*object == *CHUNK, "it is not a chunk")?;
        let id = self.id.get_or_insert_with(|| text("id"));
        ensure(*id == text("id"), "its id is another one")?;
        if choices.is_empty() && !event["usage"].is_null() {
            ensure(!self.usage, "usage comes twice")?;
            ensure(self.choices.values().all(|choice| choice.ended), "usage comes before the end")?;
            self.usage = true;
        }
        choices.iter().try_for_each(|choice| self.take_choice(choice))
    }

    fn take_choice(&mut self, choice: &Value) -> Result<(), String> {
        let index = choice["index"].as_i64().ok_or("a choice without index")?;
        let delta = choice["delta"].as_object().ok_or("a choice without delta")?;
        ensure(!self.usage, "a choice after the usage")?;
        let says_role = delta.get("role").is_some_and(|role| !role.is_null());
        let is_first = !self.choices.contains_key(&index);
        ensure(is_first == says_role, "the role comes first and once")?;
        let known = self.choices.entry(index).or_default();
        ensure(!known.ended, "a choice goes on after its end")?;
        known.ended = choice["finish_reason"].as_str().is_some_and(|why| !why.is_empty());
        for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            let at = call["index"].as_u64().ok_or("a call without index")? as usize;
            let of = if call["custom"].is_null() { "function" } else { "custom" };
            let (id, name) = (&call["id"], &call[of]["name"]);
            let is_set = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
            ensure(at <= known.calls, "a call's index is too high")?;
            if at == known.calls {
                ensure(is_set(id) && is_set(name), "a call begins without id or name")?;
                known.calls += 1;
            } else {
                ensure(!is_set(id) && !is_set(name), "a call's id or name comes twice")?;
            }
        }
        Ok(())
    }

    fn end(&self) -> Result<(), String> {
        let open = self.choices.iter().find(|(_, choice)| !choice.ended);
        match open {
            Some((index, _)) if !self.error => Err(format!("choice {index} has no end")),
            _ if self.choices.is_empty() && !self.error => Err("it is_set nothing at all".to_owned()),
            _ => Ok(()),
        }
    }
}

fn ensure(is_so: bool, otherwise: &str) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(otherwise.to_owned()) }
}

#[test]
fn the_checker_finds_malformed_streams() {
    let chunk = |choices: &str| {
        let text = format!(r#"{{"id":"c","object":"chat.completion.chunk","choices":[{choices}]}}"#);
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let begin = chunk(r#"{"index":0,"delta":{"role":"assistant","content":"a"}}"#);
    let end = chunk(r#"{"index":0,"delta":{},"finish_reason":"stop"}"#);
    let error = serde_json::json!({"error": {"message": "m"}});
    let call = chunk(r#"{"index":0,"delta":{"tool_calls":[{"index":1,"id":"i","function":{"name":"f"}}]}}"#);
    assert_eq!(check(&[begin.clone(), end.clone()]), Ok(()));
    assert_eq!(check(&[begin.clone(), error.clone()]), Ok(()));
    for (events, wrong) in [
        (vec![begin.clone()], "has no end"),
        (vec![], "is_set nothing"),
        (vec![end.clone()], "role comes first"),
        (vec![begin.clone(), begin.clone()], "first and once"),
        (vec![begin.clone(), end.clone(), end.clone()], "after its end"),
        (vec![begin.clone(), end.clone(), error.clone()], "after a proper end"),
        (vec![begin.clone(), error, end.clone()], "after an error"),
        (vec![begin, call], "index is too high"),
    ] {
        let found = check(&events).unwrap_err();
        assert!(found.contains(wrong), "{wrong:?} is not in {found:?}");
    }
}
