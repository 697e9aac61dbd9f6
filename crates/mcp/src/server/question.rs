//! Conversion of a plugin's question to a request to the MCP client, and of the client's result to the
//! answer.

use rmcp::model::{ClientCapabilities, InputRequest, UrlElicitationCapability};
use serde_json::{Value, json};
use valvehouse_core::text::{optional, yes_or_no};
use valvehouse_json::Json;

/// The client capability that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// A form.
    Elicitation,
    /// An address that the user opens.
    Url,
    Sampling,
    Roots,
}

/// The conversion of a client's result to the plugin's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// The result itself.
    Raw,
    /// The text of a form; `false` if the user closed it.
    Text,
    /// Yes or no.
    Confirmation,
    /// `{approved, reason}`.
    Approval,
}

/// A request to the client.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    /// The key of its result.
    pub(super) key: String,
    pub(super) request: InputRequest,
    pub(super) needs: Needs,
    reading: Reading,
}

/// A question: one request, or several named ones.
#[derive(Debug, Clone)]
pub(super) struct Question {
    pub(super) asks: Vec<Ask>,
    is_group: bool,
    /// `true` if a user decides whether a call may run.
    pub(super) is_approval: bool,
}

impl Question {
    /// Reads an event `{type, data}` that waits for an answer. `place` is the number of the question in its
    /// call.
    ///
    /// The data of `elicitation`, `sampling` and `roots` are parameters of MCP, and their answers are the
    /// client's results; `inputs` has several of them by name. `input`, `confirmation` and `approval` are
    /// forms, like any other type.
    pub(super) fn of(event: &Json, place: u32) -> Result<Self, String> {
        let kind = event.text_or_empty("type");
        let data = event.field("data");
        if kind == "inputs" {
            let entries = data.entries();
            if entries.is_empty() {
                return Err("invalid `inputs`: expected a map of names and questions in its `data`".into());
            }
            let asks =
                entries.iter().map(|(name, question)| ask(name, question)).collect::<Result<_, _>>()?;
            return Ok(Self { asks, is_group: true, is_approval: false });
        }
        let key = data.text("name").map_or_else(|| format!("input_{}", place + 1), String::from);
        Ok(Self { asks: vec![ask(&key, event)?], is_group: false, is_approval: kind == "approval" })
    }

    /// Returns the requests that a client can answer.
    pub(super) fn possible(&self, capabilities: &ClientCapabilities) -> Vec<&Ask> {
        let can = |needs: Needs| match needs {
            // `elicitation: {}` declares forms only.
            Needs::Elicitation => {
                capabilities.elicitation.as_ref().is_some_and(|own| own.form.is_some() || own.url.is_none())
            }
            Needs::Url => capabilities.elicitation.as_ref().is_some_and(|own| own.url.is_some()),
            Needs::Sampling => capabilities.sampling.is_some(),
            Needs::Roots => capabilities.roots.is_some(),
        };
        self.asks.iter().filter(|ask| can(ask.needs)).collect()
    }

    /// Returns the capabilities that a client must declare to answer.
    pub(super) fn required(&self) -> ClientCapabilities {
        let mut required = ClientCapabilities::default();
        for ask in &self.asks {
            match ask.needs {
                Needs::Elicitation => {
                    required.elicitation.get_or_insert_default();
                }
                Needs::Url => {
                    required.elicitation.get_or_insert_default().url =
                        Some(UrlElicitationCapability::default());
                }
                Needs::Sampling => required.sampling = Some(Default::default()),
                Needs::Roots => required.roots = Some(Default::default()),
            }
        }
        required
    }

    /// Returns the answer from the client's results; `None` if a result is missing or invalid.
    pub(super) fn answer(&self, questions: &[&Ask], result: impl Fn(&str) -> Option<Value>) -> Option<Json> {
        let answers: Vec<(&str, Json)> = questions
            .iter()
            .map(|ask| Some((ask.key.as_str(), ask.reading.read(&result(&ask.key)?, ask.needs)?)))
            .collect::<Option<_>>()?;
        if !self.is_group {
            return answers.into_iter().next().map(|(_, answer)| answer);
        }
        let group = Json::object();
        for (key, answer) in answers {
            // The object is new and not read-only.
            group.edit(key, answer);
        }
        Some(group)
    }
}

fn ask(key: &str, event: &Json) -> Result<Ask, String> {
    let kind = event.text_or_empty("type");
    let data = event.field("data");
    let params = || match Value::from(&data) {
        Value::Object(mut params) => {
            params.remove("name");
            Value::Object(params)
        }
        _ => json!({}),
    };
    let (method, params, needs, reading) = match kind.as_str() {
        "elicitation" if data.text("mode").is_some_and(|mode| mode == "url") => {
            ("elicitation/create", params(), Needs::Url, Reading::Raw)
        }
        "elicitation" => ("elicitation/create", params(), Needs::Elicitation, Reading::Raw),
        "sampling" => ("sampling/createMessage", params(), Needs::Sampling, Reading::Raw),
        "roots" => ("roots/list", json!({}), Needs::Roots, Reading::Raw),
        "confirmation" => {
            let form = form(
                &message(&data),
                "confirmed",
                json!({ "type": "boolean", "title": title(&data, "Confirm") }),
            );
            ("elicitation/create", form, Needs::Elicitation, Reading::Confirmation)
        }
        "approval" => {
            let why = optional(data.text("description"), |why| format!("{why}\n"));
            let tool = data.text_or_empty("tool");
            let arguments = data.field("arguments").pretty(2);
            let text = data
                .text("message")
                .map_or_else(|| format!("{why}May `{tool}` run with {arguments}?"), String::from);
            let form = form(&text, "approved", json!({ "type": "boolean", "title": "Approve this call" }));
            ("elicitation/create", form, Needs::Elicitation, Reading::Approval)
        }
        _ => {
            let mut property = json!({ "type": "string", "title": title(&data, "Answer") });
            if let Some(hint) = data.text("placeholder") {
                property["description"] = json!(hint.as_str());
            }
            let choices: Vec<String> = data.list("choices").iter().map(in_words).collect();
            if !choices.is_empty() {
                property["enum"] = json!(choices);
            }
            let form = form(&message(&data), "answer", property);
            ("elicitation/create", form, Needs::Elicitation, Reading::Text)
        }
    };
    let request = serde_json::from_value(json!({ "method": method, "params": params }));
    let request = request.map_err(|_| {
        format!("the data of `{kind}` is not valid for `{method}` of MCP; check its `message` and `requestedSchema`, or `messages` and `maxTokens`")
    })?;
    Ok(Ask { key: key.to_owned(), request, needs, reading })
}

fn form(message: &str, name: &str, property: Value) -> Value {
    json!({
        "message": message,
        "requestedSchema": { "type": "object", "properties": { name: property }, "required": [name] },
    })
}

fn title(data: &Json, other: &str) -> String {
    data.text("title").map_or_else(|| other.to_owned(), String::from)
}

/// Returns the text for the user: the message, else the title, else the whole question.
fn message(data: &Json) -> String {
    let text = data.text("message").or_else(|| data.text("title")).filter(|text| !text.trim().is_empty());
    text.map_or_else(|| in_words(data), String::from)
}

fn in_words(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl Reading {
    /// Converts a result; `None` if it is of another kind.
    fn read(self, result: &Value, needs: Needs) -> Option<Json> {
        let has = |key: &str| result.get(key).is_some();
        let fits = match needs {
            Needs::Elicitation | Needs::Url => {
                matches!(result["action"].as_str(), Some("accept" | "decline" | "cancel"))
            }
            Needs::Sampling => has("content"),
            Needs::Roots => result["roots"].is_array(),
        };
        if !fits {
            return None;
        }
        let accepted = result["action"] == "accept";
        let given = |key: &str| result["content"].get(key).filter(|_| accepted).cloned();
        let is_yes = |given: Option<Value>| match given {
            Some(Value::Bool(yes)) => yes,
            Some(Value::String(text)) => yes_or_no(&text) == Some(true),
            _ => false,
        };
        Some(match self {
            Self::Raw => Json::from(result.clone()),
            Self::Text => given("answer").map_or(Json::Bool(false), Json::from),
            Self::Confirmation => is_yes(given("confirmed")).into(),
            Self::Approval => Json::from([("approved", is_yes(given("approved")).into())]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(text: &str) -> Question {
        Question::of(&Json::parse(text.as_bytes()).unwrap(), 0).unwrap()
    }

    fn answered(question: &Question, result: Value) -> Option<String> {
        let asks: Vec<&Ask> = question.asks.iter().collect();
        question.answer(&asks, |_| Some(result.clone())).map(|answer| answer.to_string())
    }

    #[test]
    fn host_questions_become_forms_and_only_an_explicit_yes_approves() {
        let confirm = question(r#"{"type": "confirmation", "data": {"message": "Sure?"}}"#);
        assert_eq!(
            answered(&confirm, json!({"action": "accept", "content": {"confirmed": true}})).unwrap(),
            "true"
        );
        for no in [
            json!({"action": "accept", "content": {}}),
            json!({"action": "decline", "content": {"confirmed": true}}),
        ] {
            assert_eq!(answered(&confirm, no).unwrap(), "false");
        }
        assert_eq!(answered(&confirm, json!(12345)), None);
        let approval =
            question(r#"{"type": "approval", "data": {"tool": "pay", "arguments": {"amount": 10}}}"#);
        assert!(approval.is_approval);
        let text = serde_json::to_string(&approval.asks[0].request).unwrap();
        assert!(text.contains("May `pay` run with") && text.contains("amount"), "{text}");
        assert_eq!(answered(&approval, json!({"action": "cancel"})).unwrap(), r#"{"approved":false}"#);
        let input = question(r#"{"type": "input", "data": {"title": "City", "choices": ["Oslo", 7]}}"#);
        assert_eq!(
            answered(&input, json!({"action": "accept", "content": {"answer": "Oslo"}})).unwrap(),
            "\"Oslo\""
        );
        assert_eq!(answered(&input, json!({"action": "decline"})).unwrap(), "false");
    }

    #[test]
    fn requests_are_answered_by_name_and_limited_to_client_capabilities() {
        let both = question(
            r#"{"type": "inputs", "data": {
                "who": {"type": "input", "data": {"message": "Who?"}},
                "model": {"type": "sampling", "data": {"messages": [], "maxTokens": 5}}}}"#,
        );
        let mut capabilities = ClientCapabilities::default();
        assert!(both.possible(&capabilities).is_empty());
        capabilities.sampling = Some(Default::default());
        let possible = both.possible(&capabilities);
        assert_eq!(possible.len(), 1);
        let answer = both.answer(&possible, |_| {
            Some(json!({"role": "assistant", "content": {"type": "text", "text": "x"}}))
        });
        assert_eq!(answer.unwrap().at_path("model.content.text").as_str(), Some("x"));
        assert!(both.answer(&possible, |_| None).is_none());
    }

    #[test]
    fn addresses_need_a_client_that_declares_them() {
        let form = question(r#"{"type": "input", "data": {"message": "Who?"}}"#);
        let address = question(
            r#"{"type": "elicitation", "data": {"mode": "url", "message": "m", "url": "https://x.example", "elicitationId": "e"}}"#,
        );
        for (declared, takes_forms, takes_addresses) in [
            (json!({}), true, false),
            (json!({ "form": {} }), true, false),
            (json!({ "url": {} }), false, true),
            (json!({ "form": {}, "url": {} }), true, true),
        ] {
            let capabilities: ClientCapabilities =
                serde_json::from_value(json!({ "elicitation": declared })).unwrap();
            assert_eq!(form.possible(&capabilities).len(), usize::from(takes_forms), "{declared}");
            assert_eq!(address.possible(&capabilities).len(), usize::from(takes_addresses), "{declared}");
        }
        assert!(address.required().elicitation.is_some_and(|own| own.url.is_some()));
    }

    #[test]
    fn data_that_mcp_does_not_accept_is_a_clear_error() {
        let wrong = Json::parse(br#"{"type": "elicitation", "data": {"requestedSchema": 5}}"#).unwrap();
        assert!(Question::of(&wrong, 0).unwrap_err().contains("requestedSchema"));
    }
}
