//! Conversion between payloads of events and the values that filters receive.

use super::listing::{InterceptionEvent, Phase};
use crate::server::result::of_tool;
use serde_json::{Value, json};
use valvehouse_core::chat::ChatRequest;
use valvehouse_core::context::Turn;
use valvehouse_core::filter::Hook;
use valvehouse_core::tool::ToolContent;
use valvehouse_json::Json;

/// The payload of an event: the `params` or `result` of MCP, or the request or answer of a model.
pub(super) struct Payload {
    event: InterceptionEvent,
    phase: Phase,
    value: Value,
    /// `true` if it was sent as `{ method, params }`.
    is_wrapped: bool,
}

impl Payload {
    /// Reads a payload.
    ///
    /// # Errors
    /// Returns the reason why filters cannot process it.
    pub(super) fn read(event: InterceptionEvent, phase: Phase, given: &Value) -> Result<Self, String> {
        let is_wrapped =
            phase == Phase::Request && given["method"].is_string() && given["params"].is_object();
        let value = if is_wrapped { &given["params"] } else { given };
        let is_map_or_left_out = |key: &str| value[key].is_object() || value[key].is_null();
        let is_list_or_left_out = |key: &str| value[key].is_array() || value[key].is_null();
        let (fits, what) = match (event, phase) {
            (InterceptionEvent::ToolCall | InterceptionEvent::Prompt, Phase::Request) => (
                value["name"].is_string() && is_map_or_left_out("arguments"),
                "a `name` and an object `arguments`",
            ),
            (InterceptionEvent::Resource, Phase::Request) => (value["uri"].is_string(), "a `uri`"),
            (InterceptionEvent::Completion, Phase::Request) => (value.is_object(), "`model` and `messages`"),
            (InterceptionEvent::Completion, Phase::Response) => (value["message"].is_object(), "a `message`"),
            (InterceptionEvent::ToolCall, Phase::Response) => {
                (value.is_object() && is_list_or_left_out("content"), "the result and its list `content`")
            }
            (InterceptionEvent::Prompt, Phase::Response) => {
                (value.is_object() && is_list_or_left_out("messages"), "the result and its list `messages`")
            }
            (InterceptionEvent::Resource, Phase::Response) => {
                (value.is_object() && is_list_or_left_out("contents"), "the result and its list `contents`")
            }
        };
        let about = format!("invalid payload of `{}` ({})", event.as_str(), phase.as_str());
        if !fits {
            return Err(format!("{about}: expected an object with {what}"));
        }
        let checked = match (event, phase) {
            (InterceptionEvent::Completion, Phase::Request) => Some(value.clone()),
            // An answer is checked as the last message of a chat.
            (InterceptionEvent::Completion, Phase::Response) => {
                Some(json!({ "model": "any", "messages": [value["message"]] }))
            }
            _ => None,
        };
        // Filters receive only requests that the chat endpoints would accept.
        if let Some(request) = checked {
            ChatRequest::new(Json::from(request)).map_err(|error| format!("{about}: {error}"))?;
        }
        Ok(Self { event, phase, value: value.clone(), is_wrapped })
    }

    /// Returns the value for a hook.
    pub(super) fn shown(&self, hook: Hook, turn: &Turn) -> Json {
        match hook {
            Hook::Inlet => Json::from(self.value.clone()),
            Hook::PreChat => {
                turn.ctx_of([("messages", self.part("messages")), ("model", self.part("model"))])
            }
            Hook::PostChat => turn.ctx_of([("messages", Json::array()), ("result", self.part("message"))]),
            Hook::Outlet => Json::from([
                ("model", self.part("model")),
                ("messages", vec![self.part("message")].into()),
                ("chat_id", turn.facts().chat_id.as_str().into()),
                ("session_id", Json::Null),
                ("id", turn.facts().message_id.as_str().into()),
            ]),
            Hook::PreInvocation => turn.ctx_of([("tool", self.tool()), ("args", self.args())]),
            _ => turn.ctx_of([
                ("tool", self.tool()),
                ("args", Json::object()),
                ("result", Json::from(self.result())),
            ]),
        }
    }

    /// Applies the changes that a hook made to its value.
    pub(super) fn take(&mut self, hook: Hook, made: &Json) {
        let field = |name: &str| Value::from(&made.field(name));
        match hook {
            Hook::Inlet => self.value = Value::from(made),
            Hook::PreChat => self.value["messages"] = field("messages"),
            Hook::PostChat => self.take_answer(field("result")),
            Hook::Outlet => {
                let last = made.get("messages").and_then(|messages| messages.at(-1));
                self.take_answer(last.as_ref().map_or(Value::Null, Value::from));
            }
            Hook::PreInvocation => self.take_args(field("args")),
            _ => self.take_result(&made.field("result")),
        }
    }

    /// Applies the value with which a filter ended the chain. Returns `false` if it replaces an answer that
    /// does not exist yet.
    pub(super) fn take_skipped(&mut self, value: &Json) -> bool {
        match (self.phase, self.event) {
            (Phase::Request, _) => return false,
            (Phase::Response, InterceptionEvent::Completion) => self.take_answer(Value::from(value)),
            (Phase::Response, _) => self.take_result(value),
        }
        true
    }

    /// Returns the payload in the form in which it was sent.
    pub(super) fn written(self, given: &Value) -> Value {
        match self.is_wrapped {
            true => {
                let mut whole = given.clone();
                whole["params"] = self.value;
                whole
            }
            false => self.value,
        }
    }

    fn part(&self, name: &str) -> Json {
        Json::from(self.value[name].clone())
    }

    /// Returns the tool, prompt or resource that the payload names.
    fn tool(&self) -> Json {
        let (name, tags) = match self.event {
            InterceptionEvent::Resource => ("resource", vec!["resource".into()]),
            InterceptionEvent::Prompt => (self.name(), vec!["prompt".into()]),
            _ => (self.name(), Vec::<Json>::new()),
        };
        let tool = Json::from([
            ("name", name.into()),
            ("description", "".into()),
            ("parameters", Json::object()),
            ("tags", Json::from(tags)),
            ("metadata", Json::object()),
        ]);
        tool.freeze()
    }

    fn name(&self) -> &str {
        self.value["name"].as_str().unwrap_or("")
    }

    fn args(&self) -> Json {
        match self.event {
            InterceptionEvent::Resource => Json::from([("uri", self.part("uri"))]),
            _ if self.value["arguments"].is_null() => Json::object(),
            _ => self.part("arguments"),
        }
    }

    fn take_args(&mut self, args: Value) {
        match self.event {
            InterceptionEvent::Resource => self.value["uri"] = args["uri"].clone(),
            // Omitted arguments stay omitted.
            _ if self.value["arguments"].is_null() && args == json!({}) => {}
            _ => self.value["arguments"] = args,
        }
    }

    /// Returns the result in the form of this host's tools.
    fn result(&self) -> Value {
        if self.event != InterceptionEvent::ToolCall {
            return self.value.clone();
        }
        let content = Json::from([("content", self.part("content"))]);
        if !self.value["structuredContent"].is_null() {
            content.edit("structuredContent", self.part("structuredContent"));
        }
        Value::from(&*ToolContent::readable(&ToolContent::value_of(&content)))
    }

    fn take_result(&mut self, made: &Json) {
        let made_value = Value::from(made);
        if made_value == self.result() {
            return;
        }
        if self.event != InterceptionEvent::ToolCall {
            self.value = made_value;
            return;
        }
        let is_structured = !self.value["structuredContent"].is_null();
        let whole = serde_json::to_value(of_tool(made, is_structured));
        let Ok(Value::Object(whole)) = whole else { return };
        for key in ["content", "structuredContent"] {
            match whole.get(key).filter(|part| key == "content" || is_structured && !part.is_null()) {
                Some(part) => self.value[key] = part.clone(),
                // No part of the previous result may remain.
                None => drop(self.value.as_object_mut().and_then(|fields| fields.remove(key))),
            }
        }
    }

    fn take_answer(&mut self, answer: Value) {
        match answer {
            Value::Object(_) => self.value["message"] = answer,
            Value::Null => {}
            Value::String(_) => self.value["message"]["content"] = answer,
            other => self.value["message"]["content"] = other.to_string().into(),
        }
    }
}
