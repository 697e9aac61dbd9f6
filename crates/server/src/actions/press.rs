//! A press of a button, which runs as a turn.

use crate::facts;
use axum::http::request::Parts;
use futures::future::BoxFuture;
use valvehouse_core::chat::ChatRequest;
use valvehouse_core::context::{Events, Turn, TurnFacts};
use valvehouse_core::error::Error;
use valvehouse_host::app::App;
use valvehouse_host::{Ready, Snapshot};
use valvehouse_json::Json;
use valvehouse_script::{Button, ScriptAction};

/// The future that runs a press and returns its result.
pub(super) type Work = BoxFuture<'static, Result<Json, Error>>;

/// A press of a button.
pub(crate) struct Press {
    action: ScriptAction,
    button: Button,
    body: Json,
    /// The model whose answer contains the button; `None` if the press names no model.
    model: Option<Ready>,
    /// Set if the client requests server-sent events.
    pub(super) streams: bool,
}

impl Press {
    /// Parses the body of a press: `{model, messages, chat_id, session_id, id}` and any other fields.
    ///
    /// # Errors
    /// Returns a request error for an invalid body, for an unknown model, and for a button that is not shown under
    /// the model's answers.
    pub(crate) fn read(snapshot: &Snapshot, id: &str, body: Json) -> Result<Self, Error> {
        if !matches!(body.get("messages"), Some(Json::Array(_))) {
            let message = "send {\"model\": …, \"messages\": […], \"chat_id\": …, \"id\": …}";
            return Err(Error::invalid(message, Some("messages")));
        }
        ChatRequest::check_messages(&body)?;
        let name = match body.get("model") {
            None | Some(Json::Null) => String::new(),
            Some(Json::Text(name)) => name.to_string(),
            Some(_) => return Err(Error::invalid("`model` must be a text", Some("model"))),
        };
        let model = match name.as_str() {
            "" => None,
            name => Some(snapshot.ready(name, &facts::filter_ids(&body))?),
        };
        let (action, button) = snapshot.pressed(id, &name)?;
        let streams = body.remove("stream").is_some_and(|stream| stream == true.into());
        Ok(Self { action, button, body, model, streams })
    }

    /// Returns the facts about the press for scripts.
    pub(crate) fn facts(&self, app: &App, snapshot: &Snapshot, parts: &Parts, key_user: &Json) -> TurnFacts {
        let model = self.model.as_ref().map_or(Json::Null, |ready| ready.facts.clone());
        facts::of_body(app, parts, &self.body, key_user, model, snapshot.listed().clone())
    }

    /// Returns the turn of the press. Tools and models that the script calls pass through the filters of the
    /// model.
    pub(crate) fn turn(&self, app: &App, snapshot: &Snapshot, facts: TurnFacts, events: Events) -> Turn {
        let context = facts::context(app, &facts, &self.body);
        let turn = Turn::new(facts, context, events);
        match &self.model {
            Some(ready) => ready.kernel.runs(&turn),
            None => snapshot.invoking_only(Vec::new()).runs(&turn),
        }
        turn
    }

    /// Runs the press to its end. Dropping the future cancels it.
    pub(crate) fn run(self, turn: Turn) -> Work {
        Box::pin(async move {
            let Self { action, button, body, .. } = self;
            let message = body.text("id").filter(|id| !id.is_empty()).map(String::from);
            let work = async {
                let result = action.press(&button, body, &turn).await;
                turn.flushed(result).await
            };
            turn.lasting(work).await.map(|result| with_message(result, message))
        })
    }
}

/// Adds the `content` of a result as a message, which is the form that Open WebUI's page reads.
fn with_message(result: Json, message: Option<String>) -> Json {
    let Some(id) = message else { return result };
    if let Some(content @ Json::Text(_)) = result.get("content")
        && result.get("messages").is_none()
    {
        let message = Json::from([("id", id.into()), ("role", "assistant".into()), ("content", content)]);
        // The result is not shared.
        result.edit("messages", vec![message]);
    }
    result
}
