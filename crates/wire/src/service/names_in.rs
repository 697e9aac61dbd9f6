//! The names of fields in the texts of refusals.

use compact_str::CompactString;
use valvehouse_core::chat::{ONLY_ANTHROPIC, ONLY_OLLAMA};
use valvehouse_core::provider::ONLY_RESPONSES;
use valvehouse_json::Json;

/// A field of a request that a service refuses.
#[derive(Debug, PartialEq)]
pub(super) enum Field {
    /// A field beside messages and tools.
    Outer(CompactString),
    /// A field within a list of the request.
    Inner(&'static str, CompactString),
}

/// The fields with the settings of single protocols.
pub(super) const HOLDERS: [&str; 3] = [ONLY_ANTHROPIC, ONLY_OLLAMA, ONLY_RESPONSES];

/// The names of settings of thinking in services' refusals.
pub(super) const THINKING: [&str; 5] = ["thinking", "reasoning", "reasoning_effort", "effort", "think"];

/// The words of which one is in a refusal of a field, in lower case.
const REFUSES: [&str; 20] = [
    "unsupported",
    "not supported",
    "not support",
    "unknown",
    "unrecognized",
    "unexpected",
    "extra inputs",
    "extra fields",
    "extra_forbidden",
    "additional properties",
    "not permitted",
    "not allowed",
    "deprecated",
    "find field",
    "cannot both",
    "incompatible",
    "not compatible",
    "only the default",
    "is allowed for this model",
    "may only be set",
];
/// The fields without which a request is another one.
const NEEDED: [&str; 26] = [
    "model",
    "messages",
    "input",
    "system",
    "tools",
    "tool_choice",
    "functions",
    "function_call",
    "stream",
    "n",
    "response_format",
    "max_tokens",
    "max_completion_tokens",
    "modalities",
    "audio",
    "role",
    "content",
    "type",
    "text",
    "id",
    "name",
    "function",
    "arguments",
    "parameters",
    "tool_calls",
    "tool_call_id",
];
/// The fields of a chat with other names in other protocols.
const ALIASES: [(&str, &str); 6] = [
    ("stop_sequences", "stop"),
    ("user_id", "user"),
    ("random_seed", "seed"),
    ("include_usage", "stream_options"),
    ("disable_parallel_tool_use", "parallel_tool_calls"),
    ("format", "response_format"),
];
/// The words beside the name of a field.
const BESIDE: [&str; 8] =
    ["parameter", "parameters", "argument", "field", "property", "supplied", "name", "key"];

/// Returns the words of a text, which may be paths.
pub(super) fn words(text: &str) -> Vec<&str> {
    places(text).into_iter().map(|(_, word)| word).collect()
}

/// Returns the words of a text with the bytes at which they begin.
fn places(text: &str) -> Vec<(usize, &str)> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_.[]$-/".contains(letter);
    let words = text.split(|letter: char| !is_part(letter)).map(|word| {
        let word = word.trim_matches(['.', '-', '/']);
        (word.as_ptr() as usize - text.as_ptr() as usize, word)
    });
    words.filter(|(_, word)| !word.is_empty()).collect()
}

/// Returns the fields of a request that a refusal names: the first one of each of its lines.
pub(super) fn fields(refusal: &str, param: &str, request: &Json) -> Vec<Field> {
    let of_line = |line: &str| {
        let lower = line.to_lowercase();
        if !REFUSES.iter().any(|words| lower.contains(words)) {
            return None;
        }
        // Names that the service expects instead are not refused.
        let named = named_in(line.split(", expected").next().unwrap_or(line));
        let list = named.iter().chain([&param]).find_map(|path| list_of(path));
        named.into_iter().find_map(|name| field(name, list, request))
    };
    let of_param = || field(param, list_of(param), request).filter(|_| of_line(refusal).is_none());
    let mut all: Vec<Field> = refusal.lines().filter_map(of_line).collect();
    if all.is_empty() && REFUSES.iter().any(|words| refusal.to_lowercase().contains(words)) {
        all.extend(of_param());
    }
    all
}

/// Returns the words of a line that are names by their form or place.
fn named_in(line: &str) -> Vec<&str> {
    let places = places(line);
    let is_beside = |at: Option<usize>| {
        at.and_then(|at| places.get(at)).is_some_and(|(_, word)| BESIDE.contains(&&*word.to_lowercase()))
    };
    let is_named = |at: usize, begin: usize, word: &str| {
        let (before, after) = (&line[..begin], &line[begin + word.len()..]);
        begin == 0
            || before.ends_with(['\'', '"', '`'])
            || (before.ends_with(": ") && after.trim_matches('.').is_empty())
            || after.starts_with(['\'', '"', '`', ':'])
            || word.contains(['_', '.'])
            || is_beside(at.checked_sub(1))
            || is_beside(Some(at + 1))
    };
    let all = places.iter().enumerate();
    all.filter(|(at, (begin, word))| is_named(*at, *begin, word)).map(|(_, (_, word))| *word).collect()
}

/// Returns the segments of a path that are names.
fn segments(path: &str) -> Vec<&str> {
    let is_name = |part: &&str| !part.is_empty() && !part.bytes().all(|byte| byte.is_ascii_digit());
    path.split(['.', '[', ']', '/']).filter(is_name).collect()
}

/// Returns the list of a request that a path begins with.
fn list_of(path: &str) -> Option<&'static str> {
    let segments = segments(path);
    match *segments.iter().find(|own| **own != "body").filter(|_| path.contains(['.', '[', '/']))? {
        "tools" => Some("tools"),
        "messages" | "system" | "input" | "contents" => Some("messages"),
        _ => None,
    }
}

/// Returns the field of a request with this name.
fn field(path: &str, list: Option<&'static str>, request: &Json) -> Option<Field> {
    let name = snake(segments(path).last()?);
    let own = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(&*name, |(_, own)| own);
    if NEEDED.contains(&own) {
        return None;
    }
    match list {
        Some(list) => Some(Field::Inner(list, segments(path).last().copied()?.into())).filter(|_| {
            let is_there = |item: &Json| holds(item, segments(path).last().copied().unwrap_or(""));
            request.list(list).iter().any(is_there)
        }),
        None => {
            let is_there = request.get(own).is_some()
                || THINKING.contains(&own)
                || HOLDERS.iter().any(|holder| request.field(holder).get(own).is_some());
            is_there.then(|| Field::Outer(own.into()))
        }
    }
}

/// Returns `true` if a value has a field of this name at any depth.
pub(super) fn holds(value: &Json, name: &str) -> bool {
    match value {
        Json::Object(fields) => {
            fields.contains(name) || fields.entries().iter().any(|(_, inner)| holds(inner, name))
        }
        Json::Array(items) => items.with(|items| items.iter().any(|item| holds(item, name))),
        _ => false,
    }
}

/// Returns a name with underscores between its words, as those of chats are written.
fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_fields_of_the_request() {
        let request = Json::parse(
            br#"{"model":"m","temperature":0,"stop":["x"],"num_ctx":1,"presence_penalty":1,"store":true,"stream_options":{},
            "anthropic":{"context_management":{}},"messages":[{"role":"assistant","reasoning_content":"r"}],
            "tools":[{"function":{"name":"f","strict":true,"parameters":{"$schema":"s","properties":{"a":{"exclusiveMinimum":0}}}}}]}"#,
        )
        .unwrap();
        let outer = |name: &str| vec![Field::Outer(name.into())];
        let inner = |list, name: &str| vec![Field::Inner(list, name.into())];
        for (refusal, found) in [
            ("Unsupported value: 'temperature' does not support 0 with this model.", outer("temperature")),
            ("invalid temperature: only 1 is allowed for this model", outer("temperature")),
            ("Unrecognized request argument supplied: num_ctx", outer("num_ctx")),
            ("Model grok-4 does not support parameter presencePenalty.", outer("presence_penalty")),
            ("Argument not supported on this model: presencePenalty", outer("presence_penalty")),
            ("Temperature is not supported by this model", outer("temperature")),
            ("unknown field `x`, expected one of `messages`, `temperature`", Vec::new()),
            ("#: extraneous key [context_management] is not permitted", outer("context_management")),
            ("#/tools/0: extraneous key [strict] is not permitted", inner("tools", "strict")),
            ("stop_sequences: Extra inputs are not permitted", outer("stop")),
            ("context_management: Extra inputs are not permitted", outer("context_management")),
            ("Unknown parameter: 'stream_options.include_usage'.", outer("stream_options")),
            (
                "property 'messages.2.assistant.reasoning_content' is unsupported",
                inner("messages", "reasoning_content"),
            ),
            ("tools.0.custom.strict: Extra inputs are not permitted", inner("tools", "strict")),
            (
                "Invalid JSON payload received. Unknown name \"$schema\" at 'tools[0].function_declarations[0].parameters': Cannot find field.\nInvalid JSON payload received. Unknown name \"exclusiveMinimum\" at 'tools[0].function_declarations[0].parameters.properties[0].value': Cannot find field.",
                vec![
                    Field::Inner("tools", "$schema".into()),
                    Field::Inner("tools", "exclusiveMinimum".into()),
                ],
            ),
            ("'messages' are not supported", Vec::new()),
            ("Unknown parameter: 'seed'", Vec::new()),
            ("temperature must be a number", Vec::new()),
            ("The store is not supported here", Vec::new()),
        ] {
            assert_eq!(fields(refusal, "", &request), found, "{refusal}");
        }
        assert_eq!(fields("Unsupported parameter", "temperature", &request), outer("temperature"));
    }
}
